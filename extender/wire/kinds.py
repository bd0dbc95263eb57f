"""The kinds of objects that make pods, as a table, and the roles of pods that an object of them names.

Takes decoded JSON of such an object, gives its roles with their templates, numbers and minimums; must not raise for a
bad field (it is noted), nor say how the pods are grouped. What each kind's own controller writes on its pods is in the
table too: from those marks Muster tells groups and tasks apart (see `marks`), and by it tests and scenarios make pods
as the controllers make them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from extender.core.ids import TaskName
from extender.wire.fields import Object, Reader, api_group
from extender.wire.marks import MAX_MEMBERS

#: keys and values that a controller writes, with {name}, {uid}, {namespace} of the object; {role} and {index} in it, by
#: the last of its numbers as {inner} in {outer}, and {partition} where it is cut into such; {order} in the whole,
#: {copy} of the whole and {size} of it. What is empty is not written
Writes = tuple[tuple[str, str], ...]

_KUBEFLOW = "kubeflow.org"


@dataclass(frozen=True, slots=True)
class Role:
    """Where pods of one template stand in an object. Paths are fields joined by dots, a|b the first that is there."""

    #: `x.y`, or each of a list `x.y[]`, or of a mapping `x.y{}`
    at: str = "spec"
    #: `.field` that names the role, or its name; "": the key in the mapping, in small letters
    name: str = ""
    template: str = "template"
    #: fields whose product is the number of pods; `=n` behind one that counts as n where it is not there, else it is 1
    number: tuple[str, ...] = ("replicas",)
    #: field that the last of `number` does not exceed
    most: str = ""
    #: so many pods of the number belong to another role
    less: int = 0
    #: field of the role's own minimum; `=n`: n, whatever the object says
    least: str = ""
    #: without a template there are no pods of it
    optional: bool = False
    #: field of the size of the partitions into which it is cut by index
    partition: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """A kind of objects that hand their field `suspend` on to one that they make."""

    group: str
    name: str
    plural: str
    versions: tuple[str, ...]
    suspend: str = "spec.suspend"


@dataclass(frozen=True, slots=True)
class Together:
    """How pods of one object are told from others', and when they start together.

    Tests: `field` is there and not empty or false, `field=text` says this, `field==field` are equal; with a `!` before
    it, that this is not so.
    """

    #: name and versions of the API resource by which the objects are watched, the preferred version first
    plural: str
    versions: tuple[str, ...] = ("v1",)
    #: API groups and kinds of the controllers of the pods; (): the object itself
    controllers: tuple[tuple[str, str], ...] = ()
    #: label of the pods that names the object; "": their controller is the object
    named_by: str = ""
    #: label of the pods that counts the wholes (`copies`)
    copy_by: str = ""
    #: role ("" for any) and test: where it holds its pods stand alone
    apart: tuple[tuple[str, str], ...] = ()
    #: tests: where one holds the roles start one after the other, so that each is a group of its own
    in_turn: tuple[str, ...] = ()
    #: field of the number of pods that did their work
    done: str = ""
    #: test: only where it holds the minimums of roles count, else all their pods
    elastic: str = ""
    #: field that stops its pods while it is true; "" where the kind has none
    suspend: str = ""
    #: what makes objects of the kind and hands its own such field on to them
    stopped_by: Stop | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of objects that make pods, or that make objects which do."""

    group: str
    name: str
    roles: tuple[Role, ...] = ()
    #: where the objects stand that are made of it, or their specs, and what they are where they do not say it
    holds: tuple[str, ...] = ()
    specs: tuple[str, ...] = ()
    held: tuple[str, str] = ("", "")
    #: field of the number of such wholes, each a group of its own
    copies: str = ""
    #: fields of the minimum of the whole and of its queue, where the kind has them
    minimum: str = ""
    queue: str = ""
    labels: Writes = ()
    notes: Writes = ()
    #: None: it makes other objects of this table, or its pods stand alone
    together: Together | None = None

    @property
    def word(self) -> str:
        """The kind in the names of groups."""
        return self.name.lower()


