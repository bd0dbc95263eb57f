"""Jobs, pods and Commands from their JSON objects.

Takes decoded JSON, gives values; must not raise for a bad field: a job that cannot be run is a Refusal that names why,
only an object without an identity is a DecodeError.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from extender.jobs.rules.marks import INDEX, JOB_VERSION, TASK
from extender.jobs.rules.model import (
    ACTIVE,
    KIND,
    Action,
    Command,
    Job,
    JobEvent,
    JobStatus,
    Object,
    Phase,
    PodPhase,
    PodState,
    Step,
)
from extender.jobs.rules.phases import enter
from extender.jobs.rules.reading_spec import read_spec
from extender.jobs.rules.refusals import Reason, Refused
from extender.jobs.rules.status import decode_status
from extender.jobs.rules.validation import validate
from extender.wire.fields import Reader, metadata, seconds_of

_PHASES = {phase.value: phase for phase in PodPhase}
_ACTIONS = {action.value: action for action in Action}
#: kubelet and controllers say with these that they ended a pod that had done nothing wrong
_DISRUPTIONS = ("Evicted", "Preempting", "NodeLost", "NodeShutdown", "Terminated")
#: or that it would not even start one
_NOT_ADMITTED = ("UnexpectedAdmissionError", "NodeAffinity", "NodePorts", "OutOf")
_MAX_INDEX = 10**6


@dataclass(frozen=True, slots=True)
class Refusal:
    """A Job that cannot be run as it is."""

    namespace: str
    name: str
    uid: str
    reason: Reason
    message: str
    status: JobStatus
    deleting: bool


def decode_job(obj: object) -> Job | Refusal:
    """The job that the object describes, defaults filled in, or why it is refused (as Volcano's webhook refuses)."""
    meta = metadata(obj, "name", "namespace", "uid")
    assert isinstance(obj, dict)
    status = decode_status(obj.get("status"))
    deleting = meta.get("deletionTimestamp") is not None
    try:
        found = obj.get("spec")
        if not isinstance(found, dict):
            raise Refused(Reason.NO_TASKS, "spec: not an object")
        spec = read_spec(found, meta["name"])
        validate(spec, meta["name"])
    except Refused as wrong:
        return Refusal(meta["namespace"], meta["name"], meta["uid"], wrong.reason, str(wrong), status, deleting)
    reader = Reader()
    return Job(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        created=reader.time(meta, "creationTimestamp", "metadata.creationTimestamp") or 0.0,
        spec=spec,
        status=status,
        deleting=deleting,
        labels=_texts(reader.mapping(meta, "labels", "metadata.labels")),
        annotations=_texts(reader.mapping(meta, "annotations", "metadata.annotations")),
    )


def _texts(found: Object) -> dict[str, str]:
    return {key: text for key, text in found.items() if isinstance(text, str)}


def decode_pod(obj: object) -> PodState:
    """What is seen of a pod; DecodeError when it has no name or no uid."""
    meta = metadata(obj, "name", "uid")
    assert isinstance(obj, dict)
    reader = Reader()
    spec, status = reader.mapping(obj, "spec", "spec"), reader.mapping(obj, "status", "status")
    notes = _texts(reader.mapping(meta, "annotations", "metadata.annotations"))
    containers = reader.objects(status, "containerStatuses", "status.containerStatuses")
    inits = reader.objects(status, "initContainerStatuses", "status.initContainerStatuses")
    phase = _PHASES.get(reader.text(status, "phase", "status.phase"), PodPhase.PENDING)
    created = reader.time(meta, "creationTimestamp", "metadata.creationTimestamp") or 0.0
    return PodState(
        name=meta["name"],
        uid=meta["uid"],
        owner_uid=_owner(reader, meta),
        task=notes.get(TASK, ""),
        index=_digits(notes.get(INDEX, ""), -1),
        version=_digits(notes.get(JOB_VERSION, ""), 0),
        phase=phase,
        deleting=meta.get("deletionTimestamp") is not None,
        disrupted=_disrupted(reader, status),
        exit_codes=_exit_codes(reader, [*inits, *containers]),
        node=reader.text(spec, "nodeName", "spec.nodeName"),
        created=created,
        since=_since(reader, phase, status, containers) or created,
        restarts=sum(
            reader.integer(one, "restartCount", "restartCount", 0, 2**31 - 1) or 0 for one in [*inits, *containers]
        ),
    )


def _digits(text: str, otherwise: int) -> int:
    found = int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else otherwise
    return found if found <= _MAX_INDEX else otherwise


def _owner(reader: Reader, meta: Object) -> str:
    for one in reader.objects(meta, "ownerReferences", "metadata.ownerReferences"):
        if one.get("controller") is True and one.get("kind") == KIND:
            return reader.text(one, "uid", "metadata.ownerReferences.uid")
    return ""


def _disrupted(reader: Reader, status: Object) -> bool:
    reason = reader.text(status, "reason", "status.reason")
    if reason in _DISRUPTIONS or reason.startswith(_NOT_ADMITTED):
        return True
    conditions = reader.objects(status, "conditions", "status.conditions")
    return any(one.get("type") == "DisruptionTarget" and one.get("status") == "True" for one in conditions)


def _ended(reader: Reader, container: Object) -> Object:
    return reader.mapping(reader.mapping(container, "state", "state"), "terminated", "terminated")


def _exit_codes(reader: Reader, containers: list[Object]) -> tuple[int, ...]:
    codes = (reader.integer(_ended(reader, one), "exitCode", "exitCode") for one in containers)
    return tuple(code for code in codes if code)


def _since(reader: Reader, phase: PodPhase, status: Object, containers: list[Object]) -> float | None:
    """When the pod entered its phase, from what its containers say."""
    times: list[str] = []
    for one in containers:
        if phase is PodPhase.RUNNING:
            running = reader.mapping(reader.mapping(one, "state", "state"), "running", "running")
            times.append(reader.text(running, "startedAt", "startedAt"))
        elif phase in (PodPhase.SUCCEEDED, PodPhase.FAILED):
            times.append(reader.text(_ended(reader, one), "finishedAt", "finishedAt"))
    read = [seconds for text in times if text and (seconds := seconds_of(text)) is not None]
    if not read and phase is PodPhase.RUNNING:
        return reader.time(status, "startTime", "status.startTime")
    return max(read, default=None)


def decode_command(obj: object) -> tuple[str, Command]:
    """Name of the job that is meant (in the Command's namespace; empty when it means none) and the Command."""
    meta = metadata(obj, "name", "uid")
    assert isinstance(obj, dict)
    reader = Reader()
    target = reader.mapping(obj, "target", "target")
    said = reader.text(obj, "action", "action")[:40]
    job = reader.text(target, "name", "target.name") if target.get("kind") == KIND else ""
    return job, Command(meta["name"], meta["uid"], _ACTIONS.get(said), said, reader.text(target, "uid", "target.uid"))


def refuse(refusal: Refusal, now: float) -> Step:
    """The step of a job that is refused: its status says why, its pods are left as they are.

    One that never started is Failed at once, so that who waits for its end learns of it; one that was edited while it
    ran keeps its phase, and goes on when it is mended.
    """
    if refusal.deleting or (refusal.status.phase is not None and refusal.status.phase not in ACTIVE):
        return Step()
    before = refusal.status
    after = before if before.phase is not None else enter(before, Phase.FAILED, now)
    after = replace(after, reason=refusal.reason.value, message=refusal.message)
    if after == before:
        return Step()
    return Step(status=after, urgent=True, events=(JobEvent(True, refusal.reason.value, refusal.message),))
