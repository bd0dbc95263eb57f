"""Objects that make pods, and stand-ins for their controllers: what these create, with their labels and owners.

Takes API access and objects as people write them; creates them and their children. Job, StatefulSet, Deployment and
ReplicaSet have their real controllers, Jobs of Volcano's kind have ours. Pods ask for one piece of a resource of their
case alone, and for nothing else. Must not know what Muster makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from e2e import kube as kube_module
from e2e import objects, wrappers
from e2e.wrappers import Object

#: label of all pods of one case
CASE = "e2e-case"
#: a stand-in acts, and acts again after each yield when all pods of its case so far are bound
Going = Iterator[None]
_END = object()
#: where these classes are is another matter; Kueue lifts the suspension with which its users create theirs
_LEFT_OUT = ("priorityClassName", "suspend")


class Maker:
    """A case in a namespace: objects, and all that comes of them. `known` are other objects, which stand elsewhere."""

    def __init__(
        self, api: kube_module.Kube, namespace: str, name: str, given: Iterable[Object], known: Iterable[Object] = ()
    ) -> None:
        self.kube, self.namespace, self.name = api, namespace, name
        #: a resource that only its pods ask for
        self.resource = f"example.com/{name}"
        self._number = 0
        self._going: list[Going] = []
        for obj in wrappers.unwrapped(given, known):
            self._play(obj)

    def pods(self) -> list[Object]:
        """Its pods, after the stand-ins have done what they can."""
        found = self._found()
        if self._going and found and all(map(objects.is_bound, found)):
            self._going = [going for going in self._going if _acts_again(going)]
            found = self._found()
        return found

    def bound(self) -> int:
        """How many of them have nodes."""
        return sum(map(objects.is_bound, self.pods()))

    def pod(
        self, owner: Object, name: str, template: Object, labels: Mapping[str, str], notes: Mapping[str, str] = {}
    ) -> Object:
        """Create a pod of a template as its controller does."""
        made = with_marks(template, labels, notes)
        made["metadata"]["ownerReferences"] = [objects.reference(owner)]
        return self.create({"apiVersion": "v1", "kind": "Pod"} | made, f"{owner['metadata']['name']}-{name}")

    def create(self, obj: Object, name: str) -> Object:
        """Create an object under this name, fitted to the case."""
        meta = {
            key: obj["metadata"][key] for key in ("labels", "annotations", "ownerReferences") if key in obj["metadata"]
        }
        meta |= {"name": name, "namespace": self.namespace}
        return self.kube.create(self.fitted(obj | {"metadata": meta}))

    def child(self, owner: Object, kind: str, version: str, name: str, spec: Object) -> Object:
        """Create an object that another controls."""
        meta = {"ownerReferences": [objects.reference(owner)]}
        obj = {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}
        return self.create(obj, f"{owner['metadata']['name']}-{name}")

    def _found(self) -> list[Object]:
        return list(self.kube.list("pods", self.namespace, labels=f"{CASE}={self.name}"))

    def _play(self, obj: Object) -> None:
        """Create an object, and let its controller act. A pod group keeps its name: pods may tell it."""
        kind = wrappers.kind_of(obj)
        if kind[1] == "PodGroup":
            self.create(obj, obj["metadata"]["name"])
        elif kind in PODS_OF:
            name = f"{self.name}-{self._number}" if self._number else self.name
            self._number += 1
            if kind == VOLCANO_JOB:
                obj = obj | {"spec": obj["spec"] | {"schedulerName": "muster"}}
            created = self.create(obj, name)
            going = PODS_OF[kind](self, created)
            if _acts_again(going):
                self._going.append(going)

    def fitted(self, value: Any) -> Any:
        """The same with pods of our scheduler that ask for one piece of the case's resource."""
        if isinstance(value, list):
            return [self.fitted(one) for one in value]
        if not isinstance(value, dict):
            return value
        if isinstance(value.get("containers"), list):
            return _pod_spec(value, self.resource)
        made = {key: self.fitted(one) for key, one in value.items() if key not in _LEFT_OUT}
        if "matchLabels" in made:  # of two cases with the same labels each selects its own pods
            made["matchLabels"] = made["matchLabels"] | {CASE: self.name}
        if isinstance(made.get("spec"), dict) and "containers" in made["spec"]:
            return with_marks(made, {CASE: self.name})
        return made


