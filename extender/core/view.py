"""What the verbs may know of the engine's decisions: read at once, without waiting, never changed.

Takes the engine's records, gives look-ups in O(1); must not decide. The records change only inside
`Engine.handle`, which never awaits, so a handler that does not await between two look-ups sees one state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from extender.core import spans
from extender.core.explain import of_member
from extender.core.feasibility import Facts
from extender.core.firm import Loan
from extender.core.headroom import Promise
from extender.core.ids import GroupKey, NodeName, PodUid, QueueName
from extender.core.ledger import Reservation, Slot
from extender.core.mending import Mend, mends
from extender.core.model import Shares, Span
from extender.core.ordering import OrderKey
from extender.core.planning import Entry, Past, Plan
from extender.core.plans import Plans
from extender.core.reasons import Refusal
from extender.core.resources import Amounts
from extender.core.snapshot import Room
from extender.core.spans import LevelState
from extender.core.topology import HOSTNAME, Keys
from extender.core.usage import Usage
from extender.core.vacancy import Vacancy
from extender.core.world import World


@dataclass(frozen=True, slots=True)
class Member:
    """A member that the gate wants to bind."""

    uid: PodUid
    node: NodeName


class View:
    """Look-ups over the engine's newest decisions."""

    def __init__(
        self,
        world: World,
        plans: Plans,
        entries: Mapping[GroupKey, Entry],
        vacancy: Vacancy,
        pending: Callable[[GroupKey], bool],
        room: Callable[[], Room],
        facts: Callable[[], Facts],
    ) -> None:
        self._facts = facts
        self._vacancy = vacancy
        self._world = world
        self._plans = plans
        self._entries = entries
        self._pending = pending
        self._room = room

    def planned(self, uid: PodUid) -> NodeName | None:
        """The node planned for this pod."""
        reservation = self._plans.ledger.get(Slot(uid))
        return None if reservation is None else reservation.node

    def shares(self, uid: PodUid) -> Shares:
        """What this pod is to have of its node's cards; () where they are not handed out by us."""
        reservation = self._plans.ledger.get(Slot(uid))
        return () if reservation is None else reservation.shares

    def places(self, key: GroupKey) -> list[tuple[NodeName, Amounts]]:
        """The nodes planned for members of this group that exist and are not bound yet, and what each member takes."""
        return [(one.node, one.shape.request) for one in self._plans.ledger.of_group(key).values() if not one.expected]

    def past(self, key: GroupKey) -> Past:
        """For which reasons the group has waited, since we began to look at it."""
        entry = self._entries.get(key)
        return () if entry is None else entry.past

    def order_key(self, entry: Entry) -> OrderKey:
        """The group's place in its queue."""
        return self._plans.asking.order_key(entry)

    def free(self) -> dict[str, int]:
        """What neither pods nor plans take of the nodes, by resource."""
        return self._plans.free()

    def room(self) -> Room:
        """What is free now. Takes a snapshot."""
        return self._room()

    def reservations(self) -> Iterator[Reservation]:
        """Room that plans hold, revoked ones too that the scheduler may still act on."""
        return chain(self._plans.ledger.planned().values(), self._plans.ledger.lingering().values())

    def earmarked(self) -> Iterator[Reservation]:
        """Room that is kept for groups whose victims still leave."""
        return iter(self._plans.earmarks)

    def refusal(self, uid: PodUid) -> Refusal | None:
        """Why this pod waits; None when its group does not, or was not looked at yet."""
        pod = self._world.pods.get(uid)
        entry = None if pod is None else self._entries.get(pod.group)
        return None if pod is None or entry is None or entry.refusal is None else of_member(entry.refusal, pod)

    def why(self, key: GroupKey) -> Refusal | None:
        """Why this group waits, or something of it; None when nothing does, or it was not looked at yet."""
        entry = self._entries.get(key)
        return self._vacancy.why(key) if entry is None else entry.refusal

    def pending(self, uid: PodUid) -> bool:
        """True when this pod's group is still to be looked at in the round that was begun."""
        pod = self._world.pods.get(uid)
        return pod is not None and self._pending(pod.group)

    def promise(self, key: GroupKey) -> Promise | None:
        """When this group, the first that waits in its queue, starts; None when that is not foreseen."""
        return self._plans.headrooms.promise(key)

    def mends(self, entry: Entry, usage: Usage, now: float) -> tuple[Mend, ...]:
        """What would end the group's wait. Slow: it tries places, so it is for one group at a time."""
        return mends(self._plans, usage, self._world.queue_of(entry.key), entry, self._room, now)

    def outcome(self, entry: Entry, now: float) -> Plan | Refusal | None:
        """What would become of the group if its turn came now; None when it wants nothing."""
        return self._plans.outcome(entry, self._room(), now)

    def out_of_use(self, entry: Entry, refusal: Refusal, now: float) -> Refusal:
        """The refusal, or another one where nodes and cards that are out of use make the difference."""
        return self._plans.out_of_use(entry, refusal, self._room(), now)

    def lent(self, queue: QueueName) -> Loan | None:
        """What the queue has borrowed for good."""
        return self._plans.firm.lent(queue)

    def span(self, key: GroupKey) -> Span | None:
        """What the group's members that are bound or planned have of the network; None when there is nothing to say."""
        return spans.of_group(self._facts(), self._world, key, (node for node, _ in self.places(key)))

    def levels(self) -> tuple[LevelState, ...]:
        """The levels of the network that there are."""
        return spans.levels(self._facts())

    def paths(self) -> tuple[Keys, Callable[[NodeName], tuple[str, ...]]]:
        """The levels by which nodes are shown, from broad to narrow; and of a node its domain of each ("" for none)."""
        facts = self._facts()
        keys = tuple(key for key in facts.chain(None) if key != HOSTNAME)
        columns = [facts.level(key) for key in keys]

        def path(node: NodeName) -> tuple[str, ...]:
            row = facts.roster.row_of.get(node)
            if row is None:
                return ("",) * len(keys)
            return tuple("" if one.codes[row] < 0 else one.values[one.codes[row]] for one in columns)

        return keys, path

    def nodes_of(self, key: GroupKey) -> set[NodeName]:
        """The nodes on which members of the group stand, or on which a plan holds room for it."""
        members = self._world.members.get(key, {}).values()
        stand = {pod.node for pod in members if pod.node is not None}
        return stand | {one.node for one in self._plans.ledger.of_group(key).values()}

    def held_on(self, node: NodeName) -> Mapping[Slot, Reservation]:
        """What plans hold on a node."""
        return self._plans.ledger.on_node(node)

    def network_problems(self) -> Mapping[str, str]:
        """What was left out of the network's objects that make no sense, by the object's name."""
        return self._facts().levels.hypernodes.problems

    def vetoes(self, members: Iterable[Member]) -> dict[PodUid, str]:
        """For a release: members that must not be bound, with the reason (design 2, invariant 2)."""
        found = ((member.uid, self._veto(member)) for member in members)
        return {uid: veto for uid, veto in found if veto}

    def _veto(self, member: Member) -> str:
        reservation = self._plans.ledger.get(Slot(member.uid))
        if reservation is None:
            return "its plan was revoked"
        if reservation.node != member.node:
            return "it is planned on another node"
        return "its node has no room" if self._plans.short(reservation) else ""
