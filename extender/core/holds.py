"""A hold (one pod's bind call at the gate) and a gang (the holds and the round of one group): data.

Takes moves by name, gives counts; must not decide, emit effects or look at the world.

    READING ---> HELD <---> ASKED          READING: waits for the newest state of its pod
       |          | \\         |            HELD: counts for its group
       |          |  \\        |            ASKED: the extender has been asked about it
       |          v   \\       v            COMMITTING: a Binding was sent; ends proved or refused
       +----> COMMITTING <----+            ANSWERED, CLOSED: ends
                  |                        (every state but COMMITTING may also end as CLOSED)
                  v
              ANSWERED  <--- (any state)

Nothing here survives a restart: the scheduler's connections end with us, and it calls again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from extender.core.gate_messages import CallId
from extender.core.ids import NO_TASK, GroupKey, NodeName, PodUid, TaskName
from extender.core.membership import STARTED, Need, Tally
from extender.core.resources import Amounts

_NOBODY: Counter[TaskName] = Counter()


class State(StrEnum):
    """Where a hold stands."""

    READING = "reading"
    HELD = "held"
    ASKED = "asked"
    COMMITTING = "committing"
    ANSWERED = "answered"
    CLOSED = "closed"


EDGES: frozenset[tuple[State, State]] = frozenset(
    {
        (State.READING, State.HELD),  # the pod is known and may be bound: it counts from now
        (State.READING, State.COMMITTING),  # lone pod, or another scheduler's: nothing to wait for
        (State.READING, State.ANSWERED),  # the pod is gone, bound or unfit; or a newer call came
        (State.READING, State.CLOSED),  # the scheduler hung up
        (State.HELD, State.ASKED),  # its group is complete: the extender is asked
        (State.HELD, State.COMMITTING),  # late member of a group that has started
        (State.HELD, State.ANSWERED),  # lost, withdrawn, superseded, or its round failed
        (State.HELD, State.CLOSED),  # the scheduler hung up
        (State.ASKED, State.HELD),  # vetoed, or too few of its group were left
        (State.ASKED, State.COMMITTING),  # its round is released
        (State.ASKED, State.ANSWERED),  # as from HELD
        (State.ASKED, State.CLOSED),  # the scheduler hung up
        (State.COMMITTING, State.ANSWERED),  # proved, or refused by the API server
    }
)


class InvalidMove(Exception):
    """A move that is not in the table: a defect of the gate, told with the hold's story."""


@dataclass(slots=True, eq=False)
class Hold:
    """One pod's bind call. Only `book.Book` moves it."""

    uid: PodUid
    namespace: str
    name: str
    node: NodeName
    since: float
    #: exactly one while it waits; while it is being bound none (hung up) or several (asked again)
    calls: list[CallId]
    state: State = State.READING
    group: GroupKey | None = None
    task: TaskName = NO_TASK
    gang: Gang | None = None
    request: Amounts = ()
    #: those of the request by which room is judged
    judged: Amounts = ()
    vetoed: bool = False
    #: when the pod is to be read live; None: not to be, or it was
    read_at: float | None = None
    read_sent: bool = False
    #: looked at again with the next tick: what spoke against it may have changed
    again: bool = False
    #: the pod is as new as a live read made for this hold
    pod_is_live: bool = False
    story: list[tuple[float, str]] = field(default_factory=list)

    def move(self, to: State, now: float) -> None:
        """Go to another state, by an edge of the table."""
        self.story.append((now, to.value))
        del self.story[:-20]
        if (self.state, to) not in EDGES:
            raise InvalidMove(f"{self.uid} on {self.node}: {self.state} -> {to} is no edge; story {self.story}")
        self.state = to

    @property
    def waits(self) -> bool:
        """True while it counts for its group and is not being bound."""
        return self.state in (State.HELD, State.ASKED)


class Question(StrEnum):
    """What a gang waits for before it can be released."""

    READ = "read"
    RELEASE = "release"


@dataclass(slots=True, eq=False)
class Gang:
    """A group at the gate. Invariant: the counters agree with the dictionaries beside them."""

    key: GroupKey
    #: when the newest member appeared, or one was lost that a controller will replace
    newest: float = 0.0
    round: int = 1
    #: waiting holds
    held: dict[PodUid, Hold] = field(default_factory=dict)
    #: bindings sent and not proved
    committing: dict[PodUid, Hold] = field(default_factory=dict)
    #: evictions sent for pods that the watch still shows bound
    evicting: dict[PodUid, TaskName] = field(default_factory=dict)
    held_of: Counter[TaskName] = field(default_factory=Counter)
    committing_of: Counter[TaskName] = field(default_factory=Counter)
    question: Question | None = None
    #: number of the question that is open; answers to older ones are ignored
    ask: int = 0
    #: no question before this time
    retry_at: float = 0.0
    #: bindings of ours may have left it with some but too few: set by a release from none, cleared when whole
    at_risk: bool = False
    released_at: float = 0.0
    #: since when a release is stuck half way
    stuck_since: float | None = None
    rollback_at: float = 0.0
    stated: bool = False

    def hold(self, hold: Hold) -> None:
        """Count a hold in."""
        hold.gang = self
        self.held[hold.uid] = hold
        self.held_of[hold.task] += 1

    def retask(self, hold: Hold, task: TaskName) -> None:
        """Count a waiting hold for another task."""
        self.held_of[hold.task] -= 1
        self.held_of[task] += 1
        hold.task = task

    def commit(self, hold: Hold) -> None:
        """Count a waiting hold as being bound."""
        self.forget(hold)
        hold.gang = self
        self.committing[hold.uid] = hold
        self.committing_of[hold.task] += 1

    def forget(self, hold: Hold) -> None:
        """Count a hold out, wherever it is counted."""
        if self.held.pop(hold.uid, None) is not None:
            self.held_of[hold.task] -= 1
        elif self.committing.pop(hold.uid, None) is not None:
            self.committing_of[hold.task] -= 1

    @property
    def waits_since(self) -> float:
        """When the oldest of the waiting calls came; there must be one."""
        return min(hold.since for hold in self.held.values())

    @property
    def idle(self) -> bool:
        """True when nothing here needs time."""
        return not self.held and not self.committing and not self.evicting and self.stuck_since is None

    def started(self, need: Need, tally: Tally) -> bool:
        """True when members that are bound, being bound or succeeded reach every minimum."""
        return self._reaches(need, tally, 0, _NOBODY)

    def complete(self, need: Need, tally: Tally) -> bool:
        """True when the waiting ones also counted reach every minimum."""
        return self._reaches(need, tally, len(self.held), self.held_of)

    def complete_with(self, need: Need, tally: Tally, holds: Iterable[Hold]) -> bool:
        """True when these of the waiting ones also counted reach every minimum."""
        more = Counter(hold.task for hold in holds)
        return self._reaches(need, tally, more.total(), more)

    def _reaches(self, need: Need, tally: Tally, more: int, more_of: Counter[TaskName]) -> bool:
        going = len(self.committing) - len(self.evicting)
        if tally.count(*STARTED) + going + more < need.min_member:
            return False
        if not need.tasks:
            return True
        leaving = Counter(self.evicting.values())
        return all(
            tally.count(*STARTED, task=task) + self.committing_of[task] - leaving[task] + more_of[task] >= least
            for task, least in need.tasks
        )
