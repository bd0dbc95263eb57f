"""What of a report cannot be played on a real cluster, and why.

Takes a report, gives sentences; must not know a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from extender.core.ids import DEFAULT_QUEUE
from extender.sim.report import Report, Settings

_NO_WAY_IN = "nobody stands between Muster and this API server"
_RUNNING = "Muster and its kube-scheduler run already, and are not ours to stop"
_CARDS = "cards are published and handed out by a device plugin, which nodes of KWOK do not have"
#: events that need what a real cluster does not give
EVENTS: Mapping[str, str] = {
    "freeze_budget_status": "the cluster's disruption controller keeps budgets up to date",
    "delay_watch": _NO_WAY_IN,
    "api_conflict": _NO_WAY_IN,
    "delay_bind_reply": "nobody stands between kube-scheduler and the permit gate",
    "repeat_bind": "kube-scheduler calls bind when it wants to",
    "crash_during_bind": _RUNNING,
    "start_sidecar": _RUNNING,
    "device_unhealthy": _CARDS,
    "device_healthy": _CARDS,
    "remove_node": "the cluster's garbage collector removes the pods of a node that is gone",
}
_QUEUE_EVENTS = ("set_queue", "close_queue", "delete_queue")


def obstacles(report: Report) -> list[str]:
    """What keeps the report from being played at all."""
    return list(dict.fromkeys([*_settings(report.scenario.settings), *_objects(report), *_events(report)]))


def concessions(report: Report) -> list[str]:
    """What is played in another way than the report asks for."""
    return [
        f"{event.kind} at {event.at:g}: a watch tells of the old pod's end first"
        for event in report.scenario.events
        if event.kind == "recreate_pod" and event.fields.get("deliver") == "add_before_delete"
    ]


def _settings(settings: Settings) -> Iterator[str]:
    if settings.http_timeout != Settings().http_timeout:
        yield f"settings.http_timeout {settings.http_timeout:g}: {_RUNNING}"
    if settings.max_rejections_per_node is not None:
        yield f"settings.max_rejections_per_node {settings.max_rejections_per_node}: {_RUNNING}"


def _objects(report: Report) -> Iterator[str]:
    scenario = report.scenario
    added = [event.fields["node"] for event in scenario.events if event.kind == "add_node"]
    for node in (*scenario.nodes, *added):
        if node.devices:
            yield f"node {node.name}: {_CARDS}"
    if any(queue.name == DEFAULT_QUEUE for queue in scenario.queues):
        yield _of_everybody("queues")
    elif scenario.settings.stale_gang_seconds is not None:
        for group in scenario.groups:
            if group.queue in (None, DEFAULT_QUEUE):
                yield _of_everybody(f"settings.stale_gang_seconds and group {group.name}")


def _events(report: Report) -> Iterator[str]:
    for event in report.scenario.events:
        if event.kind in EVENTS:
            yield f"{event.kind} at {event.at:g}: {EVENTS[event.kind]}"
        queue = event.fields.get("queue")
        changed = event.kind == "add_queue" and getattr(queue, "name", "") == DEFAULT_QUEUE
        if changed or (event.kind in _QUEUE_EVENTS and queue == DEFAULT_QUEUE):
            yield _of_everybody(f"{event.kind} at {event.at:g}")


def _of_everybody(what: str) -> str:
    return f"{what}: the queue {DEFAULT_QUEUE} is everybody's on a real cluster"