_JOB = Role(number=("parallelism",), most="completions")
_JOB_LABELS = (
    ("batch.kubernetes.io/job-name", "{name}"),
    ("job-name", "{name}"),
    ("batch.kubernetes.io/controller-uid", "{uid}"),
)
_VOLCANO_JOB = Role("spec.tasks[]", ".name", least="minAvailable", partition="partitionPolicy.partitionSize")
_POLICY = "spec.runPolicy.schedulingPolicy"
_RUN_POLICY = "spec.runPolicy.suspend"


def _kubeflow(name: str, operator: str, field: str) -> Kind:
    return Kind(
        _KUBEFLOW,
        name,
        (Role(f"spec.{field}{{}}"),),
        # of an elastic job what torchrun or its like goes on with
        minimum=f"{_POLICY}.minAvailable|spec.elasticPolicy.minReplicas",
        queue=f"{_POLICY}.queue",
        together=Together(f"{name.lower()}s", suspend=_RUN_POLICY),
        labels=(
            ("training.kubeflow.org/operator-name", operator),
            ("training.kubeflow.org/job-name", "{name}"),
            ("training.kubeflow.org/replica-type", "{role}"),
            ("training.kubeflow.org/replica-index", "{index}"),
        ),
    )


_RAY_ROLES = (
    Role("spec.headGroupSpec", "headgroup", number=()),
    Role("spec.workerGroupSpecs[]", ".groupName", number=("replicas|minReplicas=0", "numOfHosts"), least="minReplicas"),
)

