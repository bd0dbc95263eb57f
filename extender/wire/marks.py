"""What the metadata of a pod says of its group, its task and its queue.

Takes a decoded pod, gives keys; must not judge whether the objects named exist.
"""

from __future__ import annotations

import re

from extender.core.ids import GroupKey, QueueName, Source, TaskName
from extender.core.model import Declared
from extender.wire.fields import Object, Reader, seconds_of

QUEUE_LABEL = "muster.dev/queue"
#: on a namespace; both values make all its pods count, and admission policies read which of them it is
MANAGED_LABEL = "muster.dev/managed"
MANAGED_VALUES = ("enforce", "warn")
GROUP_LABEL = "muster.dev/pod-group"
TASK_LABEL = "muster.dev/task"
SCHEDULER_PLUGINS_LABEL = "scheduling.x-k8s.io/pod-group"
VOLCANO_GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
#: Volcano's newer name for the same
VOLCANO_GROUP_ANNOTATION_2 = "scheduling.volcano.sh/group-name"
VOLCANO_TASK_ANNOTATION = "volcano.sh/task-spec"
#: the queue of a pod that stands alone, as Volcano reads it
VOLCANO_QUEUE_ANNOTATION = "scheduling.volcano.sh/queue-name"
KUEUE_GROUP_LABEL = "kueue.x-k8s.io/pod-group-name"
KUEUE_COUNT_ANNOTATION = "kueue.x-k8s.io/pod-group-total-count"
#: true: the pods are made one after the other, as a StatefulSet's are, and must not wait for each other
KUEUE_FAST_ANNOTATION = "kueue.x-k8s.io/pod-group-fast-admission"
MIN_MEMBER_ANNOTATION = "muster.dev/min-member"
EXPECTED_DURATION_ANNOTATION = "muster.dev/expected-duration-seconds"
CHECKPOINT_ANNOTATION = "muster.dev/last-checkpoint"
PREEMPTIBLE_ANNOTATION = "muster.dev/preemptible"
TOPOLOGY_REQUIRED_ANNOTATION = "muster.dev/topology-required"
TOPOLOGY_PREFERRED_ANNOTATION = "muster.dev/topology-preferred"
#: on what makes pods: it is created suspended, and queued as it is
QUEUE_BY_LABEL = "muster.dev/queue-by"
BY_SUSPENSION = "suspension"
#: when its turn came; while it stands there, whoever suspends it has taken it out of the queue
ADMITTED_ANNOTATION = "muster.dev/admitted-at"
#: any change of a rejected pod makes the scheduler look at it again; ours is of this annotation
WAKE_ANNOTATION = "muster.dev/wake"

#: labels in which controllers state a pod's role: Kubeflow (new, then old names), JobSet, Ray, Spark
ROLE_LABELS = (
    "training.kubeflow.org/replica-type",
    "training.kubeflow.org/job-role",
    "replica-type",
    "tf-replica-type",
    "pytorch-replica-type",
    "mpi-job-role",
    "jobset.sigs.k8s.io/replicatedjob-name",
    "ray.io/group",
    "spark-role",
)
#: LeaderWorkerSet numbers the pods of a replica; 0 leads
WORKER_INDEX_LABEL = "leaderworkerset.sigs.k8s.io/worker-index"

MAX_MEMBERS = 100_000
MAX_SECONDS = 2**31 - 1
_NOTHING = Declared()
_DIGITS = re.compile(r"[0-9]{1,18}", re.ASCII)


def group_of(reader: Reader, namespace: str, uid: str, spec: Object, labels: Object, notes: Object) -> GroupKey:
    """The group that the pod's marks name, in the order of `Source`; without one the pod alone."""
    if spec.get("schedulingGroup") is not None:
        native = reader.mapping(spec, "schedulingGroup", "spec.schedulingGroup")
        name = reader.text(native, "podGroupName", "spec.schedulingGroup.podGroupName")
        if name:
            return GroupKey(Source.NATIVE, namespace, name)
    for parent, key, source in (
        (labels, SCHEDULER_PLUGINS_LABEL, Source.SCHEDULER_PLUGINS),
        (notes, VOLCANO_GROUP_ANNOTATION, Source.VOLCANO),
        (notes, VOLCANO_GROUP_ANNOTATION_2, Source.VOLCANO),
        (labels, GROUP_LABEL, Source.MUSTER),
        (labels, KUEUE_GROUP_LABEL, Source.KUEUE),
    ):
        if key in parent and not (source is Source.KUEUE and notes.get(KUEUE_FAST_ANNOTATION) == "true"):
            name = reader.text(parent, key, key)
            if name:
                return GroupKey(source, namespace, name)
    return GroupKey(Source.POD, namespace, uid)


