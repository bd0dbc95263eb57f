"""The words of the job controller: a Job as it is read, its pods as they are seen, and the step that follows.

Takes nothing, gives frozen values. They must not know where they come from or how they are written: `reading` and
`status` turn JSON into them and back. Times are seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Object = Mapping[str, Any]
#: a member of a job: its task and its index there
Slot = tuple[str, int]

GROUP = "batch.volcano.sh"
API_VERSION = f"{GROUP}/v1alpha1"
KIND = "Job"


class Phase(StrEnum):
    """What `status.state.phase` says; the words are Volcano's."""

    PENDING = "Pending"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    ABORTING = "Aborting"
    ABORTED = "Aborted"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"
    FAILED = "Failed"


#: pods are made and policies looked at in these
ACTIVE = frozenset({Phase.PENDING, Phase.RUNNING, Phase.RESTARTING})
#: a job never leaves these; its time to live runs
FINISHED = frozenset({Phase.COMPLETED, Phase.TERMINATED, Phase.FAILED})
#: what a job that ends becomes once none of its pods lives
ENDINGS = {
    Phase.COMPLETING: Phase.COMPLETED,
    Phase.ABORTING: Phase.ABORTED,
    Phase.TERMINATING: Phase.TERMINATED,
}


class Event(StrEnum):
    """What a policy may wait for, and what may not stand in one: OutOfSync and CommandIssued."""

    ANY = "*"
    POD_FAILED = "PodFailed"
    POD_EVICTED = "PodEvicted"
    POD_PENDING = "PodPending"
    POD_RUNNING = "PodRunning"
    TASK_COMPLETED = "TaskCompleted"
    TASK_FAILED = "TaskFailed"
    UNKNOWN = "Unknown"
    OUT_OF_SYNC = "OutOfSync"
    COMMAND_ISSUED = "CommandIssued"


class Action(StrEnum):
    """What a policy or a Command may have done."""

    ABORT_JOB = "AbortJob"
    RESTART_JOB = "RestartJob"
    RESTART_TASK = "RestartTask"
    RESTART_POD = "RestartPod"
    TERMINATE_JOB = "TerminateJob"
    COMPLETE_JOB = "CompleteJob"
    RESUME_JOB = "ResumeJob"


class PodPhase(StrEnum):
    """What `status.phase` of a pod says."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Policy:
    """One line of `policies`: events or an exit code, never both."""

    action: Action
    events: frozenset[Event] = frozenset()
    exit_code: int | None = None
    #: seconds for which what the policy is about must last before it acts
    timeout: float = 0.0


@dataclass(frozen=True, slots=True)
class DependsOn:
    """The tasks that must be up before a task starts: all of them, or any."""

    tasks: tuple[str, ...]
    any_of: bool = False


@dataclass(frozen=True, slots=True)
class Closeness:
    """Levels (node labels) within which the pods must be, or had better be."""

    required: str = ""
    preferred: str = ""


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task of a job."""

    name: str
    replicas: int
    template: Object
    #: None where the job does not say it
    min_available: int | None = None
    policies: tuple[Policy, ...] = ()
    #: restarts of containers in this task after which it counts as failed; -1: never
    max_retry: int = 3
    depends_on: DependsOn | None = None
    #: members, by their index, that must be together in one domain of `closeness`; 0: not cut
    partition_size: int = 0
    closeness: Closeness = Closeness()


@dataclass(frozen=True, slots=True)
class Volume:
    """A volume of every pod of the job: a claim that exists, or one that is made."""

    mount_path: str
    claim_name: str
    #: spec of the claim to be made, None where it exists
    claim: Object | None = None


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job's spec with its defaults filled in."""

    tasks: tuple[TaskSpec, ...]
    min_available: int
    min_success: int | None = None
    policies: tuple[Policy, ...] = ()
    #: name -> arguments; those that others need are added
    plugins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    volumes: tuple[Volume, ...] = ()
    scheduler_name: str = ""
    queue: str = "default"
    priority_class: str = ""
    max_retry: int = 3
    #: seconds after its end at which a job is deleted
    ttl: int | None = None
    #: declared running time in seconds
    expected_seconds: int | None = None
    closeness: Closeness = Closeness()

    def task(self, name: str) -> TaskSpec | None:
        """The task of that name."""
        return next((task for task in self.tasks if task.name == name), None)


@dataclass(frozen=True, slots=True)
class Counts:
    """Members of a job by what they do; each pod of the job is in exactly one of these."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class Loss:
    """What befell a member: survives in the job's status until its replacement has run for a while."""

    #: version that its pod must have at least
    floor: int
    #: times that it was lost in a row
    times: int
    #: of the last loss
    at: float
    #: where it ran
    node: str = ""
    #: the policy that waits for it to come back: it was evicted then
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Trouble:
    """Failures of this job on one node."""

    times: int
    at: float


