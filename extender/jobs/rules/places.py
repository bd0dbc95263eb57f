"""Where a member's replacement had better run: where it ran, and not where this job failed again and again.

Takes what is remembered of a job, and a pod's spec, which it changes; must not judge whether a node is healthy: the
node that is named first is a wish, and a node that is gone or full is passed over by the scheduler. Room of a lost
member is kept by the extender for a bounded time (the README says how long); what is near is its business too.
"""

from __future__ import annotations

from typing import Any

from extender.jobs.rules.model import Record, Slot

#: failures of one job on one node after which it is avoided, and for how many seconds after the last of them
BAD_TIMES = 3
BAD_SECONDS = 3600.0
#: most nodes that one job avoids, the latest: a program that fails everywhere must not rule out the cluster
MAX_AVOIDED = 8
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHT = 100


def avoided(record: Record, now: float) -> tuple[str, ...]:
    """The nodes on which the job must not run for now, in order."""
    bad = [
        (trouble.at, node)
        for node, trouble in record.nodes.items()
        if trouble.times >= BAD_TIMES and now < trouble.at + BAD_SECONDS
    ]
    return tuple(sorted(node for _, node in sorted(bad)[-MAX_AVOIDED:]))


def place(record: Record, slot: Slot, spec: dict[str, Any], now: float) -> None:
    """Add to the node affinity of a member's pod, if there is anything to say."""
    bad = avoided(record, now)
    loss = record.losses.get(slot)
    home = loss.node if loss is not None and loss.node not in bad else ""
    if not bad and not home:
        return
    affinity = dict(spec.get("affinity") or {})
    node = dict(affinity.get("nodeAffinity") or {})
    if bad:
        node[_REQUIRED] = _without(node.get(_REQUIRED), bad)
    if home:
        wish = {"weight": _WEIGHT, "preference": {"matchFields": [_field("In", home)]}}
        node[_PREFERRED] = [*(node.get(_PREFERRED) or ()), wish]
    spec["affinity"] = affinity | {"nodeAffinity": node}


def _without(required: Any, bad: tuple[str, ...]) -> dict[str, Any]:
    """Terms are alternatives, so that each must exclude the bad nodes; a field takes one value at a time."""
    terms = (required or {}).get("nodeSelectorTerms") or [{}]
    fields = [_field("NotIn", name) for name in bad]
    return {
        "nodeSelectorTerms": [term | {"matchFields": [*(term.get("matchFields") or ()), *fields]} for term in terms]
    }


def _field(operator: str, node: str) -> dict[str, Any]:
    return {"key": "metadata.name", "operator": operator, "values": [node]}
