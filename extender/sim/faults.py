"""Events that only the virtual cluster can be put through: late news and answers, conflicts, a crash.

Takes events, does to scheduler and sidecar what they say; must not check anything.
"""

from __future__ import annotations

from extender.sim import report
from extender.sim.cluster import Cluster
from extender.sim.happenings import Happenings
from extender.sim.names import object_named
from extender.sim.scheduler import Scheduler


class Faults(Happenings):
    """All kinds of events, on the virtual cluster."""

    def __init__(self, scenario: report.Scenario, cluster: Cluster, scheduler: Scheduler) -> None:
        super().__init__(scenario, cluster)
        self._cluster = cluster
        self._scheduler = scheduler

    def _recreate_pod(self, pod: str, deliver: str = "delete_before_add") -> None:
        lives = self._pods([pod])
        super()._recreate_pod(pod)
        if deliver == "add_before_delete" and self._scheduler.sidecar.up:
            for life in lives:
                self._scheduler.sidecar.show_added_first(life.making.name)

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
