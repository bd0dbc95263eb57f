"""What a pod says of its place among its siblings: its index, and the parts of the group that want a domain.

Takes labels, annotations and the name of a pod, gives numbers and parts; must not judge whether levels exist. Indexes
are those that controllers write; the annotations are Kueue's, whose pod sets are our tasks.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

import orjson

from extender.core.ids import TaskName
from extender.core.model import Part
from extender.core.parts import slice_of
from extender.wire.fields import Object, Reader

_PODSET = "kueue.x-k8s.io/podset-"
REQUIRED_ANNOTATION = f"{_PODSET}required-topology"
PREFERRED_ANNOTATION = f"{_PODSET}preferred-topology"
SLICE_ANNOTATION = f"{_PODSET}slice-required-topology"
SLICE_SIZE_ANNOTATION = f"{_PODSET}slice-size"
LAYERS_ANNOTATION = f"{_PODSET}slice-required-topology-constraints"
PODSET_GROUP_ANNOTATION = f"{_PODSET}group-name"
_ASKING = (REQUIRED_ANNOTATION, PREFERRED_ANNOTATION, SLICE_ANNOTATION, LAYERS_ANNOTATION)

_JOB_INDEX = "jobset.sigs.k8s.io/job-index"
_LWS_GROUP = "leaderworkerset.sigs.k8s.io/group-index"
#: labels with an index: those that count groups of pods, then those that count pods. LeaderWorkerSet, JobSet with Job,
#: StatefulSet, Kubeflow (new, then old), Volcano
_OUTER = (_LWS_GROUP, _JOB_INDEX)
_INNER = (
    "leaderworkerset.sigs.k8s.io/worker-index",
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
    "training.kubeflow.org/replica-index",
    "replica-index",
    "volcano.sh/task-index",
)
_DIGITS = re.compile(r"[0-9]{1,9}", re.ASCII)
#: `worker-12`; not the random end of a name
_LAST_NUMBER = re.compile(r"[-.]([0-9]{1,9})$", re.ASCII)
_MAX_LAYERS = 3
_MAX_SIZE = 100_000


def index_of(labels: Object, notes: Object, name: str) -> tuple[int, ...]:
    """The pod's place among its siblings: by labels of controllers, else by the number at the end of its name."""
    inner = next((number for key in _INNER if (number := _number(labels.get(key, notes.get(key)))) is not None), None)
    if inner is None:
        found = _LAST_NUMBER.search(name)
        return (int(found[1]),) if found else ()
    return (*(number for key in _OUTER if (number := _number(labels.get(key))) is not None), inner)


def _number(value: object) -> int | None:
    return int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else None


def parts_of(
    reader: Reader, labels: Object, notes: Object, task: TaskName, index: tuple[int, ...]
) -> tuple[tuple[Part, ...], str | None]:
    """The parts that the pod's annotations ask a domain for, from broad to narrow, and the level that its task
    prefers."""
    if not any(map(notes.__contains__, _ASKING)):
        return (), None
    required = _level(reader, notes, REQUIRED_ANNOTATION)
    preferred = _level(reader, notes, PREFERRED_ANNOTATION)
    if required and preferred:
        reader.say(PREFERRED_ANNOTATION, f"{REQUIRED_ANNOTATION} is given too")
    podset = _podset(reader, labels, notes, task)
    parts = [Part(required, podset)] if required else []
    for level, size in _layers(reader, labels, notes):
        if not index:
            reader.say(SLICE_ANNOTATION, "the pod has no index, so that its slice is not known")
            break
        number = slice_of(index, size) if size is not None else [str(index[0])]
        parts.append(Part(level, "/".join((podset, f"{len(parts)}", *number)), divided=True))
    return tuple(parts), preferred


def _podset(reader: Reader, labels: Object, notes: Object, task: TaskName) -> str:
    """What Kueue places as one: a task, or several of them of the same name for that, of one LeaderWorkerSet group."""
    together = reader.text(notes, PODSET_GROUP_ANNOTATION, PODSET_GROUP_ANNOTATION)
    name = f"podset-group {together}" if together else f"podset {task}"
    group = reader.text(labels, _LWS_GROUP, _LWS_GROUP)
    return f"{name}/{group}" if group else name


def _level(reader: Reader, notes: Object, key: str) -> str | None:
    return reader.text(notes, key, key) or None


def _layers(reader: Reader, labels: Object, notes: Object) -> list[tuple[str, int | None]]:
    """Levels of slices with their sizes, from broad to narrow. Of a JobSet's slices without a size each is one Job."""
    level = _level(reader, notes, SLICE_ANNOTATION)
    if LAYERS_ANNOTATION not in notes:
        size = _size(reader, notes.get(SLICE_SIZE_ANNOTATION), SLICE_SIZE_ANNOTATION)
        if level and size is None and (SLICE_SIZE_ANNOTATION in notes or _JOB_INDEX not in labels):
            reader.say(SLICE_SIZE_ANNOTATION, "is missing, or is no size")
            return []
        return [(level, size)] if level else []
    if level:
        reader.say(LAYERS_ANNOTATION, f"{SLICE_ANNOTATION} is given too")
    found = []
    for row in _rows(reader, notes[LAYERS_ANNOTATION]):
        named, size = row.get("topology"), _size(reader, row.get("size"), LAYERS_ANNOTATION)
        if not isinstance(named, str) or not named or size is None:
            reader.note(LAYERS_ANNOTATION, row, "a topology and a size")
            return []
        found.append((named, size))
    sizes = [size for _, size in found]
    if any(inner > outer or outer % inner for outer, inner in itertools.pairwise(sizes)):
        reader.note(LAYERS_ANNOTATION, sizes, "sizes that divide each other")
        return []
    return list(found)


def _rows(reader: Reader, text: object) -> list[dict[str, Any]]:
    try:
        rows = orjson.loads(text)  # type: ignore[arg-type]
    except (orjson.JSONDecodeError, TypeError):
        rows = None
    if not isinstance(rows, list) or not 1 <= len(rows) <= _MAX_LAYERS or not all(isinstance(r, dict) for r in rows):
        reader.note(LAYERS_ANNOTATION, text, f"a JSON list of 1 to {_MAX_LAYERS} objects")
        return []
    return rows


def _size(reader: Reader, value: object, key: str) -> int | None:
    """The number that is given as a number or a text; None when none is given, or it is no size."""
    if value is None:
        return None
    number = value if type(value) is int else _number(value)
    if number is not None and 1 <= number <= _MAX_SIZE:
        return number
    reader.note(key, value, f"an integer from 1 to {_MAX_SIZE}")
    return None
