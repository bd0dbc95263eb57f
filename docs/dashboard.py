"""manifests/grafana/muster.json: a dashboard for the three questions, built of rows of panels.

Takes nothing, gives the dashboard; queries name metrics of docs/metrics.md alone, and of NVIDIA's DCGM exporter.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import Any

DOCS = "${docs}"
SOURCE = {"type": "prometheus", "uid": "${source}"}
_QUEUE, _POOL = 'queue=~"$queue"', 'pool=~"$pool"'
_HEIGHT, _WIDTH = 8, 12
#: all fields that Grafana's own schema requires, so that nothing is left to what a version fills in
_OPTIONS = {
    "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
    "tooltip": {"mode": "multi", "sort": "desc"},
}
_LINK = {
    **{"type": "link", "icon": "external link", "targetBlank": True, "tags": []},
    **{"asDropdown": False, "includeVars": False, "keepTime": False},
}
_ALLOCATED = f'sum(muster_extender_pool_gpus{{{_POOL},state="allocated"}}) / sum(muster_extender_pool_gpus{{{_POOL}}})'


@dataclass(frozen=True)
class Panel:
    """One panel: queries with their legends."""

    title: str
    text: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"
    stacked: bool = False


def _waits(metric: str, part: float) -> str:
    return (
        f"histogram_quantile({part}, sum by (le, size) (rate(muster_extender_{metric}_seconds_bucket{{{_QUEUE}}}"
        "[$__rate_interval])))"
    )


ROWS: dict[str, tuple[Panel, ...]] = {
    "Why is it still waiting?": (
        Panel(
            "Waiting groups, by reason",
            f"What each reason means, and what ends it: [troubleshooting]({DOCS}/troubleshooting.md).",
            (("sum by (reason) (muster_extender_waiting_groups) > 0", "{{reason}}"),),
            stacked=True,
        ),
        Panel(
            "Oldest wait, by queue",
            "For how long the group has waited that has waited longest.",
            ((f"max by (queue) (muster_extender_queue_oldest_wait_seconds{{{_QUEUE}}})", "{{queue}}"),),
            unit="s",
        ),
        Panel(
            "What a queue has, is owed and waits for",
            "GPUs. Fair is what it would get now if everything was divided anew.",
            (
                (f"sum by (queue) (muster_extender_queue_gpus{{{_QUEUE}}})", "{{queue}} has"),
                (f"sum by (queue) (muster_extender_queue_fair_gpus{{{_QUEUE}}})", "{{queue}} fair"),
                (f"sum by (queue) (muster_extender_queue_waiting_gpus{{{_QUEUE}}})", "{{queue}} waits for"),
            ),
        ),
        Panel(
            "Held at the permit gate",
            "Bind calls that wait for the rest of their gang, and for how long the oldest has.",
            (
                ("sum(muster_gate_held_binds)", "calls"),
                ("max(muster_gate_oldest_hold_seconds)", "oldest, seconds"),
            ),
        ),
    ),
    "Why was it preempted?": (
        Panel(
            "Evictions, by rule",
            f"Pods an hour. The rules: [troubleshooting]({DOCS}/troubleshooting.md#why-a-pod-was-evicted).",
            (("sum by (rule) (increase(muster_extender_evictions_total[1h])) > 0", "{{rule}}"),),
            stacked=True,
        ),
        Panel(
            "Evictions of groups that were evicted before",
            "Within an hour. Many of these are work that is only moved about.",
            (("sum(increase(muster_extender_repeated_evictions_total[1h]))", "again"),),
        ),
    ),
    "Is the cluster better used?": (
        Panel(
            "GPUs, by what becomes of them",
            "Every GPU of the pools is in exactly one state. Fragmented ones are free and of no use to the workload.",
            ((f"sum by (state) (muster_extender_pool_gpus{{{_POOL}}})", "{{state}}"),),
            stacked=True,
        ),
        Panel(
            "GPUs that have work, and how busy they are",
            "Allocated of all; and, where NVIDIA's DCGM exporter is, what those with a pod compute.",
            (
                (_ALLOCATED, "allocated"),
                ('avg(DCGM_FI_DEV_GPU_UTIL{pod!=""}) / 100', "busy, of those with a pod (DCGM)"),
                ("avg(DCGM_FI_DEV_GPU_UTIL) / 100", "busy, of all (DCGM)"),
            ),
            unit="percentunit",
        ),
        Panel(
            "Allocated now, and so long before",
            "Part of the GPUs; the variable says how long before: before and after a change, side by side.",
            (
                (_ALLOCATED, "now"),
                (_ALLOCATED.replace("}", "} offset $before"), "$before before"),
            ),
            unit="percentunit",
        ),
        Panel(
            "Allocated, by pool",
            "Part of each pool's GPUs.",
            (
                (
                    f'sum by (pool) (muster_extender_pool_gpus{{{_POOL},state="allocated"}}) '
                    f"/ sum by (pool) (muster_extender_pool_gpus{{{_POOL}}})",
                    "{{pool}}",
                ),
            ),
            unit="percentunit",
        ),
        Panel(
            "Fragmented, by pool",
            "Free GPUs of which the pods that wait and run, as a workload, have no use.",
            ((f'sum by (pool) (muster_extender_pool_gpus{{{_POOL},state="fragmented"}})', "{{pool}}"),),
        ),
        Panel(
            "Wait for places, by size (90 % are shorter)",
            "From the first pod of a group to its places, for groups that have started; size is in GPUs.",
            ((_waits("group_wait", 0.9), "{{size}} GPUs"),),
            unit="s",
        ),
        Panel(
            "From places to running, by size (90 % are shorter)",
            "From the plan to the last binding of the minimum.",
            ((_waits("group_start", 0.9), "{{size}} GPUs"),),
            unit="s",
        ),
    ),
    "Muster itself": (
        Panel(
            "Accounting differences",
            "Long above zero is a fault of Muster.",
            (
                ("max(muster_extender_ledger_difference)", "pods"),
                ("max(muster_extender_usage_difference)", "queues"),
            ),
        ),
        Panel(
            "Answering kube-scheduler (99 % are faster)",
            "Filter, prioritize and preempt calls.",
            (
                (
                    "histogram_quantile(0.99, sum by (le, verb) "
                    "(rate(muster_extender_verb_seconds_bucket[$__rate_interval])))",
                    "{{verb}}",
                ),
            ),
            unit="s",
        ),
    ),
}


def page() -> str:
    """The dashboard as Grafana imports it."""
    return json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"


def dashboard() -> dict[str, Any]:
    """The same as data."""
    numbers, panels, top = itertools.count(1), [], 0
    for heading, some in ROWS.items():
        panels.append(_row(next(numbers), heading, top))
        top += 1
        for place, one in enumerate(some):
            panels.append(_panel(next(numbers), one, (place % 2) * _WIDTH, top + place // 2 * _HEIGHT))
        top += -(-len(some) // 2) * _HEIGHT
    return {
        "title": "Muster",
        "uid": "muster",
        "tags": ["muster", "scheduling", "gpu"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-24h", "to": "now"},
        "templating": {"list": [_source(), *map(_variable, ("queue", "pool")), _before(), _docs()]},
        "links": [
            _LINK | {"title": title, "tooltip": title, "url": f"{DOCS}/{name}.md"}
            for title, name in (("Troubleshooting", "troubleshooting"), ("Metrics", "metrics"), ("Queues", "queues"))
        ],
        "annotations": {"list": []},
        "panels": panels,
    }


def _source() -> dict[str, Any]:
    return {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _before() -> dict[str, Any]:
    """How long before the panel of two times looks."""
    options = [{"text": text, "value": text, "selected": text == "1d"} for text in ("1h", "6h", "1d", "7d", "28d")]
    query = ",".join(str(one["value"]) for one in options)
    current = {"text": "1d", "value": "1d"}
    return {"name": "before", "type": "custom", "query": query, "options": options, "current": current}


def _docs() -> dict[str, Any]:
    """Where the links lead: the folder docs/ of the repository, wherever its users read it."""
    where = "https://example.org/muster/docs"
    current = {"text": where, "value": where}
    return {"name": "docs", "label": "Pages", "type": "textbox", "query": where, "current": current, "hide": 2}


def _variable(label: str) -> dict[str, Any]:
    metric = {"queue": "muster_extender_queue_fair_gpus", "pool": "muster_extender_pool_gpus"}[label]
    query = f"label_values({metric}, {label})"
    return {
        "name": label,
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": label},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _row(number: int, title: str, top: int) -> dict[str, Any]:
    at = {"h": 1, "w": 24, "x": 0, "y": top}
    return {"id": number, "type": "row", "title": title, "gridPos": at, "collapsed": False, "panels": []}


def _panel(number: int, panel: Panel, left: int, top: int) -> dict[str, Any]:
    drawn = {"fillOpacity": 30 if panel.stacked else 5, "stacking": {"mode": "normal" if panel.stacked else "none"}}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": SOURCE,
        "gridPos": {"h": _HEIGHT, "w": _WIDTH, "x": left, "y": top},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": drawn}, "overrides": []},
        "options": _OPTIONS,
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": SOURCE, "expr": query, "legendFormat": legend}
            for place, (query, legend) in enumerate(panel.queries)
        ],
    }