KINDS: tuple[Kind, ...] = (
    Kind("", "Pod", (Role("", "", template="", number=()),)),
    Kind("", "PodTemplate", (Role("", number=()),)),
    Kind("", "ReplicationController", (Role(),)),
    Kind("", "List", holds=("items[]",)),
    Kind("apps", "Deployment", (Role(),), labels=(("pod-template-hash", "{uid}"),)),
    Kind("apps", "ReplicaSet", (Role(),)),
    Kind(
        "apps",
        "StatefulSet",
        (Role(),),
        labels=(("statefulset.kubernetes.io/pod-name", "{name}-{index}"), ("apps.kubernetes.io/pod-index", "{index}")),
    ),
    Kind(
        "batch",
        "Job",
        (_JOB,),
        labels=_JOB_LABELS,
        # whose pods know how many they are, and are all there at the same time; others do their work piece by piece
        together=Together(
            "jobs",
            apart=(("", "!spec.completionMode=Indexed"), ("", "!spec.parallelism==spec.completions")),
            done="status.succeeded",
            suspend="spec.suspend",
        ),
    ),
    Kind("batch", "CronJob", holds=("spec.jobTemplate",), held=("batch/v1", "Job")),
    Kind(
        "jobset.x-k8s.io",
        "JobSet",
        (
            Role(
                "spec.replicatedJobs[]",
                ".name",
                template="template.spec.template",
                number=("replicas", "template.spec.parallelism"),
                most="template.spec.completions",
            ),
        ),
        labels=(
            ("jobset.sigs.k8s.io/jobset-name", "{name}"),
            ("jobset.sigs.k8s.io/replicatedjob-name", "{role}"),
            ("jobset.sigs.k8s.io/job-index", "{outer}"),
            ("batch.kubernetes.io/job-completion-index", "{inner}"),
            ("jobset.sigs.k8s.io/restart-attempt", "0"),
        ),
        together=Together(
            "jobsets",
            ("v1alpha2",),
            controllers=(("batch", "Job"),),
            named_by="jobset.sigs.k8s.io/jobset-name",
            in_turn=("spec.startupPolicy.startupPolicyOrder=InOrder", "spec.replicatedJobs[].dependsOn"),
            suspend="spec.suspend",
            stopped_by=Stop("trainer.kubeflow.org", "TrainJob", "trainjobs", ("v1alpha1",)),
        ),
    ),
    Kind(
        "leaderworkerset.x-k8s.io",
        "LeaderWorkerSet",
        (
            Role("spec.leaderWorkerTemplate", "leader", template="leaderTemplate|workerTemplate", number=()),
            Role("spec.leaderWorkerTemplate", "worker", template="workerTemplate", number=("size",), less=1),
        ),
        copies="spec.replicas",
        labels=(
            ("leaderworkerset.sigs.k8s.io/name", "{name}"),
            ("leaderworkerset.sigs.k8s.io/group-index", "{copy}"),
            ("leaderworkerset.sigs.k8s.io/worker-index", "{order}"),
        ),
        notes=(("leaderworkerset.sigs.k8s.io/size", "{size}"),),
        together=Together(
            "leaderworkersets",
            controllers=(("apps", "StatefulSet"),),
            named_by="leaderworkerset.sigs.k8s.io/name",
            copy_by="leaderworkerset.sigs.k8s.io/group-index",
            apart=(("leader", "spec.startupPolicy=LeaderReady"),),
        ),
    ),
    _kubeflow("PyTorchJob", "pytorchjob-controller", "pytorchReplicaSpecs"),
    _kubeflow("TFJob", "tfjob-controller", "tfReplicaSpecs"),
    _kubeflow("XGBoostJob", "xgboostjob-controller", "xgbReplicaSpecs"),
    _kubeflow("PaddleJob", "paddlejob-controller", "paddleReplicaSpecs"),
    _kubeflow("JAXJob", "jaxjob-controller", "jaxReplicaSpecs"),
    _kubeflow("MXJob", "mxjob-controller", "mxReplicaSpecs"),
    Kind(
        _KUBEFLOW,
        "MPIJob",
        (Role("spec.mpiReplicaSpecs{}"),),
        minimum=f"{_POLICY}.minAvailable",
        queue=f"{_POLICY}.queue",
        labels=(
            ("training.kubeflow.org/operator-name", "mpi-operator"),
            ("training.kubeflow.org/job-name", "{name}"),
            ("training.kubeflow.org/job-role", "{role}"),
            ("training.kubeflow.org/replica-index", "{index}"),
        ),
        # the launcher is made by a Job
        together=Together(
            "mpijobs",
            ("v2beta1", "v1"),
            controllers=((_KUBEFLOW, "MPIJob"), ("batch", "Job")),
            named_by="training.kubeflow.org/job-name",
            apart=(("launcher", "spec.launcherCreationPolicy=WaitForWorkersReady"),),
            suspend=_RUN_POLICY,
        ),
    ),
    Kind(
        "ray.io",
        "RayCluster",
        _RAY_ROLES,
        labels=(
            ("ray.io/cluster", "{name}"),
            ("ray.io/group", "{role}"),
            ("ray.io/is-ray-node", "yes"),
        ),
        together=Together(
            "rayclusters", ("v1", "v1alpha1"), elastic="spec.enableInTreeAutoscaling", suspend="spec.suspend"
        ),
    ),
    Kind(
        "ray.io",
        "RayJob",
        (Role("spec", "submitter", template="submitterPodTemplate", number=(), optional=True),),
        specs=("spec.rayClusterSpec",),
        held=("ray.io/v1", "RayCluster"),
    ),
    Kind("ray.io", "RayService", specs=("spec.rayClusterConfig",), held=("ray.io/v1", "RayCluster")),
    Kind("ray.io", "RayCronJob", specs=("spec.jobTemplate",), held=("ray.io/v1", "RayJob")),
    Kind(
        "batch.volcano.sh",
        "Job",
        (_VOLCANO_JOB,),
        minimum="spec.minAvailable",
        queue="spec.queue",
        labels=(
            ("volcano.sh/job-name", "{name}"),
            ("volcano.sh/job-namespace", "{namespace}"),
            ("volcano.sh/task-spec", "{role}"),
            ("volcano.sh/partition-id", "{partition}"),
        ),
        notes=(
            ("scheduling.k8s.io/group-name", "{name}-{uid}"),
            ("volcano.sh/task-spec", "{role}"),
            ("volcano.sh/task-index", "{index}"),
            ("volcano.sh/job-name", "{name}"),
        ),
    ),
    Kind("batch.volcano.sh", "CronJob", holds=("spec.jobTemplate",), held=("batch.volcano.sh/v1alpha1", "Job")),
    Kind("flow.volcano.sh", "JobTemplate", specs=("spec",), held=("batch.volcano.sh/v1alpha1", "Job")),
    Kind(
        "sparkoperator.k8s.io",
        "SparkApplication",
        # its operator writes the templates, out of other fields; the driver makes the executors, as many as it gets
        (Role("spec.driver", "driver", "", ()), Role("spec.executor", "executor", "", ("instances",), least="=0")),
        queue="spec.batchSchedulerOptions.queue",
        labels=(("sparkoperator.k8s.io/app-name", "{name}"), ("spark-role", "{role}")),
        together=Together(
            "sparkapplications",
            ("v1beta2",),
            controllers=(("sparkoperator.k8s.io", "SparkApplication"), ("", "Pod")),
            named_by="sparkoperator.k8s.io/app-name",
        ),
    ),
    Kind(
        "sparkoperator.k8s.io",
        "ScheduledSparkApplication",
        specs=("spec.template",),
        held=("sparkoperator.k8s.io/v1beta2", "SparkApplication"),
    ),
    Kind(
        "argoproj.io",
        "Workflow",
        (Role("spec.templates[]", ".name", "", ()),),
        labels=(("workflows.argoproj.io/workflow", "{name}"),),
    ),
    Kind("argoproj.io", "WorkflowTemplate", specs=("spec",), held=("argoproj.io/v1alpha1", "Workflow")),
    Kind("argoproj.io", "CronWorkflow", specs=("spec.workflowSpec",), held=("argoproj.io/v1alpha1", "Workflow")),
    Kind("workload.codeflare.dev", "AppWrapper", holds=("spec.components[].template",)),
)
_BY_NAME = {(kind.group, kind.name): kind for kind in KINDS}
_NOTHING: Object = {}