def _acts_again(going: Going) -> bool:
    """Let a stand-in act; whether it has more to do."""
    return next(going, _END) is not _END


def _pod_spec(given: Object, resource: str) -> Object:
    """What of a pod says how it is started, but not where it may run."""
    first, *rest = given["containers"]
    image = {"image": "none.invalid/none"}
    asks = {"resources": {"requests": {resource: "1"}, "limits": {resource: "1"}}}
    containers = [{"name": first["name"]} | image | asks, *({"name": one["name"]} | image for one in rest)]
    kept = {"restartPolicy": given["restartPolicy"]} if "restartPolicy" in given else {}
    return kept | {"schedulerName": "muster", "terminationGracePeriodSeconds": 0, "containers": containers}


def with_marks(template: Object, labels: Mapping[str, str], notes: Mapping[str, str] = {}) -> Object:
    """A pod template, or a pod, with more labels and annotations."""
    meta = template.get("metadata") or {}
    more = {"labels": {**(meta.get("labels") or {}), **labels}}
    more["annotations"] = {**(meta.get("annotations") or {}), **notes}
    return {**template, "metadata": {**meta, **more}}


# --- stand-ins -------------------------------------------------------------------------------------


def real(maker: Maker, obj: Object) -> Going:
    """Somebody who is there creates the pods."""
    yield from ()


def kubeflow(maker: Maker, job: Object) -> Going:
    """The training operator's."""
    field = next(key for key in job["spec"] if key.endswith("ReplicaSpecs"))
    for role, spec in job["spec"][field].items():
        for index in range(spec.get("replicas", 1)):
            labels = {
                "training.kubeflow.org/operator-name": f"{job['kind'].lower()}-controller",
                "training.kubeflow.org/job-name": job["metadata"]["name"],
                "training.kubeflow.org/replica-type": role.lower(),
                "training.kubeflow.org/replica-index": str(index),
            }
            maker.pod(job, f"{role.lower()}-{index}", spec["template"], labels)
    yield from ()


def mpi(maker: Maker, job: Object) -> Going:
    """The MPI operator's: workers, and a Job for the launcher."""
    common = {
        "training.kubeflow.org/operator-name": "mpi-operator",
        "training.kubeflow.org/job-name": job["metadata"]["name"],
    }
    roles = job["spec"]["mpiReplicaSpecs"]
    for index in range(roles["Worker"].get("replicas", 1)):
        labels = {**common, "training.kubeflow.org/job-role": "worker"}
        maker.pod(job, f"worker-{index}", roles["Worker"]["template"], labels)
    launcher = with_marks(roles["Launcher"]["template"], {**common, "training.kubeflow.org/job-role": "launcher"})
    launcher["spec"] = launcher["spec"] | {"restartPolicy": "Never"}
    maker.child(job, "Job", "batch/v1", "launcher", {"template": launcher})
    yield from ()