@dataclass(frozen=True, slots=True)
class Record:
    """What the controller must remember of a job beyond what Volcano's status has fields for.

    Stands as JSON in `status.controlledResources` under the key of `record.KEY`: the one map of texts that the status
    of Volcano's own CRD keeps, so that a decision and what follows from it are one write.
    """

    #: task -> version that its pods must have at least; older ones are deleted, and are no event
    floors: Mapping[str, int] = field(default_factory=dict)
    #: task -> indexes of members that were seen since its last restart; one of these without a pod was lost
    seen: Mapping[str, frozenset[int]] = field(default_factory=dict)
    #: task -> indexes of members that succeeded: they count also when their pod is gone
    done: Mapping[str, frozenset[int]] = field(default_factory=dict)
    losses: Mapping[Slot, Loss] = field(default_factory=dict)
    nodes: Mapping[str, Trouble] = field(default_factory=dict)
    #: tasks whose completion a policy has answered
    answered: frozenset[str] = frozenset()
    #: uids of the last Commands that were carried out
    commands: tuple[str, ...] = ()
    #: when something of the job was last restarted
    restarted_at: float = 0.0
    #: the version that the last restart of the whole job made
    run: int = 0


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job's status as it was last written."""

    phase: Phase | None = None
    reason: str = ""
    message: str = ""
    #: of the last change of phase
    since: float = 0.0
    counts: Counts = Counts()
    #: task -> phase of pods -> number, without those that are being deleted
    task_counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    min_available: int = 0
    version: int = 0
    retries: int = 0
    #: phases with the time at which each began, oldest first, bounded
    history: tuple[tuple[Phase, float], ...] = ()
    #: seconds from creation to the end; None while it has not ended
    running_seconds: float | None = None
    #: what else stands in controlledResources, kept as it is
    controlled: Mapping[str, str] = field(default_factory=dict)
    record: Record = Record()


@dataclass(frozen=True, slots=True)
class Job:
    """A Job object that can be run."""

    namespace: str
    name: str
    uid: str
    created: float
    spec: JobSpec
    status: JobStatus = JobStatus()
    deleting: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodState:
    """A pod with the name of one of a job's members."""

    name: str
    uid: str
    #: uid of the object that controls it; pods of another Job of the same name are not ours
    owner_uid: str
    task: str
    #: -1 when the pod does not say it
    index: int
    version: int
    phase: PodPhase
    deleting: bool = False
    #: ended, or is being ended, by something outside: eviction, preemption, a node that is gone
    disrupted: bool = False
    exit_codes: tuple[int, ...] = ()
    node: str = ""
    created: float = 0.0
    #: when it entered its phase, as far as it says so
    since: float = 0.0
    #: restarts of its containers
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class Command:
    """A Command object (bus.volcano.sh/v1alpha1) whose target is the job."""

    name: str
    uid: str
    action: Action | None
    #: what the object says, for the event
    said: str = ""
    #: uid of the Job object that is meant; empty: whichever has the name
    target_uid: str = ""


@dataclass(frozen=True, slots=True)
class PodOrder:
    """A pod to create. AlreadyExists is no fault: the view was old, or its predecessor is not gone yet."""

    name: str
    slot: Slot
    body: Object


@dataclass(frozen=True, slots=True)
class PodDelete:
    """A pod to delete, with its uid as precondition. NotFound and Conflict are no faults."""

    name: str
    uid: str
    why: str


class Upkeep(StrEnum):
    """How an object is kept."""

    #: create it when it is missing, and leave it alone
    CREATE = "create"
    #: also patch it when what stands under `spec` or `data` of the body differs
    UPDATE = "update"


@dataclass(frozen=True, slots=True)
class Wanted:
    """An object that the job needs, owned by it; its name is stable."""

    api_version: str
    kind: str
    name: str
    body: Object
    upkeep: Upkeep = Upkeep.UPDATE
    #: whoever creates it adds `data` id_rsa and id_rsa.pub, base64, of a new key pair, and keeps them for ever
    key_pair: bool = False


@dataclass(frozen=True, slots=True)
class Removal:
    """An object of the job that must be gone. NotFound is no fault."""

    api_version: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class JobEvent:
    """An Event about the job."""

    warning: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Step:
    """What follows for a job, to be carried out in the order of the fields.

    1. `status` first, with the resourceVersion of the object that was judged. It holds the decision; when this write
       is refused the rest is dropped and the job judged anew. A crash after it is harmless: the rest follows from it.
    2. `objects`, `removals`, `deletes`, `creates`: each may be repeated, and fail, alone.
    3. `done` Commands are deleted, the job is deleted if it says so, `events` are sent.
    """

    status: JobStatus | None = None
    #: False: only counts and marks changed, the write of the status may be put off for a second to gather more
    urgent: bool = False
    objects: tuple[Wanted, ...] = ()
    removals: tuple[Removal, ...] = ()
    deletes: tuple[PodDelete, ...] = ()
    creates: tuple[PodOrder, ...] = ()
    #: names of Commands that are carried out or mean nothing
    done: tuple[str, ...] = ()
    delete_job: bool = False
    events: tuple[JobEvent, ...] = ()
    #: judge the job again then at the latest, though nothing changes
    wake_at: float | None = None