def task_of(reader: Reader, labels: Object, notes: Object) -> TaskName:
    """The task that the pod says it belongs to, else the name that is empty."""
    for parent, key in ((labels, TASK_LABEL), (notes, VOLCANO_TASK_ANNOTATION)):
        if key in parent:
            return TaskName(reader.text(parent, key, key))
    for key in ROLE_LABELS:
        if key in labels:
            return TaskName(reader.text(labels, key, key))
    if WORKER_INDEX_LABEL in labels:
        index = reader.text(labels, WORKER_INDEX_LABEL, WORKER_INDEX_LABEL)
        return TaskName("leader" if index == "0" else "worker")
    return TaskName("")


def queue_of(reader: Reader, labels: Object) -> QueueName | None:
    """The queue that a label names."""
    return QueueName(reader.text(labels, QUEUE_LABEL, QUEUE_LABEL)) or None


def pod_queue_of(reader: Reader, labels: Object, notes: Object) -> QueueName | None:
    """The queue that a pod names: by our label, else as for Volcano."""
    named = queue_of(reader, labels)
    if named is None and VOLCANO_QUEUE_ANNOTATION in notes:
        named = QueueName(reader.text(notes, VOLCANO_QUEUE_ANNOTATION, VOLCANO_QUEUE_ANNOTATION)) or None
    return named


def managed(reader: Reader, labels: Object) -> bool:
    """Whether the labels of a namespace put it under management."""
    return reader.text(labels, MANAGED_LABEL, MANAGED_LABEL) in MANAGED_VALUES


def declared_of(reader: Reader, source: Source, notes: Object) -> Declared:
    """What the annotations of a member say of its group, which is of this source."""
    if not any(map(notes.__contains__, _DECLARATIONS)):
        return _NOTHING
    count = KUEUE_COUNT_ANNOTATION if source is Source.KUEUE else MIN_MEMBER_ANNOTATION
    return Declared(
        min_member=_written_integer(reader, notes, count, MAX_MEMBERS),
        expected_duration=_written_integer(reader, notes, EXPECTED_DURATION_ANNOTATION, MAX_SECONDS),
        preemptible=_written_flag(reader, notes, PREEMPTIBLE_ANNOTATION),
        topology_required=_written_level(reader, notes, TOPOLOGY_REQUIRED_ANNOTATION),
        topology_preferred=_written_level(reader, notes, TOPOLOGY_PREFERRED_ANNOTATION),
    )


def checkpoint_of(notes: Object) -> float | None:
    """When the job last saved its work; what is no time says nothing, and is no fault of the pod."""
    text = notes.get(CHECKPOINT_ANNOTATION)
    return seconds_of(text) if text.__class__ is str else None


def _written_integer(reader: Reader, notes: Object, key: str, high: int) -> int | None:
    """The integer from 1 that an annotation's text says, else None."""
    if key not in notes:
        return None
    text = notes[key]
    if isinstance(text, str) and _DIGITS.fullmatch(text) and 1 <= int(text) <= high:
        return int(text)
    reader.note(key, text, f"an integer from 1 to {high}")
    return None


def _written_flag(reader: Reader, notes: Object, key: str) -> bool | None:
    if key not in notes:
        return None
    text = notes[key]
    if text == "true":
        return True
    if text == "false":
        return False
    reader.note(key, text, "true or false")
    return None


def _written_level(reader: Reader, notes: Object, key: str) -> str | None:
    return reader.text(notes, key, key) or None if key in notes else None


_DECLARATIONS = (
    MIN_MEMBER_ANNOTATION,
    KUEUE_COUNT_ANNOTATION,
    EXPECTED_DURATION_ANNOTATION,
    PREEMPTIBLE_ANNOTATION,
    TOPOLOGY_REQUIRED_ANNOTATION,
    TOPOLOGY_PREFERRED_ANNOTATION,
)
