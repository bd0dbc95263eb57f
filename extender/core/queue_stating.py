"""What the objects of our queues should say, and when that is written: seldom, and only what is new.

Takes usage, backlog and what the nodes have, gives the writes that are due; must not decide about groups.
Volcano's queues are read only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

from extender.core import fairshare
from extender.core.backlog import Backlog
from extender.core.firm import Firm, Loan
from extender.core.ids import QueueName, Source
from extender.core.messages import StateQueue
from extender.core.model import Queue, QueueCondition, QueueStatus
from extender.core.quota import Position, Sums
from extender.core.resources import GPU, GPU_PARTS, GPU_SHARE, MAX_AMOUNT, Amounts, add, told
from extender.core.usage import Usage

#: queues are looked at so often, of which so many are written at most, each at most so often
LOOK_SECONDS = 1.0
WRITES_A_LOOK = 20
WRITE_SECONDS = 3.0
#: a write that failed is tried again after this time
RETRY_SECONDS = 10.0
#: as many resources as the object has place for
_RESOURCES = 32
#: the share of a queue that uses something of which it has none
ABOVE_ALL = "inf"

VALID, COVERED, LOANS = "Valid", "GuaranteeCovered", "LoansRecoverable"


class Statements:
    """What was written last. Nothing of it must survive a restart: the objects say it too."""

    def __init__(self, firm: Firm) -> None:
        self._firm = firm
        self._look_at = 0.0
        self._not_before: dict[QueueName, float] = {}
        #: what we asked to write, and of which object that said what: until it says something else that counts
        self._asked: dict[QueueName, tuple[QueueStatus, str, QueueStatus]] = {}

    def restart(self) -> None:
        """Nothing of ours is under way any more."""
        self._look_at = 0.0
        self._not_before.clear()
        self._asked.clear()

    def failed(self, name: QueueName, now: float) -> None:
        """The newest write of this queue did not succeed."""
        self._asked.pop(name, None)
        self._not_before[name] = now + RETRY_SECONDS

    def due(
        self,
        queues: Mapping[QueueName, Queue],
        usage: Usage,
        backlog: Backlog,
        shared: Callable[[], Sums],
        now: float,
    ) -> list[StateQueue]:
        """The writes that are due now. `shared` tells what all queues have together."""
        if now < self._look_at:
            return []
        self._look_at = now + LOOK_SECONDS
        ours = [queue for queue in queues.values() if queue.source is Source.MUSTER]
        if not ours:
            return []
        for gone in self._not_before.keys() - queues.keys():
            del self._not_before[gone]
            self._asked.pop(gone, None)
        shares = shares_of(usage, backlog, shared())
        writes: list[StateQueue] = []
        for queue in ours:
            if now < self._not_before.get(queue.name, now) or len(writes) >= WRITES_A_LOOK:
                continue
            known = self._known(queue)
            status = status_of(
                queue, usage, backlog, self._firm.lent(queue.name), shares.get(queue.name, {}), known, now
            )
            if status != known:
                self._asked[queue.name] = (status, queue.uid, queue.status)
                self._not_before[queue.name] = now + WRITE_SECONDS
                stands = dict(queue.status.allocated) | dict(known.allocated)
                writes.append(StateQueue(queue.name, status, tuple(sorted(stands.items()))))
        return writes

    def _known(self, queue: Queue) -> QueueStatus:
        asked, *of = self._asked.get(queue.name, (queue.status, queue.uid, queue.status))
        return asked if of == [queue.uid, queue.status] else queue.status


def shares_of(usage: Usage, backlog: Backlog, shared: Sums) -> dict[QueueName, Sums]:
    """The fair share of every queue, by resource. `shared` is what all queues have together."""
    return fairshare.divide(usage.tree, usage.grants, shared, _wanted(usage, backlog))


def _wanted(usage: Usage, backlog: Backlog) -> dict[QueueName, Sums]:
    """What the groups of each queue itself use and wait for."""
    wanted: dict[QueueName, Sums] = {}
    for name in usage.tree.downwards:
        sums = wanted[name] = dict(usage.of(name))
        at = usage.tree.at(name)
        for child in at.children if at is not None else ():
            for resource, amount in usage.of(child).items():
                sums[resource] -= amount
        add(sums, backlog.asked.get(name, {}).items())
    return wanted


def status_of(
    queue: Queue,
    usage: Usage,
    backlog: Backlog,
    lent: Loan | None,
    share: Mapping[str, int],
    known: QueueStatus,
    now: float,
) -> QueueStatus:
    """What there is to say of a queue of the tree; `known` is what was said last, of which times are kept."""
    at, used = usage.tree.at(queue.name), usage.of(queue.name)
    assert at is not None
    return QueueStatus(
        allocated=_stated(used, queue.by_share),
        share=_decimal(fairshare.dominant(used, share)),
        pending=backlog.groups[queue.name],
        state="Open" if at.closed_by is None else "Closing" if used else "Closed",
        generation=queue.generation,
        conditions=tuple(_since(condition, known, now) for condition in _conditions(at, usage, lent)),
    )


def _stated(used: Mapping[str, int], by_share: bool) -> Amounts:
    stated = dict(used)
    parts = stated.pop(GPU_SHARE, 0)
    if by_share and parts:  # to the whole GPU, rounded up
        stated[GPU] = -(-parts // GPU_PARTS)
    return tuple((resource, min(amount, MAX_AMOUNT)) for resource, amount in sorted(stated.items())[:_RESOURCES])


def _decimal(share: Fraction | None) -> str:
    """To two places, rounded down."""
    if share is None:
        return ABOVE_ALL
    hundredths = share.numerator * 100 // share.denominator
    return f"{hundredths // 100}.{hundredths % 100:02}"


def _conditions(at: Position, usage: Usage, lent: Loan | None) -> list[QueueCondition]:
    blame, short = at.blame, usage.grants.short.get(at.queue.name)
    found = [
        QueueCondition(VALID, True, "Valid", "", 0)
        if blame is None
        else QueueCondition(VALID, False, blame.fault.value, f"{blame.queue}: {blame.problem}", 0)
    ]
    if short is not None:
        kind, resource, named, kept = short
        (_, what), (_, of), (_, only) = told(resource, named=named, kept=kept)
        found.append(QueueCondition(COVERED, False, kind.value, f"{what}: of {of} only {only} can be kept", 0))
    elif at.queue.guarantee and blame is None:
        found.append(QueueCondition(COVERED, True, "Covered", "", 0))
    if lent is not None:
        resource, amount, budget = lent
        by = f"disruption budget {budget}" if budget else "groups that may not be preempted"
        (_, what), (_, number) = told(resource, amount=amount)
        found.append(QueueCondition(LOANS, False, "Protected", f"{what}: {number} borrowed, protected by {by}", 0))
    return found


def _since(condition: QueueCondition, known: QueueStatus, now: float) -> QueueCondition:
    """The condition with the time of its last transition."""
    same = [one for one in known.conditions if (one.kind, one.true) == (condition.kind, condition.true)]
    since = same[0].since if same else int(now)
    return QueueCondition(condition.kind, condition.true, condition.reason, condition.message, since)
