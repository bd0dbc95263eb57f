"""Each kind of event of a scenario, carried out on the virtual cluster.

Takes events, does to cluster, scheduler and sidecar what they say; must not check anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from extender.sim import objects, report
from extender.sim.agenda import Phase
from extender.sim.api import Refused
from extender.sim.cluster import Cluster
from extender.sim.lives import Life
from extender.sim.names import object_named, pod_name
from extender.sim.objects import Making
from extender.sim.scheduler import Scheduler

_CORDON, _NOT_READY = objects.TAINTS


class Happenings:
    """The world outside: users, nodes, and faults."""

    def __init__(self, scenario: report.Scenario, cluster: Cluster, scheduler: Scheduler) -> None:
        self._groups = {group.name: group for group in scenario.groups}
        self._settings = scenario.settings
        self._cluster = cluster
        self._scheduler = scheduler

    def happen(self, event: report.Event) -> None:
        """Carry out one event."""
        handler: Callable[..., None] = getattr(self, f"_{event.kind}")
        handler(**event.fields)

    def _pods(self, names: Iterable[str]) -> list[Life]:
        """The pods that these names mean now."""
        lives = self._cluster.lives
        found = (lives.meant(meant) for name in names if (meant := pod_name(name)) is not None)
        return [life for life in found if life is not None and not life.gone]

    # --- nodes ----------------------------------------------------------------------------------

    def _add_node(self, node: report.Node) -> None:
        self._cluster.add_node(node)

    def _label_node(self, node: str, labels: Mapping[str, str | None]) -> None:
        self._cluster.change_node(node, {"metadata": {"labels": dict(labels)}})

    def _cordon(self, node: str) -> None:
        self._cluster.change_node(node, {"spec": {"unschedulable": True}})
        self._cluster.taint(node, _CORDON, True)

    def _uncordon(self, node: str) -> None:
        self._cluster.change_node(node, {"spec": {"unschedulable": None}})
        self._cluster.taint(node, _CORDON, False)

    def _drain(self, node: str) -> None:
        self._cordon(node)
        for life in list(self._cluster.lives.on(node)):
            self._cluster.delete(life)

    def _fail_node(self, node: str) -> None:
        self._ready(node, "False")
        self._cluster.taint(node, _NOT_READY, True)

    def _recover_node(self, node: str) -> None:
        self._ready(node, "True")
        self._cluster.taint(node, _NOT_READY, False)

    def _ready(self, node: str, status: str) -> None:
        self._cluster.change_node(node, {"status": {"conditions": [{"type": "Ready", "status": status}]}})

    def _remove_node(self, node: str) -> None:
        self._cluster.api.remove("Node", node)

    def _device_unhealthy(self, node: str, device: str, allocatable: Mapping[str, str]) -> None:
        self._cluster.set_card(node, device, False, allocatable)

    def _device_healthy(self, node: str, device: str, allocatable: Mapping[str, str]) -> None:
        self._cluster.set_card(node, device, True, allocatable)

    def _kubelet_reject(self, node: str, until: float) -> None:
        rejecting = self._cluster.rejecting
        rejecting.add(node)
        self._cluster.agenda.at(until, Phase.ENDS, lambda: rejecting.discard(node))

    # --- pods and groups ------------------------------------------------------------------------

    def _add_pods(self, group: str, pods: tuple[str, ...] = (), task: report.Task | None = None) -> None:
        told = self._groups[group]
        if task is not None:
            there = sum(life.making.task.name == task.name for life in self._cluster.lives.by_group.get(group, ()))
            for index in range(task.replicas):
                self._cluster.make(objects.of_group(told, task, there + index))
        for name in pods:
            self._cluster.make(self._making(told, name))

    def _making(self, group: report.Group, name: str) -> Making:
        """What a pod of this name was made of, or would have been."""
        life = self._cluster.lives.newest(name)
        if life is not None:
            return life.making
        task, _, index = name.removeprefix(f"{group.name}-").rpartition("-")
        found = next(one for one in group.tasks if one.name == task)
        return objects.of_group(group, found, int(index))

    def _delete_pod(self, pods: tuple[str, ...] = (), pod: str | None = None) -> None:
        for life in self._pods((*pods, *([pod] if pod is not None else []))):
            self._cluster.delete(life)

    def _delete_group(self, group: str) -> None:
        self._cluster.delete_group(group, list(self._cluster.lives.by_group.get(group, ())))

    def _set_min_member(self, group: str, **fields: int) -> None:
        self._write(f"set_min_member {group}", "PodGroup", group, {"spec": {"minMember": fields["minMember"]}})

    def _recreate_pod(self, pod: str, deliver: str = "delete_before_add") -> None:
        for life in self._pods([pod]):
            life.leaving = True
            self._cluster.vanish(life, owed=False)
            self._cluster.make(life.making)
            if deliver == "add_before_delete" and self._scheduler.sidecar.up:
                self._scheduler.sidecar.show_added_first(life.making.name)

    def _finish_pods(self, pods: tuple[str, ...], phase: str, keep_object: bool = False) -> None:
        for life in self._pods(pods):
            self._cluster.finish(life, phase)
            if not keep_object:
                self._cluster.vanish(life)

    # --- queues ---------------------------------------------------------------------------------

    def _add_queue(self, queue: report.Queue) -> None:
        self._cluster.attempt(f"queue {queue.name}", "Queue", objects.queue(queue, self._settings))

    def _set_queue(self, queue: str, **fields: Mapping[str, Any]) -> None:
        told = fields["set"]
        for key, value in told.items():
            patch = {"spec": objects.queue_fields({key: value})}
            self._write(f"set_queue {queue} {key} {value}", "Queue", queue, patch)

    def _close_queue(self, queue: str) -> None:
        self._write(f"close_queue {queue}", "Queue", queue, {"spec": {"state": "Closed"}})

    def _delete_queue(self, queue: str) -> None:
        self._cluster.api.remove("Queue", queue)

    def _write(self, what: str, kind: str, name: str, patch: Mapping[str, Any]) -> None:
        try:
            self._cluster.api.patch(kind, name, patch)
        except Refused as error:
            self._cluster.refusals.append((what, str(error)))

    # --- faults ---------------------------------------------------------------------------------

    def _freeze_budget_status(self) -> None:
        self._cluster.budgets.frozen = True

    def _delay_watch(self, object: str, seconds: float) -> None:
        kind, name, _ = object_named(object)
        self._scheduler.sidecar.delay(kind, name, seconds)

    def _api_conflict(self, object: str, times: int) -> None:
        self._scheduler.sidecar.writes.conflicts[object_named(object)] = times

    def _delay_bind_reply(self, pod: str, seconds: float) -> None:
        self._scheduler.late[pod] = seconds

    def _repeat_bind(self, pod: str, node: str) -> None:
        for life in self._pods([pod]):
            self._scheduler.repeat(life, node == "same", f"repeat_bind {pod}")

    def _crash_during_bind(self, group: str, posted: int) -> None:
        self._scheduler.sidecar.crash_after(group, posted)

    def _start_sidecar(self) -> None:
        self._scheduler.sidecar.start()
        self._scheduler.look_again()
