"""When a group is released at the permit gate, when its round fails, and what follows a stuck release.

Takes holds that were placed, the watches' newest state, answers and the time; gives effects through the book.
Must not know of queues or plans. The one invariant that it guards: no binding is sent before the group's
minimum, and every task's, are held, being bound, bound or succeeded.

One round: HELD until complete -> the group's object is read live -> the extender is asked -> all are bound.
A stuck release: some were bound, the rest refused, and the minimum is not reached. It has 30 s in which
replacements complete it; then what it bound is evicted. After a restart it is told from a running gang that
was hurt by how lately its members were bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from extender.core import gate_messages as gm
from extender.core.book import Book
from extender.core.gate_messages import Why
from extender.core.holds import Gang, Hold, Question, State
from extender.core.ids import GroupKey, PodUid
from extender.core.membership import LIVE, Need, Standing, Tally, standing
from extender.core.messages import Evict, GroupGone, GroupSeen
from extender.core.model import Group, Pod
from extender.core.reasons import Ground, Reason, Refusal
from extender.core.world import World

#: members that are not created yet are expected so long after the newest one
EXPECTED_SECONDS = 10.0
#: of the scheduler's httpTimeout: later answers come too late
OF_TIMEOUT = 0.95
ASK_AGAIN_SECONDS = 1.0
STUCK_SECONDS = 30.0
#: bound longer ago than this when we start: it ran, and was hurt
FRESH_SECONDS = 60.0
EVICT_AGAIN_SECONDS = 5.0


class Rounds:
    """All gangs. Invariant: every gang with a hold, an eviction or a stuck release is in `_awake`."""

    def __init__(self, world: World, book: Book, http_timeout: float) -> None:
        self.gangs: dict[GroupKey, Gang] = {}
        self.acting = False
        #: rounds that ended since the gate asked last: group, outcome, seconds that the release took
        self.ended: list[tuple[GroupKey, str, float]] = []
        self._world = world
        self._book = book
        self._longest = OF_TIMEOUT * http_timeout
        self._asks = 0
        #: gangs for which time matters
        self._awake: dict[GroupKey, Gang] = {}

    # --- members --------------------------------------------------------------------------------

    def place(self, hold: Hold, now: float) -> None:
        """Let a hold that may go to its node wait for its group, and release the group if it is complete."""
        assert hold.group is not None
        gang = self.gangs.get(hold.group)
        if gang is None:
            gang = self.gangs[hold.group] = Gang(hold.group, newest=now)
        self._book.place(hold, gang, now)
        self._awake[gang.key] = gang
        self.consider(gang, now)

    def member_changed(self, before: Pod | None, after: Pod | None, now: float) -> None:
        """Note that a member appeared, changed, was lost or went."""
        if before is not None and after is not None and before.group != after.group:
            self.member_changed(before, None, now)
            self.member_changed(None, after, now)
            return
        pod = after or before
        if pod is None or pod.group.lone:
            return
        gang = self.gangs.get(pod.group)
        if gang is None:
            if after is None:
                return
            gang = self.gangs[pod.group] = Gang(pod.group)
        was, live = (p is not None and standing(p) in LIVE for p in (before, after))
        # one that leaves is replaced when it begins to, or when it has gone
        lost = pod.owner is not None and (after is None or (was and not live))
        if lost or (live and before is None):
            gang.newest = now
        if after is None or standing(after) is not Standing.BOUND:
            gang.evicting.pop(pod.uid, None)

    def write_off(self, hold: Hold) -> None:
        """The pod is leaving while it is being bound: whatever the reply will be, it does not count."""
        if hold.gang is not None:
            hold.gang.forget(hold)

    def look(self, key: GroupKey, now: float) -> None:
        """Something about this group changed."""
        gang = self.gangs.get(key)
        if gang is None:
            return
        if gang.stuck_since is not None or gang.at_risk:
            self.settle(gang, now)
        self.consider(gang, now)
        self._tidy(gang)

    def _tidy(self, gang: Gang) -> None:
        if gang.idle:
            self._awake.pop(gang.key, None)
            if gang.key not in self._world.members or gang.key.lone:
                self.gangs.pop(gang.key, None)

    # --- a round --------------------------------------------------------------------------------

    def consider(self, gang: Gang, now: float) -> None:
        """Do what the newest state allows: bind late members, ask, or fail the round."""
        if not gang.held or gang.question is not None or not self.acting:
            return
        need, tally = self._need(gang), self._tally(gang)
        if isinstance(need, Refusal):
            if need.reason is not Reason.GROUP_NOT_FOUND:
                self.fail(gang, Why.INVALID, now)
        elif gang.started(need, tally):
            self._bind_late(gang, now)
        elif gang.complete(need, tally):
            if now < gang.retry_at:
                return
            if gang.key.lone:
                self._ask(gang, list(gang.held.values()), now)
            else:
                self._book.out.append(gm.ReadGroup(gang.key, self._number(gang, Question.READ)))
        elif now - gang.newest >= EXPECTED_SECONDS and _short(need, tally):
            self.fail(gang, Why.TOO_FEW, now)

    def _bind_late(self, gang: Gang, now: float) -> None:
        """The minimum is reached without the waiting ones: they need not wait for each other."""
        asks = [hold for hold in gang.held.values() if self._must_ask(hold)]
        direct = [hold for hold in gang.held.values() if not self._must_ask(hold)] if asks else gang.held.values()
        if direct:
            self._book.commit(list(direct), {}, now)
        if asks and now >= gang.retry_at:
            self._ask(gang, [hold for hold in asks if hold.waits], now)

    def _must_ask(self, hold: Hold) -> bool:
        return hold.vetoed or self.on_hami(hold)

    def on_hami(self, hold: Hold) -> bool:
        """True when the node's devices are handed out by annotations in the Binding."""
        node = self._world.node(hold.node)
        return node is not None and node.hami

    def _ask(self, gang: Gang, holds: list[Hold], now: float) -> None:
        number = self._number(gang, Question.RELEASE)
        for hold in holds:
            hold.move(State.ASKED, now)
        self._book.version += 1
        members = tuple(gm.Member(hold.uid, hold.namespace, hold.name, hold.node) for hold in holds)
        self._book.out.append(gm.AskRelease(gang.key, number, members))

    def _number(self, gang: Gang, question: Question) -> int:
        self._asks += 1
        gang.question, gang.ask = question, self._asks
        return self._asks

    def _answered(self, key: GroupKey, ask: int) -> Gang | None:
        """The gang whose open question this answers."""
        gang = self.gangs.get(key)
        if gang is None or gang.question is None or gang.ask != ask:
            return None
        gang.question = None
        return gang

    def group_read(self, event: gm.GroupRead, now: float) -> None:
        """The live object is here: with its minimum, is the group still complete?"""
        gang = self._answered(event.key, event.ask)
        if gang is None:
            return
        if event.failed:
            gang.retry_at = now + ASK_AGAIN_SECONDS
            return
        if event.group is None:
            self._world.apply(GroupGone(event.key))
        else:
            self.learn(event.group)
        need = self._need(gang)
        if gang.held and not isinstance(need, Refusal) and gang.complete(need, self._tally(gang)):
            self._ask(gang, list(gang.held.values()), now)
        else:
            self.look(gang.key, now)

    def learn(self, group: Group) -> None:
        """Take in a group object, unless a live read and the watch have overtaken each other."""
        known = self._world.groups.get(group.key)
        if known is None or known.uid != group.uid or known.generation <= group.generation:
            self._world.apply(GroupSeen(group))

    def released(self, event: gm.ReleaseAnswered, now: float) -> None:
        """The extender has answered, or has not: bind those that it lets go, if they are enough."""
        gang = self._answered(event.key, event.ask)
        if gang is None:
            return
        asked = [hold for hold in gang.held.values() if hold.state is State.ASKED]
        approved, notes = self._approved(asked, event.answers)
        need = self._need(gang)
        if not isinstance(need, Refusal) and approved:
            self._release(gang, need, approved, notes, now)
        for hold in asked:
            if hold.state is State.ASKED:
                hold.move(State.HELD, now)
                self._book.version += 1
        if len(approved) < len(asked):
            gang.retry_at = now + ASK_AGAIN_SECONDS
        self.look(gang.key, now)

    def _approved(
        self, asked: list[Hold], answers: Mapping[PodUid, Mapping[str, str] | None] | None
    ) -> tuple[list[Hold], dict[PodUid, Mapping[str, str]]]:
        """Those that may go, and their annotations. Only where we hand out devices is silence a veto."""
        if answers is None:
            return ([] if any(self.on_hami(hold) for hold in asked) else asked), {}
        approved = []
        for hold in asked:
            hold.vetoed = answers.get(hold.uid) is None  # a member that is not named is not granted
            if not hold.vetoed:
                approved.append(hold)
        return approved, {uid: said for uid, said in answers.items() if said is not None}

    def _release(
        self,
        gang: Gang,
        need: Need,
        holds: list[Hold],
        notes: dict[PodUid, Mapping[str, str]],
        now: float,
    ) -> None:
        tally = self._tally(gang)
        if not gang.started(need, tally):
            if not gang.complete_with(need, tally, holds):
                return
            # a gang with members running was hurt before: whatever comes of this release, it did not start it
            gang.at_risk = gang.at_risk or not any(_ours_bound(self._members(gang)))
            gang.round += 1
            gang.released_at = now
        self._book.commit(holds, notes, now)

    def fail(self, gang: Gang, why: Why, now: float) -> None:
        """Refuse everything that the group holds; what is being bound goes on."""
        for hold in list(gang.held.values()):
            self._book.answer(hold, why, now)
        self.ended.append((gang.key, "expired" if why is Why.INCOMPLETE else "failed", 0.0))
        gang.question = None
        gang.retry_at = 0.0
        gang.round += 1

    # --- a release that got stuck ---------------------------------------------------------------

    def settle(self, gang: Gang, now: float) -> None:
        """Judge a release: whole, nothing bound, still going on, or stuck."""
        if gang.committing or not gang.at_risk:
            return
        need, tally = self._need(gang), self._tally(gang)
        if not isinstance(need, Refusal) and gang.started(need, tally):
            gang.at_risk = gang.stated = False
            gang.stuck_since = None
            self.ended.append((gang.key, "released", now - gang.released_at))
        elif not (tally.count(Standing.BOUND) and any(_ours_bound(self._members(gang)))):
            gang.stuck_since = None  # still at risk: a binding without an answer may be shown later
        elif gang.stuck_since is None:
            gang.stuck_since = now
            self._awake[gang.key] = gang
            self.ended.append((gang.key, "partial", now - gang.released_at))

    def recognise(self, now: float) -> None:
        """After a restart or a take-over: find the releases that got stuck while nobody looked."""
        for gang in self.gangs.values():
            need, tally = self._need(gang), self._tally(gang)
            if gang.at_risk or isinstance(need, Refusal) or not tally.count(Standing.BOUND):
                continue
            members = self._members(gang)
            placed = Counter(pod.task for pod in members if pod.node is not None) + tally.done
            if need.missing(placed.total(), placed) == (0, {}):
                continue  # it runs; or as many as it needs were on nodes before, so it ran and was hurt
            newest = max((pod.bound_at or 0.0 for pod in _ours_bound(members)), default=0.0)
            if now - newest <= FRESH_SECONDS:
                gang.at_risk = True
                gang.stuck_since = gang.released_at = min(newest, now)
                self._awake[gang.key] = gang

    def _roll_back(self, gang: Gang, now: float) -> None:
        gang.rollback_at = now + EVICT_AGAIN_SECONDS
        bound = [pod for pod in _ours_bound(self._members(gang)) if pod.uid not in gang.evicting]
        for pod in bound:
            if pod.owner is not None:
                gang.evicting[pod.uid] = pod.task
                group = ("group", str(gang.key))
                self._book.out.append(Evict(pod.uid, pod.namespace, pod.name, Ground.PARTIAL_RELEASE, (group,)))
            elif not gang.stated:
                self._book.out.append(
                    gm.StateCondition(pod.uid, pod.namespace, pod.name, gm.PARTIAL_GROUP, gm.PARTIAL_TEXT)
                )
        if not gang.stated:
            self.ended.append((gang.key, "rolled-back", 0.0))
        gang.stated = True
        if not gang.evicting:
            gang.stuck_since = None  # only pods that nobody would replace are left: they stay

    def evicted(self, event: gm.EvictDone, now: float) -> None:
        """An eviction that was refused is tried again; a taken one is seen by the watch."""
        pod = self._world.pods.get(event.uid)
        gang = self.gangs.get(pod.group) if pod is not None else None
        if gang is not None and event.error:
            gang.evicting.pop(event.uid, None)
            self.look(gang.key, now)

    # --- time -----------------------------------------------------------------------------------

    def on_time(self, now: float) -> None:
        """Do what is due: deadlines, questions to be asked again, roll-backs."""
        for gang in list(self._awake.values()):
            if gang.held and now - gang.waits_since >= self._limit(gang):
                self.fail(gang, Why.INCOMPLETE, now)
            self.consider(gang, now)
            if self._must_roll_back(gang, now):
                self._roll_back(gang, now)
            self._tidy(gang)

    def _must_roll_back(self, gang: Gang, now: float) -> bool:
        if gang.stuck_since is None or gang.committing or not self.acting:
            return False
        return now >= max(gang.stuck_since + STUCK_SECONDS, gang.rollback_at)

    def _limit(self, gang: Gang) -> float:
        need = self._need(gang)
        asked = need.schedule_timeout if not isinstance(need, Refusal) else None
        return self._longest if asked is None else min(asked, self._longest)

    def _need(self, gang: Gang) -> Need | Refusal:
        return self._world.need(gang.key)

    def _tally(self, gang: Gang) -> Tally:
        return self._world.tallies.get(gang.key) or Tally()

    def _members(self, gang: Gang) -> Iterable[Pod]:
        return self._world.members.get(gang.key, {}).values()


def _ours_bound(members: Iterable[Pod]) -> Iterable[Pod]:
    return (pod for pod in members if pod.ours and standing(pod) is Standing.BOUND)


def _short(need: Need, tally: Tally) -> bool:
    """True when the members that live cannot reach the minimum, or a task's."""
    if tally.count(*LIVE) < need.min_member:
        return True
    return any(tally.count(*LIVE, task=task) < least for task, least in need.tasks)
