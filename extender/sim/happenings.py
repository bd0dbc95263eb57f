"""Each kind of event of a scenario that any cluster can be put through.

Takes events, does to nodes, users' objects and pods what they say; must not check anything. What only the virtual
cluster can suffer stands in `faults`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from extender.sim import objects, report
from extender.sim.agenda import Phase
from extender.sim.lives import Life
from extender.sim.names import pod_name
from extender.sim.objects import Making
from extender.sim.world import World


class Happenings:
    """The world outside: users and nodes."""

    def __init__(self, scenario: report.Scenario, world: World) -> None:
        self._groups = {group.name: group for group in scenario.groups}
        self._settings = scenario.settings
        self._world = world

    def happen(self, event: report.Event) -> None:
        """Carry out one event."""
        handler: Callable[..., None] = getattr(self, f"_{event.kind}")
        handler(**event.fields)

    def _pods(self, names: Iterable[str]) -> list[Life]:
        """The pods that these names mean now."""
        lives = self._world.lives
        found = (lives.meant(meant) for name in names if (meant := pod_name(name)) is not None)
        return [life for life in found if life is not None and not life.gone]

    # --- nodes ----------------------------------------------------------------------------------

    def _add_node(self, node: report.Node) -> None:
        self._world.add_node(node)

    def _label_node(self, node: str, labels: Mapping[str, str | None]) -> None:
        self._world.label_node(node, labels)

    def _cordon(self, node: str) -> None:
        self._world.cordon(node, True)

    def _uncordon(self, node: str) -> None:
        self._world.cordon(node, False)

    def _drain(self, node: str) -> None:
        self._cordon(node)
        for life in list(self._world.lives.on(node)):
            self._world.delete(life)

    def _fail_node(self, node: str) -> None:
        self._world.ready(node, False)

    def _recover_node(self, node: str) -> None:
        self._world.ready(node, True)

    def _remove_node(self, node: str) -> None:
        self._world.remove("Node", node)

    def _device_unhealthy(self, node: str, device: str, allocatable: Mapping[str, str]) -> None:
        self._world.set_card(node, device, False, allocatable)

    def _device_healthy(self, node: str, device: str, allocatable: Mapping[str, str]) -> None:
        self._world.set_card(node, device, True, allocatable)

    def _kubelet_reject(self, node: str, until: float) -> None:
        rejecting = self._world.rejecting
        rejecting.add(node)
        self._world.agenda.at(until, Phase.ENDS, lambda: rejecting.discard(node))

    # --- pods and groups ------------------------------------------------------------------------

    def _add_pods(self, group: str, pods: tuple[str, ...] = (), task: report.Task | None = None) -> None:
        told = self._groups[group]
        if task is not None:
            there = sum(life.making.task.name == task.name for life in self._world.lives.by_group.get(group, ()))
            for index in range(task.replicas):
                self._world.make(objects.of_group(told, task, there + index))
        for name in pods:
            self._world.make(self._making(told, name))

    def _making(self, group: report.Group, name: str) -> Making:
        """What a pod of this name was made of, or would have been."""
        life = self._world.lives.newest(name)
        if life is not None:
            return life.making
        task, _, index = name.removeprefix(f"{group.name}-").rpartition("-")
        found = next(one for one in group.tasks if one.name == task)
        return objects.of_group(group, found, int(index))

    def _delete_pod(self, pods: tuple[str, ...] = (), pod: str | None = None) -> None:
        for life in self._pods((*pods, *([pod] if pod is not None else []))):
            self._world.delete(life)

    def _delete_group(self, group: str) -> None:
        self._world.delete_group(group, list(self._world.lives.by_group.get(group, ())))

    def _set_min_member(self, group: str, **fields: int) -> None:
        self._world.write(f"set_min_member {group}", "PodGroup", group, {"spec": {"minMember": fields["minMember"]}})

    def _recreate_pod(self, pod: str, deliver: str = "delete_before_add") -> None:
        for life in self._pods([pod]):
            life.leaving = True
            self._world.vanish(life, owed=False)
            self._world.make(life.making)

    def _finish_pods(self, pods: tuple[str, ...], phase: str, keep_object: bool = False) -> None:
        for life in self._pods(pods):
            self._world.finish(life, phase)
            if not keep_object:
                self._world.vanish(life)

    # --- queues ---------------------------------------------------------------------------------

    def _add_queue(self, queue: report.Queue) -> None:
        self._world.attempt(f"queue {queue.name}", "Queue", objects.queue(queue, self._settings))

    def _set_queue(self, queue: str, **fields: Mapping[str, Any]) -> None:
        told = fields["set"]
        for key, value in told.items():
            patch = {"spec": objects.queue_fields({key: value})}
            self._world.write(f"set_queue {queue} {key} {value}", "Queue", queue, patch)

    def _close_queue(self, queue: str) -> None:
        self._world.write(f"close_queue {queue}", "Queue", queue, {"spec": {"state": "Closed"}})

    def _delete_queue(self, queue: str) -> None:
        self._world.remove("Queue", queue)
