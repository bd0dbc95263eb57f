"""Jobs whose pods Volcano made: they stay in the group that Volcano made for them, and keep its key pair.

Takes a step and the name of that group, gives the step with its new pods in the same group. Marks of pods cannot be
changed, so a group of ours beside it would split the gang in two; with keys of ours new pods could not log in at old
ones.
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
    objects = tuple(wanted for wanted in step.objects if wanted.kind != "PodGroup" and not wanted.key_pair)
    keys = {wanted.name for wanted in step.objects if wanted.key_pair}
    creates = tuple(_marked(order, group, keys) for order in step.creates)
    return dataclasses.replace(step, objects=objects, creates=creates)


def _marked(order: PodOrder, group: str, keys: set[str]) -> PodOrder:
    body: dict[str, Any] = dict(order.body)
    volumes = [_with_its_keys(volume, keys) for volume in body["spec"].get("volumes") or ()]
    body["spec"] = dict(body["spec"]) | ({"volumes": volumes} if volumes else {})
    metadata = dict(body.get("metadata") or {})
    metadata["labels"] = {key: value for key, value in (metadata.get("labels") or {}).items() if key != GROUP_LABEL}
    metadata["annotations"] = dict(metadata.get("annotations") or {}) | {VOLCANO_GROUP_ANNOTATION: group}
    body["metadata"] = metadata
    return dataclasses.replace(order, body=body)


def _with_its_keys(volume: dict[str, Any], keys: set[str]) -> dict[str, Any]:
    """The volume with Volcano's Secret in the place of ours: it bears the name that we give the volume."""
    secret = volume.get("secret") or {}
    return volume | {"secret": secret | {"secretName": volume["name"]}} if secret.get("secretName") in keys else volume
