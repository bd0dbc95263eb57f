"""Jobs whose pods Volcano made: they stay in the group that Volcano made for them.

Takes a step and the name of that group, gives the step with its new pods in the same group. Marks of pods cannot be
changed, so a group of ours beside it would split the gang in two.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from extender.jobs.rules.model import PodOrder, Step
from extender.wire.marks import GROUP_LABEL, VOLCANO_GROUP_ANNOTATION


def keep_group(step: Step, group: str) -> Step:
    """The step with no group of ours; `group` is the name of the scheduling.volcano.sh PodGroup, empty for none."""
    if not group:
        return step
    objects = tuple(wanted for wanted in step.objects if wanted.kind != "PodGroup")
    return dataclasses.replace(step, objects=objects, creates=tuple(_marked(order, group) for order in step.creates))


def _marked(order: PodOrder, group: str) -> PodOrder:
    body: dict[str, Any] = dict(order.body)
    metadata = dict(body.get("metadata") or {})
    metadata["labels"] = {key: value for key, value in (metadata.get("labels") or {}).items() if key != GROUP_LABEL}
    metadata["annotations"] = dict(metadata.get("annotations") or {}) | {VOLCANO_GROUP_ANNOTATION: group}
    body["metadata"] = metadata
    return dataclasses.replace(order, body=body)