@dataclass(frozen=True, slots=True)
class Part:
    """One role of an object: so many pods of a template."""

    role: TaskName
    number: int
    template: Object
    minimum: int | None = None
    #: so many of them are one of the objects that the last number counts in: a Job of a JobSet, hosts of a Ray worker
    inner: int = 1
    #: size of the partitions, 0 where it is not cut
    partition: int = 0


def kind_of(obj: Object, added: Iterable[Kind] = ()) -> Kind | None:
    """The row of an object's kind, whatever the version; None for a kind that makes no pods, or that is not known.
    Those that are added come before those of the table."""
    version, name = obj.get("apiVersion"), obj.get("kind")
    if not isinstance(version, str) or not isinstance(name, str):
        return None
    key = (api_group(version), name)
    return next((kind for kind in added if (kind.group, kind.name) == key), None) or _BY_NAME.get(key)


def parts_of(reader: Reader, obj: Object, kind: Kind) -> tuple[Part, ...]:
    """The roles of pods that the object names, in their order; what is wrong with one is noted, and it has no pods."""
    return tuple(part for role in kind.roles for part in _parts(reader, obj, role))


def whole_number(reader: Reader, obj: Object, path: str, absent: int | None = 1, at: str = "") -> int | None:
    """The number in a field of what stands `at` a place; `absent` where it is not there."""
    where, value = _find(obj, path)
    if value is None:
        return absent
    if value.__class__ is int and 0 <= value <= MAX_MEMBERS:
        return value
    reader.note(f"{at}.{where}".lstrip("."), value, f"a number of pods from 0 to {MAX_MEMBERS}")
    return 0 if absent is not None else None


def held_objects(reader: Reader, obj: Object, kind: Kind) -> Iterator[Object]:
    """The objects that are made of this one, with their API version and kind, and a name where they have none."""
    for path in kind.holds:
        for _, found in _each(reader, obj, path):
            yield _named(reader, obj, kind, found)
    for path in kind.specs:
        for _, found in _each(reader, obj, path):
            yield _named(reader, obj, kind, {"spec": found})


def holds(obj: Object, test: str) -> bool:
    """Whether a test of a `Together` holds."""
    body = test.removeprefix("!")
    if "==" in body:
        left, _, right = body.partition("==")
        found = find(obj, left) is not None and find(obj, left) == find(obj, right)
    else:
        path, asked, want = body.partition("=")
        values = list(_values(obj, path))
        found = any(_said(value) == want for value in values) if asked else any(values)
    return found is not test.startswith("!")


