"""What holds of a cluster in which nothing happens any more, or between two events: design section 9.

Takes the model of a cluster, raises AssertionError; must not change anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from extender.core import placing, planning, stating
from extender.core.feasibility import Feasibility
from extender.core.ids import Source
from extender.core.ledger import Ledger
from extender.core.membership import Standing, standing
from extender.core.model import Pod
from extender.core.reasons import Overcommit, Reason, Refusal
from extender.core.snapshot import Room, Snapshot
from tests.core import engine_driver
from tests.core.cluster_model import Cluster

FOR_ROOM = (
    *(Reason.RESOURCES, Reason.FRAGMENTED, Reason.TOPOLOGY, Reason.UNLABELLED, Reason.QUEUED, Reason.QUOTA),
    *(Reason.RESERVED, Reason.VICTIMS, Reason.NO_VICTIMS, Reason.FIRM, Reason.NODE_UNAVAILABLE),
)


def one_reason_each(cluster: Cluster) -> None:
    """Invariant 7: a group has a refusal exactly when some member waits without a plan."""
    engine = cluster.engine
    for key, members in engine.world.members.items():
        waiting = [pod for pod in members.values() if standing(pod) is Standing.WAITING]
        if not waiting:
            continue
        entry = engine.entries[key]
        planned = [pod for pod in waiting if engine.view.planned(pod.uid) is not None]
        if len(planned) < len(waiting):
            assert entry.refusal is not None, f"{key} waits for no reason"
        else:
            assert entry.refusal is None, f"{key} is planned and waits for {entry.refusal}"


def at_rest(cluster: Cluster) -> None:
    """Nothing is on its way: no room is blocked, nothing that fits waits, no queue is closed for nothing."""
    engine = cluster.engine
    one_reason_each(cluster)
    ledger = engine_driver.ledger_of(engine)
    assert dict(ledger.planned()) == {}, "planned at rest"
    assert dict(ledger.lingering()) == {}, "lingers at rest"
    assert cluster.holds == {}, "held at rest"
    assert not cluster.active, "kube-scheduler still tries"
    for pod in engine.world.pods.values():
        assert not (pod.ours and pod.waiting and pod.nominated), f"{pod.name} is nominated for nothing"
    engine._plans.firm.begin()
    reserved = engine._plans.reserved()  # nothing but earmarks
    room = Room(Snapshot.take(engine.world, Feasibility(), reserved))
    strays: Counter[str] = Counter()
    backlog: Counter[str] = Counter()
    for key, entry in engine.entries.items():
        if entry.refusal is None:
            continue
        members = engine.world.members[key].values()
        queue = engine.world.queue_of(key)
        strays[queue] += sum(1 for p in members if standing(p) is Standing.WAITING and not p.queue_gated)
        backlog[queue] += entry.refusal.reason in FOR_ROOM
        in_sight(cluster, members, entry.refusal.reason)
        if entry.refusal.reason is Reason.VICTIMS:
            assert engine._plans.earmarks.of(key), f"{key} waits for victims, and nothing is kept for it"
            assert engine.world.leaving, f"{key} waits for victims, and nobody leaves"
            continue
        assert not engine._plans.earmarks.of(key), f"{key} does not wait for victims, and has an earmark"
        if entry.refusal.reason is Reason.SCHEDULER_REFUSED:
            assert any(pod.uid in cluster.conflicts for pod in members), f"{key} was refused by nobody"
            continue
        wish = planning.wish_of(engine.world, Ledger(engine.world.nodes, lambda *_: None), entry, cluster.now)
        if not (isinstance(wish, Refusal) and wish.reason is Reason.INVALID):
            wish = engine.usage.tree.refusal(queue, key.namespace) or wish
        if isinstance(wish, planning.Wish):
            scratch = Room(room.snapshot)
            outcome = placing.fulfil(wish, scratch, engine._plans.allowance(key, scratch, engine.usage))
            left = outcome if isinstance(outcome, Refusal) or outcome.places == () else None
            assert left is not None, f"{key} waits for {entry.refusal.reason}, and there is room"
        else:
            assert isinstance(wish, Refusal)
            assert wish.reason is entry.refusal.reason, f"{key} waits for {entry.refusal}, not {wish}"
    assert (engine.backlog.strays, engine.backlog.for_room) == (+strays, +backlog)
    assert cluster.open == wanted_open(cluster, {queue for queue in backlog if backlog[queue] or strays[queue] >= 16})
    statements(cluster)
    queue_statements(cluster)
    overcommits(cluster)


def overcommits(cluster: Cluster) -> None:
    """Invariant 2: a node with more on it than it has is mended, or it is said why not, and rightly so."""
    engine = cluster.engine
    assert engine.overcommits.keys() == set(engine.world.overcommitted())
    for name, outlook in engine.overcommits.items():
        there = engine.world.on_node[name]
        node = engine.world.node(name)
        assert node is not None
        if outlook is Overcommit.LEAVING:
            assert any(pod.terminating for pod in there.values()), f"nobody leaves {name}"
        elif outlook is Overcommit.SETTLING:
            assert not node.ready, f"{name} is waited for without end"
        elif outlook is not Overcommit.REFUSED and name not in cluster.excused:
            race = cluster.raced.get(name)
            if race is not None and race.rival in there and race.node == node:
                assert not race.alone & there.keys(), f"{name} could be mended: {outlook}"


def in_sight(cluster: Cluster, members: Collection[Pod], reason: Reason) -> None:
    """Where queues show who waits for room and nothing has a cap, nobody who does stands behind a gate."""
    queues, first = cluster.engine.world.queues, next(iter(members))
    queue = queues.get(cluster.engine.world.queue_of(first.group))
    started = cluster.engine.entries[first.group].running or any(pod.node for pod in members)
    if queue is None or not queue.visible or started or any(one.capability for one in queues.values()):
        return
    if reason in (Reason.RESOURCES, Reason.FRAGMENTED, Reason.TOPOLOGY, Reason.CONSTRAINTS, Reason.NODE_UNAVAILABLE):
        assert not any(pod.queue_gated for pod in members if standing(pod) is Standing.WAITING)


def queue_statements(cluster: Cluster) -> None:
    """What a queue's object says is so, whatever happened to the writes."""
    engine = cluster.engine
    for name, queue in engine.world.queues.items():
        assert dict(queue.status.allocated) == engine.usage.of(name)
        waiting = [key for key, entry in engine.entries.items() if entry.refusal and engine.world.queue_of(key) == name]
        assert queue.status.pending == len(waiting)
        valid = next(one for one in queue.status.conditions if one.kind == "Valid")
        refusal = engine.usage.tree.refusal(name, "team")
        assert valid.true != (refusal is not None and refusal.reason is Reason.QUEUE_INVALID)


def wanted_open(cluster: Cluster, busy: set[str]) -> frozenset[str]:
    """The list that should stand in the ConfigMap."""
    if cluster.engine._cycle.nominating:
        return frozenset()
    tree = cluster.engine.usage.tree
    return frozenset(name for name in tree.downwards if tree.refusal(name, "team") is None) - busy


def statements(cluster: Cluster) -> None:
    """What a group's object says is so."""
    for key, group in cluster.engine.world.groups.items():
        entry = cluster.engine.entries.get(key)
        if key not in cluster.engine.world.members and key.source is Source.MUSTER:
            why = cluster.engine.view.why(key)
            assert why is not None
            assert (group.phase, group.stated_reason) == ("Pending", why.reason.value)
        if entry is None or (entry.refusal is None and not entry.running):
            continue
        reason = entry.refusal.reason.value if entry.refusal else ""
        phase = "Running" if entry.running else "Pending"
        if (group.phase, bool(reason)) == (phase, True) and cluster.now < stating.pause_until(entry):
            continue  # it has changed so often that it must not be written again yet
        assert (group.phase, group.stated_reason) == (phase, reason)
