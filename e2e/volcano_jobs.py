"""A test's Jobs of Volcano's kind: made, watched and played.

Takes API access and a namespace; gives what the tests of Jobs do and await. KWOK starts pods; how they end is played
here, as kubelets would tell it. Must not decide what is right: the tests judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from e2e import kube, objects, waiting

Object = dict[str, Any]
JOBS, CRON_JOBS, COMMANDS = "jobs.batch.volcano.sh", "cronjobs.batch.volcano.sh", "commands.bus.volcano.sh"
NAME_LABEL = "volcano.sh/job-name"
SOON = 30.0


def task(name: str, replicas: int, gpus: int = 1, **more: Any) -> Object:
    """A task whose pods ask for so many GPUs."""
    resources = {"limits": {objects.GPU: gpus}} if gpus else {}
    container = {"name": "main", "image": "none.invalid/none", "resources": resources}
    spec = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **more}


def policy(event: str, action: str) -> Object:
    """One line of `policies`."""
    return {"event": event, "action": action}


class Stage:
    """The Jobs of one namespace."""

    def __init__(self, api: kube.Kube, namespace: str) -> None:
        self.kube = api
        self.namespace = namespace

    def create(self, name: str, *tasks: Object, **spec: Any) -> Object:
        """Create a Job of ours."""
        given = {"schedulerName": "muster", "tasks": list(tasks)} | spec
        meta = {"name": name, "namespace": self.namespace}
        return self.kube.create(
            {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": given}
        )

    def command(self, job: str, action: str) -> None:
        """Tell a Job by a Command, as vcctl does."""
        uid = self.job(job)["metadata"]["uid"]
        owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": job, "uid": uid, "controller": True}
        meta = {"generateName": f"{job}-", "namespace": self.namespace, "ownerReferences": [owner]}
        body = {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": meta,
            "action": action,
            "target": owner,
        }
        self.kube.request("POST", f"/apis/bus.volcano.sh/v1alpha1/namespaces/{self.namespace}/commands", body)

    # -- asking

    def job(self, name: str) -> Object:
        """The Job as it is."""
        return self.kube.get(JOBS, name, self.namespace)

    def status(self, name: str) -> Object:
        """Its status."""
        return dict(self.job(name).get("status") or {})

    def phase(self, name: str) -> str:
        """The phase in its status."""
        return str((self.status(name).get("state") or {}).get("phase", ""))

    def pods(self, name: str) -> dict[str, Object]:
        """Its pods by name, those that are being deleted left out."""
        found = self.kube.list("pods", self.namespace, labels=f"{NAME_LABEL}={name}")
        return {one["metadata"]["name"]: one for one in found if "deletionTimestamp" not in one["metadata"]}

    def uids(self, name: str) -> dict[str, str]:
        """The uid of each of its pods, by name."""
        return {pod: found["metadata"]["uid"] for pod, found in self.pods(name).items()}

    def running(self, name: str) -> list[str]:
        """Names of its pods that run."""
        return sorted(pod for pod, found in self.pods(name).items() if found["status"].get("phase") == "Running")

    # -- awaiting

    def wait_phase(self, name: str, *phases: str, deadline: float = SOON) -> None:
        """Wait until the Job is in one of these phases."""
        said = f"the Job {name} is {' or '.join(phases)}"
        waiting.wait_for(lambda: self.status(name), deadline, said, until=lambda found: _phase(found) in phases)

    def wait_all(self, names: Iterable[str], phase: str, deadline: float = 2 * SOON, **numbers: int) -> None:
        """Wait until each of these Jobs is in this phase, and its status has these numbers.

        A deletion whose caller is killed may be cut off when it has marked the pod. Kubelets go on with those; KWOK's
        do not where there is no grace, so that is done here.
        """
        wanted = {"phase": phase, **numbers}

        def wrong() -> dict[str, Object]:
            for pod in self.kube.list("pods", self.namespace):
                if "deletionTimestamp" in pod["metadata"]:
                    # by its uid: its successor may have the name by now
                    path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}"
                    this = {"uid": pod["metadata"]["uid"]}
                    self.kube.request("DELETE", path, {"gracePeriodSeconds": 0, "preconditions": this})
            found = {one["metadata"]["name"]: one.get("status") or {} for one in self.kube.list(JOBS, self.namespace)}
            told = {name: {key: found[name].get(key, 0) for key in numbers} for name in names}
            told = {name: {"phase": _phase(found[name]), **said} for name, said in told.items()}
            return {name: said for name, said in told.items() if said != wanted}

        waiting.wait_for(wrong, deadline, f"all Jobs are {wanted}", until=lambda left: not left)

    def wait_running(self, name: str, number: int, deadline: float = SOON) -> dict[str, str]:
        """Wait until so many of its pods run, and no others are there; their uids by name."""
        said = f"{number} pods of {name} run"
        waiting.wait_for(lambda: self.running(name), deadline, said, until=lambda found: len(found) == number)
        return self.uids(name)

    def wait_replaced(self, name: str, before: Mapping[str, str], pods: Iterable[str], deadline: float = SOON) -> None:
        """Wait until exactly these pods run anew under their old names, and the others are as they were."""
        changed = set(pods)

        def anew() -> tuple[list[str], set[str]]:
            now = self.uids(name)
            return self.running(name), {pod for pod in before if now.get(pod) != before[pod]}

        waiting.wait_for(
            anew,
            deadline,
            f"{sorted(changed)} of {name} run anew, and no others",
            until=lambda found: found == (sorted(before), changed),
        )

    # -- playing

    def end(self, pod: str, code: int = 0) -> None:
        """Let the container of a pod end with this code."""
        ended = {"exitCode": code, "reason": "Error" if code else "Completed"}
        container = {"name": "main", "image": "x", "imageID": "x", "ready": False, "restartCount": 0}
        status = {
            "phase": "Failed" if code else "Succeeded",
            "containerStatuses": [container | {"state": {"terminated": ended}}],
        }
        self.kube.patch("pods", pod, {"status": status}, self.namespace, subresource="status")

    def restart_containers(self, pod: str, times: int) -> None:
        """Let the container of a pod that runs have been started anew so often."""
        container = {"name": "main", "image": "x", "imageID": "x", "ready": True, "restartCount": times}
        status = {"containerStatuses": [container | {"state": {"running": {}}}]}
        self.kube.patch("pods", pod, {"status": status}, self.namespace, subresource="status")


def _phase(status: Object) -> str:
    return str((status.get("state") or {}).get("phase", ""))