def job_set(maker: Maker, obj: Object) -> Going:
    """JobSet's: a Job for each replica of each role, in order where the object says so."""
    spec = obj["spec"]
    in_order = (spec.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"
    for place, role in enumerate(spec["replicatedJobs"]):
        if place and (in_order or role.get("dependsOn")):
            yield
        for index in range(role.get("replicas", 1)):
            labels = {
                "jobset.sigs.k8s.io/jobset-name": obj["metadata"]["name"],
                "jobset.sigs.k8s.io/replicatedjob-name": role["name"],
                "jobset.sigs.k8s.io/job-index": str(index),
            }
            job = role["template"]["spec"]
            template = with_marks(job["template"], labels)
            template["spec"] = {"restartPolicy": "Never"} | template["spec"]
            made = (
                {"completionMode": "Indexed", "completions": job.get("parallelism", 1)} | job | {"template": template}
            )
            maker.child(obj, "Job", "batch/v1", f"{role['name']}-{index}", made)


def leader_worker_set(maker: Maker, obj: Object) -> Going:
    """LeaderWorkerSet's: a leader and its workers for each replica, by StatefulSets."""
    templates = obj["spec"]["leaderWorkerTemplate"]
    workers = templates["workerTemplate"]
    leader = templates.get("leaderTemplate") or workers
    for replica in range(obj["spec"].get("replicas", 1)):
        for name, template, number in (("l", leader, 1), ("w", workers, templates["size"] - 1)):
            labels = {
                "leaderworkerset.sigs.k8s.io/name": obj["metadata"]["name"],
                "leaderworkerset.sigs.k8s.io/group-index": str(replica),
                "leaderworkerset.sigs.k8s.io/worker-index": "0" if name == "l" else "1",
                "set": f"{name}{replica}",
            }
            made = with_marks(template, labels)
            made["spec"] = {key: one for key, one in made["spec"].items() if key != "restartPolicy"}
            spec = {
                "replicas": number,
                "podManagementPolicy": "Parallel",
                "serviceName": "none",
                "selector": {"matchLabels": {"set": f"{name}{replica}"}},
                "template": made,
            }
            maker.child(obj, "StatefulSet", "apps/v1", f"{name}{replica}", spec)
    yield from ()


def ray(maker: Maker, cluster: Object) -> Going:
    """KubeRay's, with the group that it makes when the cluster's labels ask for one."""
    name, spec = cluster["metadata"]["name"], cluster["spec"]
    groups = [("headgroup", 1, 1, spec["headGroupSpec"])]
    for group in spec.get("workerGroupSpecs") or []:
        least, hosts = group.get("minReplicas", 0), group.get("numOfHosts", 1)
        groups.append((group["groupName"], group.get("replicas", least) * hosts, least * hosts, group))
    scales = spec.get("enableInTreeAutoscaling")
    size = sum(least if scales else number for _, number, least, _ in groups)
    labels, notes = wrappers.ray_group(cluster, size, maker.create)
    common = {"ray.io/cluster": name, "ray.io/is-ray-node": "yes", **labels}
    for word, number, _, group in groups:
        tasks = {**notes, "volcano.sh/task-spec": word} if notes else {}
        for index in range(number):
            maker.pod(cluster, f"{word}-{index}", group["template"], {**common, "ray.io/group": word}, tasks)
    yield from ()


def spark(maker: Maker, app: Object) -> Going:
    """Spark's: the operator makes the driver, and Volcano's group if it is told to; the driver makes the rest."""
    name, spec, notes = app["metadata"]["name"], app["spec"], {}
    if spec.get("batchScheduler") == "volcano":
        wrappers.volcano_group(f"spark-{name}-pg", 1, maker.create)
        notes = {"scheduling.k8s.io/group-name": f"spark-{name}-pg"}
    common = {"sparkoperator.k8s.io/app-name": name}
    plain = {"spec": {"containers": [{"name": "spark"}], "restartPolicy": "Never"}}
    roles = {}
    for role in ("driver", "executor"):
        roles[role] = with_marks(
            plain, (spec[role].get("labels") or {}) | common | {"spark-role": role},
            (spec[role].get("annotations") or {}) | notes,
        )  # fmt: skip
    driver = maker.pod(app, "driver", roles["driver"], {})
    yield
    for index in range(spec["executor"].get("instances", 1)):
        maker.pod(driver, f"executor-{index}", roles["executor"], {})


def training(maker: Maker, obj: Object) -> Going:
    """Of a kind of the site's own: pods of a number of workers."""
    for index in range(obj["spec"]["workers"]["count"]):
        maker.pod(obj, f"worker-{index}", obj["spec"]["workers"]["template"], {})
    yield from ()


VOLCANO_JOB = ("batch.volcano.sh", "Job")
#: by API group and kind, who creates the pods of an object
PODS_OF: dict[tuple[str, str], Callable[[Maker, Object], Going]] = {
    ("", "Pod"): real,
    ("apps", "Deployment"): real,
    ("apps", "ReplicaSet"): real,
    ("apps", "StatefulSet"): real,
    ("batch", "Job"): real,
    VOLCANO_JOB: real,
    **{("kubeflow.org", f"{name}Job"): kubeflow for name in ("PyTorch", "TF", "XGBoost", "Paddle", "JAX", "MX")},
    ("kubeflow.org", "MPIJob"): mpi,
    ("jobset.x-k8s.io", "JobSet"): job_set,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): leader_worker_set,
    ("ray.io", "RayCluster"): ray,
    ("sparkoperator.k8s.io", "SparkApplication"): spark,
    ("example.com", "Training"): training,
}
