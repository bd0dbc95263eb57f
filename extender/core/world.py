"""The newest state that our watches have shown: objects, their indexes, and integer arrays per node.

Takes world events, gives look-ups and arrays; must not decide anything. Both processes keep one: the
extender plans on snapshots of it, the permit gate counts members and checks room with it.

A pod counts on its node from when it is bound until it ended or is gone: terminating pods still count.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from extender.core import messages
from extender.core.finished import Finished
from extender.core.homes import Homes
from extender.core.ids import GroupKey, NodeName, PodUid, QueueName, Source
from extender.core.membership import Need, Tally, need_of, queue_of
from extender.core.model import Budget, Group, HyperNode, Node, Pod, Queue, Topology
from extender.core.node_table import NodeTable
from extender.core.reasons import Reason, Refusal
from extender.core.resources import Columns, Row
from extender.core.workload import Workload

#: uids of deleted pods that are remembered, so that a late message does not bring one back
_REMEMBERED_GONE = 20_000


class World:
    """Everything the watches have shown. Changed by `apply` only."""

    def __init__(self) -> None:
        self.columns = Columns()
        self.nodes = NodeTable(self.columns)
        self.pods: dict[PodUid, Pod] = {}
        #: members of each group, newest state; a group without members has no entry here nor in `tallies`
        self.members: dict[GroupKey, dict[PodUid, Pod]] = {}
        self.tallies: dict[GroupKey, Tally] = {}
        self.groups: dict[GroupKey, Group] = {}
        self._finished = Finished()
        #: what asks for GPUs
        self.workload = Workload()
        self.homes = Homes()
        #: pods that count on a node (not ended), by node name; also for nodes not known yet
        self.on_node: dict[NodeName, dict[PodUid, Pod]] = {}
        #: those of them that are being deleted
        self.leaving: dict[PodUid, Pod] = {}
        self.topologies: dict[str, Topology] = {}
        self.hypernodes: dict[str, HyperNode] = {}
        #: grows with each change of these two
        self.levels_changed = 0
        #: by name; where ours and Volcano's have the same name, ours
        self.queues: dict[QueueName, Queue] = {}
        self._stated_queues: dict[tuple[QueueName, Source], Queue] = {}
        #: disruption budgets by namespace, then by name
        self.budgets: dict[str, dict[str, Budget]] = {}
        #: values of priority classes
        self.priority_classes: dict[str, int] = {}
        self.namespace_queue: dict[str, QueueName | None] = {}
        #: namespaces of which every pod counts in its queue, whoever schedules it
        self.managed: set[str] = set()
        self._gone: dict[PodUid, None] = {}
        self._rows: dict[Any, Row] = {}
        #: judged needs; an entry goes when a member, the object or the namespace changes
        self._needs: dict[GroupKey, Need | Refusal] = {}
        #: the same for their queues
        self._queue_of: dict[GroupKey, QueueName] = {}
        #: told of each group of which a member, the object or its namespace's queue may have changed
        self.changed: Callable[[GroupKey], None] = lambda _: None

    def apply(self, event: messages.WorldEvent) -> None:
        """Take in one event. Twice the same event, or events for unknown objects, change nothing."""
        handler: Callable[[Any], None] = self._HANDLERS[type(event)].__get__(self)
        handler(event)

    def knows(self, uid: PodUid) -> bool:
        """True when this pod exists here or is known to be gone."""
        return uid in self.pods or uid in self._gone

    def request_row(self, pod: Pod) -> Row:
        """The pod's request as a row, less what no node offers; shared by equal requests, never changed."""
        row = self._rows.get(pod.shape.request)
        if row is None:
            if len(self._rows) > 10_000:
                self._rows.clear()
            row = self._rows[pod.shape.request] = self.columns.row(pod.shape.request)
        return row

    def need(self, key: GroupKey) -> Need | Refusal:
        """What the group must have before it starts, or why it cannot be judged."""
        need = self._needs.get(key)
        if need is None:
            tally = self.tallies.get(key) or Tally()
            group = self.groups.get(key)
            if group is not None and group.priority_class is not None:
                group = replace(group, priority=self._ceiling(group))
            need = need_of(key, tally, group, self.namespace_queue.get(key.namespace))
            if key in self.members:
                self._needs[key] = need
        return need

    def queue_of(self, key: GroupKey) -> QueueName:
        """The queue that the group is in, whether or not it can be judged."""
        queue = self._queue_of.get(key)
        if queue is None:
            tally = self.tallies.get(key) or Tally()
            queue = queue_of(tally, self.groups.get(key), self.namespace_queue.get(key.namespace))
            if key in self.members:
                self._queue_of[key] = queue
        return queue

    def priority(self, key: GroupKey) -> int:
        """The lowest priority of the group's pods; its object may only lower it."""
        tally, group = self.tallies.get(key), self.groups.get(key)
        lowest = min(tally.priorities, default=0) if tally is not None else 0
        most = None if group is None else self._ceiling(group)
        return lowest if most is None else min(lowest, most)

    def _ceiling(self, group: Group) -> int | None:
        """The most that a group's object lets its priority be; None when it says nothing, or names no class that is."""
        return group.priority if group.priority_class is None else self.priority_classes.get(group.priority_class)

    def no_class(self, key: GroupKey) -> Refusal | None:
        """Why a group waits of which the object names a priority class that does not exist."""
        group = self.groups.get(key)
        name = None if group is None else group.priority_class
        if name is None or name in self.priority_classes:
            return None
        return Refusal(Reason.INVALID, (("problem", f"spec.priorityClassName: there is no PriorityClass {name}"),))

    @contextlib.contextmanager
    def supposing(self, group: Group | None, pods: Sequence[Pod]) -> Iterator[None]:
        """In the block these members of one group, which has none, and its object are there; nothing of it stays."""
        key = pods[0].group
        assert key not in self.members, f"{key} has members"
        before, tally = self.groups.get(key), Tally()
        for pod in pods:
            tally.add(pod)
        self.members[key], self.tallies[key] = {pod.uid: pod for pod in pods}, tally
        if group is not None:
            self.groups[key] = group
        self._doubt(key)
        try:
            yield
        finally:
            del self.members[key], self.tallies[key]
            if before is None:
                self.groups.pop(key, None)
            else:
                self.groups[key] = before
            self._doubt(key)

    def _doubt(self, key: GroupKey) -> None:
        self._needs.pop(key, None)
        self._queue_of.pop(key, None)
        self.changed(key)

    def node(self, name: NodeName) -> Node | None:
        """The newest state of a node."""
        row = self.nodes.row_of.get(name)
        return None if row is None else self.nodes.nodes[row]

    def overcommitted(self) -> list[NodeName]:
        """Nodes with pods of ours on which more is used than there is: somebody bound beside us."""
        rows = np.flatnonzero((self.nodes.used > self.nodes.allocatable).any(axis=1))
        names = [name for row in rows if row < len(self.nodes.names) and (name := self.nodes.names[row]) is not None]
        return sorted(name for name in names if any(pod.ours for pod in self.on_node.get(name, {}).values()))

    # --- pods -----------------------------------------------------------------------------------

    def _pod_seen(self, event: messages.PodSeen) -> None:
        pod = event.pod
        if pod.uid in self._gone:
            return
        before = self.pods.get(pod.uid)
        self.pods[pod.uid] = pod
        if before is None:
            self._join(pod)
        elif before.group == pod.group:
            self._renew(before, pod)
        else:
            self._leave(before, moved=True)
            self._join(pod)
        if before is not None:
            self._uncount(before)
        self._count(pod)
        if before is None or before.shape != pod.shape or before.ended != pod.ended:
            if before is not None:
                self.workload.remove(before)
            self.workload.add(pod)

    def _pod_gone(self, event: messages.PodGone) -> None:
        pod = self.pods.pop(event.uid, None)
        self._gone[event.uid] = None
        if len(self._gone) > _REMEMBERED_GONE:
            del self._gone[next(iter(self._gone))]
        if pod is not None:
            self._uncount(pod)
            self._leave(pod)
            self.workload.remove(pod)

    def _join(self, pod: Pod) -> None:
        self._doubt(pod.group)
        siblings, alone = self.members.get(pod.group), pod.group not in self.members
        if siblings is None:
            siblings = self.members[pod.group] = {}
            self.tallies[pod.group] = Tally()
        siblings[pod.uid] = pod
        self.tallies[pod.group].add(pod)
        self._finished.joined(pod, self.tallies[pod.group], alone)
        self._finished.seen(pod)

    def _renew(self, before: Pod, pod: Pod) -> None:
        self.members[pod.group][pod.uid] = pod
        self._finished.seen(pod)
        self.changed(pod.group)
        if self.tallies[pod.group].replace(before, pod):
            self._doubt(pod.group)

    def _leave(self, pod: Pod, moved: bool = False) -> None:
        self._doubt(pod.group)
        siblings = self.members[pod.group]
        del siblings[pod.uid]
        self.tallies[pod.group].remove(pod)
        self._finished.left(pod, self.tallies[pod.group], moved)
        self.homes.left(pod)
        if not siblings:
            self.homes.forget(pod.group)
            del self.members[pod.group], self.tallies[pod.group]
            if pod.group not in self.groups:
                self._finished.forget(pod.group, None)

    def _count(self, pod: Pod) -> None:
        if pod.node is not None and not pod.ended:
            self.on_node.setdefault(pod.node, {})[pod.uid] = pod
            self.nodes.add_used(pod.node, self.request_row(pod), 1)
            if self.nodes.cards:
                self.nodes.cards.count(pod)
            if self.nodes.links:
                self.nodes.links.count(pod)
            if pod.terminating:
                self.leaving[pod.uid] = pod

    def _uncount(self, pod: Pod) -> None:
        if pod.node is not None and not pod.ended:
            there = self.on_node[pod.node]
            del there[pod.uid]
            self.leaving.pop(pod.uid, None)
            if not there:
                del self.on_node[pod.node]
            self.nodes.add_used(pod.node, self.request_row(pod), -1)
            if self.nodes.cards:
                self.nodes.cards.uncount(pod.uid)
            self.nodes.links.uncount(pod.uid)

    # --- nodes ----------------------------------------------------------------------------------

    def _node_seen(self, event: messages.NodeSeen) -> None:
        node = event.node
        new = node.name not in self.nodes.row_of
        grown = self.columns.offer(name for name, _ in node.allocatable)
        fresh = self.nodes.put(node)
        if grown:
            self._recount()
        elif new:
            self._count_node(node.name)
        if fresh:
            self.nodes.cards.recount(self.on_node.get(node.name, {}).values())
            self.nodes.links.recount(self.on_node.get(node.name, {}).values())

    def _count_node(self, name: NodeName) -> None:
        for pod in self.on_node.get(name, {}).values():
            self.nodes.add_used(name, self.request_row(pod), 1)

    def _recount(self) -> None:
        """Pods may have asked for a resource before any node offered it: from now on it counts."""
        self._rows.clear()
        self.nodes.used[:] = 0
        for name in self.nodes.row_of:
            self._count_node(name)

    def _node_gone(self, event: messages.NodeGone) -> None:
        self.nodes.drop(event.name)

    # --- the rest -------------------------------------------------------------------------------

    def _group_seen(self, event: messages.GroupSeen) -> None:
        key, before = event.group.key, self.groups.get(event.group.key)
        self._doubt(key)
        self.groups[key] = event.group
        if before is not None and before.uid != event.group.uid:
            self._finished.forget(key, self.tallies.get(key))

    def _group_gone(self, event: messages.GroupGone) -> None:
        self._doubt(event.key)
        if self.groups.pop(event.key, None) is not None:
            self._finished.forget(event.key, self.tallies.get(event.key))

    def _topology_seen(self, event: messages.TopologySeen) -> None:
        before = self.topologies.get(event.topology.name)
        self.topologies[event.topology.name] = event.topology
        self.levels_changed += before != event.topology

    def _topology_gone(self, event: messages.TopologyGone) -> None:
        self.levels_changed += self.topologies.pop(event.name, None) is not None

    def _hypernode_seen(self, event: messages.HyperNodeSeen) -> None:
        before = self.hypernodes.get(event.hypernode.name)
        self.hypernodes[event.hypernode.name] = event.hypernode
        self.levels_changed += before != event.hypernode

    def _hypernode_gone(self, event: messages.HyperNodeGone) -> None:
        self.levels_changed += self.hypernodes.pop(event.name, None) is not None

    def _queue_seen(self, event: messages.QueueSeen) -> None:
        self._stated_queues[event.queue.name, event.queue.source] = event.queue
        self._choose_queue(event.queue.name)

    def _queue_gone(self, event: messages.QueueGone) -> None:
        self._stated_queues.pop((event.name, event.source), None)
        self._choose_queue(event.name)

    def _choose_queue(self, name: QueueName) -> None:
        chosen = self._stated_queues.get((name, Source.MUSTER)) or self._stated_queues.get((name, Source.VOLCANO))
        if chosen is not None:
            self.queues[name] = chosen
        else:
            self.queues.pop(name, None)

    def _budget_seen(self, event: messages.BudgetSeen) -> None:
        self.budgets.setdefault(event.budget.namespace, {})[event.budget.name] = event.budget

    def _budget_gone(self, event: messages.BudgetGone) -> None:
        there = self.budgets.get(event.namespace, {})
        there.pop(event.name, None)
        if not there:
            self.budgets.pop(event.namespace, None)

    def _priority_class_seen(self, event: messages.PriorityClassSeen) -> None:
        self.priority_classes[event.name] = event.value
        self._doubt_class(event.name)

    def _priority_class_gone(self, event: messages.PriorityClassGone) -> None:
        self.priority_classes.pop(event.name, None)
        self._doubt_class(event.name)

    def _doubt_class(self, name: str) -> None:
        for key, group in self.groups.items():
            if group.priority_class == name:
                self._doubt(key)

    def _namespace_seen(self, event: messages.NamespaceSeen) -> None:
        before, self.namespace_queue[event.name] = self.namespace_queue.get(event.name), event.queue
        if before != event.queue:
            self._doubt_all(event.name)
        (self.managed.add if event.managed else self.managed.discard)(event.name)

    def _namespace_gone(self, event: messages.NamespaceGone) -> None:
        self.managed.discard(event.name)
        if self.namespace_queue.pop(event.name, None) is not None:
            self._doubt_all(event.name)

    def _doubt_all(self, namespace: str) -> None:
        for key in self.members:
            if key.namespace == namespace:
                self._doubt(key)

    _HANDLERS: ClassVar[dict[type, Any]] = {
        messages.PodSeen: _pod_seen,
        messages.PodGone: _pod_gone,
        messages.NodeSeen: _node_seen,
        messages.NodeGone: _node_gone,
        messages.GroupSeen: _group_seen,
        messages.GroupGone: _group_gone,
        messages.TopologySeen: _topology_seen,
        messages.TopologyGone: _topology_gone,
        messages.HyperNodeSeen: _hypernode_seen,
        messages.HyperNodeGone: _hypernode_gone,
        messages.QueueSeen: _queue_seen,
        messages.QueueGone: _queue_gone,
        messages.BudgetSeen: _budget_seen,
        messages.BudgetGone: _budget_gone,
        messages.NamespaceSeen: _namespace_seen,
        messages.NamespaceGone: _namespace_gone,
        messages.PriorityClassSeen: _priority_class_seen,
        messages.PriorityClassGone: _priority_class_gone,
    }
