"""What would become of a group that does not exist: would it start now, where, whom would it evict, or why not.

Takes an engine and a group with its pods as they would be created, gives an outlook; must not change anything. It is
what the engine would do if the group's turn came now: what changes before it is created is not foreseen.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from extender.core.answers import Places, places_on
from extender.core.engine import Engine
from extender.core.ids import GroupKey, QueueName
from extender.core.losses import Loss
from extender.core.membership import Need, satisfied
from extender.core.mending import Mend, of_refusal
from extender.core.model import Group, Pod
from extender.core.planning import Entry, Plan, members_missing
from extender.core.preemption import Decision
from extender.core.reasons import Refusal


@dataclasses.dataclass(frozen=True, slots=True)
class Outlook:
    """`starts`: enough of it has places now. `nodes` are those that it has now, or would have after evictions."""

    key: GroupKey
    queue: QueueName
    starts: bool
    nodes: tuple[Places, ...] = ()
    #: why it, or some of it above its minimum, would wait
    refusal: Refusal | None = None
    mends: tuple[Mend, ...] = ()
    #: who would be evicted; None when nobody is considered for it, () when those that leave already are enough
    losses: tuple[Loss, ...] | None = None
    #: its place among those that wait in its queue, from 1; None when it starts
    position: int | None = None


def taken(engine: Engine, key: GroupKey) -> bool:
    """True when there are members of this group already: then nothing needs to be supposed."""
    return key in engine.world.members or key in engine.entries


def what_if(engine: Engine, group: Group | None, pods: Sequence[Pod], now: float) -> Outlook:
    """The outlook for these pods of one group that has none (not `taken`), and for its object if there is a new one."""
    key = pods[0].group
    with engine.world.supposing(group, pods):
        entry = Entry(key, arrival=now, changed_at=now)
        return _outlook(engine, entry, now)


def _outlook(engine: Engine, entry: Entry, now: float) -> Outlook:
    queue, outcome = engine.world.queue_of(entry.key), engine.view.outcome(entry, now)
    if isinstance(outcome, Plan):  # with room for members that nobody supposes, as for those that are yet to come
        outcome = _missing(engine, entry.key) or outcome
    if isinstance(outcome, Plan):
        nodes = _nodes(outcome)
        if outcome.left is None:
            return Outlook(entry.key, queue, True, nodes)
        return Outlook(entry.key, queue, bool(nodes), nodes, outcome.left)
    if outcome is None:
        return Outlook(entry.key, queue, False)
    entry.refusal = outcome
    decided = engine.would_evict(entry, now)
    if isinstance(decided, Decision):
        losses = tuple(decided.losses)
        return Outlook(entry.key, queue, False, _nodes(decided.plan), outcome, (), losses, _position(engine, entry))
    entry.refusal = engine.view.out_of_use(entry, decided or outcome, now)
    mends = engine.view.mends(entry, engine.usage, now) or (of_refusal(entry.refusal),)
    return Outlook(entry.key, queue, False, (), entry.refusal, mends, position=_position(engine, entry))


def _missing(engine: Engine, key: GroupKey) -> Refusal | None:
    """The refusal of a group of which fewer pods are supposed than its minimum."""
    need, tally = engine.world.need(key), engine.world.tallies[key]
    pods = engine.world.members[key].values()
    enough = isinstance(need, Refusal) or satisfied(need, tally, [pod.task for pod in pods if pod.waiting])
    return None if enough or not isinstance(need, Need) else members_missing(need, tally)


def _nodes(plan: Plan) -> tuple[Places, ...]:
    return tuple(places_on((node, member.shape.request) for member, node in plan.places))


def _position(engine: Engine, entry: Entry) -> int:
    queue, order = engine.world.queue_of(entry.key), engine.view.order_key(entry)
    rivals = (engine.entries.get(key) for key, name in engine.backlog.waiting() if name == queue)
    return 1 + sum(engine.view.order_key(rival) < order for rival in rivals if rival is not None)