def _said(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _values(found: object, path: str) -> Iterator[object]:
    """What stands at a path, of each in a list on its way that is marked with `[]`."""
    at, listed, rest = path.partition("[]")
    value = find(found, at) if isinstance(found, dict) else None
    if not listed:
        yield value
    for one in value if listed and isinstance(value, list) else ():
        yield from _values(one, rest.lstrip("."))


def find(obj: Object, path: str) -> object:
    """What stands at a path; None where nothing does."""
    return _find(obj, path)[1]


def _named(reader: Reader, obj: Object, kind: Kind, found: Object) -> Object:
    meta = reader.mapping(obj, "metadata", "metadata")
    own = reader.mapping(found, "metadata", "metadata")
    if kind.specs:  # what is written on the outer one is written on the inner one too
        own = {key: meta[key] for key in ("labels", "annotations") if key in meta} | dict(own)
    names = {key: value for key, value in meta.items() if key in ("name", "generateName", "namespace")}
    version, name = kind.held
    return {"apiVersion": version, "kind": name} | dict(found) | {"metadata": names | dict(own)}


def _parts(reader: Reader, obj: Object, role: Role) -> Iterator[Part]:
    for key, found in _each(reader, obj, role.at):
        where = f"{role.at}[{key}]" if key else role.at
        name = role.name
        if name.startswith("."):
            name = reader.text(found, name[1:], f"{where}{name}")
        template = _find(found, role.template)[1] if role.template else found
        if template is None and role.optional:
            continue
        if not isinstance(template, dict):
            reader.note(f"{where}.{role.template}", template, "a pod template")
            template = _NOTHING
        number, inner = _number(reader, found, role)
        number = max(0, number - role.less) if template else 0
        least = _least(reader, found, role, where)
        partition = (whole_number(reader, found, role.partition, 0, where) or 0) if role.partition else 0
        yield Part(TaskName(name or key.lower()), number, template, least, max(1, inner), partition)


def _least(reader: Reader, found: Object, role: Role, where: str) -> int | None:
    if role.least.startswith("="):
        return int(role.least[1:])
    return whole_number(reader, found, role.least, None, where) if role.least else None


def _number(reader: Reader, found: Object, role: Role) -> tuple[int, int]:
    """The number of pods, and how many of them are one of what a minimum counts: the last factor, if there are more."""
    number, factor = 1, 1
    for path in role.number:
        field, _, absent = path.partition("=")
        factor = whole_number(reader, found, field, int(absent or 1), role.at) or 0
        if path == role.number[-1] and role.most:
            factor = min(factor, whole_number(reader, found, role.most, factor, role.at) or 0)
        number *= factor
    if number > MAX_MEMBERS:
        reader.note(role.at, number, f"a number of pods from 0 to {MAX_MEMBERS}")
        return 0, 1
    return number, factor if len(role.number) > 1 else 1


def _each(reader: Reader, obj: Object, path: str) -> Iterator[tuple[str, Object]]:
    """What stands at a path of a role, with its key in a mapping."""
    at, listed, rest = path.partition("[]")
    if listed:
        parent, _, key = at.rpartition(".")
        for one in reader.objects(_mapping(reader, obj, parent), key, at):
            yield from _each(reader, one, rest.lstrip("."))
    elif path.endswith("{}"):
        for key in (found := _mapping(reader, obj, path[:-2])):
            if one := reader.mapping(found, key, f"{path[:-2]}.{key}"):
                yield key, one
    elif found := _mapping(reader, obj, path):
        yield "", found


def _mapping(reader: Reader, obj: Object, path: str) -> Object:
    return reader.mapping({"": _find(obj, path)[1]}, "", path) if path else obj


def _find(obj: Object, path: str) -> tuple[str, object]:
    """The first of the paths at which something stands, and what; None at the last where nothing does."""
    for where in path.split("|"):
        found: object = obj
        for key in where.split(".") if where else ():
            found = found.get(key) if isinstance(found, dict) else None
        if found is not None:
            return where, found
    return path, None
