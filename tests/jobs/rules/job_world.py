"""A small API server with the pods of one job, a kubelet that does as it is told, and the controller's shell around
the rules: it can see late, be killed between any two writes, and start again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from extender.jobs.rules import reading
from extender.jobs.rules.lifecycle import reconcile
from extender.jobs.rules.model import Job, PodState, Step
from extender.jobs.rules.status import encode_status

START = 1_800_000_000.0


class Killed(Exception):
    """The controller was killed before a write."""


def a_template(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main", "image": "busybox"}], "restartPolicy": "Never", **fields}}


def a_task(name: str = "worker", replicas: int = 2, **fields: Any) -> dict[str, Any]:
    return {"name": name, "replicas": replicas, "template": a_template(), **fields}


def a_job(*tasks: dict[str, Any], name: str = "train", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": "0f1e2d3c-aaaa-bbbb-cccc-ddddeeeeffff",
            "creationTimestamp": "2027-01-15T08:00:00Z",
        },
        "spec": {"schedulerName": "muster", "tasks": list(tasks) or [a_task()], **spec},
    }


def read_job(obj: Mapping[str, Any]) -> Job:
    """The job; a refusal is a fault of the test."""
    job = reading.decode_job(obj)
    assert isinstance(job, Job), job
    return job


class JobWorld:
    """One Job, its pods and Commands as the API server has them, and the controller."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = copy.deepcopy(job)
        self.version = 0
        self.now = START
        #: name -> pod
        self.pods: dict[str, dict[str, Any]] = {}
        self.commands: list[dict[str, Any]] = []
        self.events: list[tuple[str, str]] = []
        self.made = 0
        self.deleted = False
        #: pods that the controller was shown last; None after a start
        self.shown: list[PodState] | None = None
        self.wake_at: float | None = None
        self.step = Step()
        #: asked before each write; true kills the controller there
        self.kill: Callable[[], bool] = lambda: False

    # what the controller sees and does

    def look(self) -> list[PodState]:
        """The controller is shown what is there now."""
        self.shown = [reading.decode_pod(pod) for _, pod in sorted(self.pods.items())]
        return self.shown

    def turn(self, late: bool = False, conflict: bool = False) -> Step:
        """Judge once and carry it out. `late`: on the pods shown last; `conflict`: somebody edits the Job meanwhile."""
        pods = self.shown if late and self.shown is not None else self.look()
        commands = [reading.decode_command(one)[1] for one in self.commands]
        job, seen = read_job(self.job), self.version
        self.step = step = reconcile(job, pods, commands, self.now)
        self.wake_at = step.wake_at
        if conflict:
            self.version += 1
        try:
            self.carry_out(step, seen)
        except Killed:
            self.shown = None
        return step

    def carry_out(self, step: Step, seen: int) -> None:
        if step.status is not None:
            self.write()
            if seen != self.version:
                return
            self.job["status"] = orjson.loads(orjson.dumps(encode_status(step.status)))
            self.version += 1
        for gone in step.deletes:
            self.write()
            pod = self.pods.get(gone.name)
            if pod is not None and pod["metadata"]["uid"] == gone.uid:
                self.mark_deleting(gone.name)
        for order in step.creates:
            self.write()
            if order.name not in self.pods:
                self.create(order.body)
        for name in step.done:
            self.write()
            self.commands = [one for one in self.commands if one["metadata"]["name"] != name]
        if step.delete_job:
            self.write()
            self.deleted = True
        self.events += [(one.reason, one.message) for one in step.events]

    def write(self) -> None:
        if self.kill():
            raise Killed

    def settle(self, turns: int = 30) -> None:
        """Turns until nothing changes and nobody is to be woken before time passes."""
        for _ in range(turns):
            before = (copy.deepcopy(self.pods), copy.deepcopy(self.job), list(self.commands))
            self.turn()
            if self.shown is not None and before == (self.pods, self.job, self.commands):  # else it was killed
                return
        raise AssertionError("the job does not come to rest")

    # what others do

    def create(self, body: Any) -> None:
        pod = orjson.loads(orjson.dumps(body))
        self.made += 1
        pod["metadata"] |= {"uid": f"pod-{self.made}", "creationTimestamp": stamp(self.now)}
        pod["status"] = {"phase": "Pending"}
        self.pods[pod["metadata"]["name"]] = pod

    def mark_deleting(self, name: str) -> None:
        self.pods[name]["metadata"].setdefault("deletionTimestamp", stamp(self.now))

    def vanish(self, *names: str) -> None:
        for name in names:
            self.pods.pop(name, None)

    def finish_deleting(self) -> None:
        self.vanish(*[name for name, pod in self.pods.items() if "deletionTimestamp" in pod["metadata"]])

    def run(self, *names: str, node: str = "node-a") -> None:
        for name in names or tuple(self.pods):
            pod = self.pods[name]
            if pod["status"]["phase"] == "Pending" and "deletionTimestamp" not in pod["metadata"]:
                pod["spec"].setdefault("nodeName", node)
                state = {"running": {"startedAt": stamp(self.now)}}
                pod["status"] = {"phase": "Running", "containerStatuses": [{"restartCount": 0, "state": state}]}

    def end(self, name: str, code: int = 0, reason: str = "") -> None:
        pod = self.pods[name]
        pod["spec"].setdefault("nodeName", "node-a")
        state = {"terminated": {"exitCode": code, "finishedAt": stamp(self.now)}}
        pod["status"] = {
            "phase": "Failed" if code else "Succeeded",
            "containerStatuses": [{"restartCount": 0, "state": state}],
            **({"reason": reason} if reason else {}),
        }

    def restart_containers(self, name: str, times: int) -> None:
        self.pods[name]["status"]["containerStatuses"][0]["restartCount"] = times

    def command(self, action: str, name: str = "") -> None:
        self.made += 1
        self.commands.append(
            {
                "metadata": {"name": name or f"command-{self.made}", "uid": f"command-{self.made}"},
                "action": action,
                "target": {"kind": "Job", "name": self.job["metadata"]["name"]},
            }
        )

    # what a user reads

    @property
    def status(self) -> dict[str, Any]:
        return self.job.get("status", {})

    @property
    def phase(self) -> str:
        return str(self.status.get("state", {}).get("phase", ""))

    @property
    def retries(self) -> int:
        return int(self.status.get("retryCount", 0))

    def names(self) -> list[str]:
        return sorted(self.pods)

    def uids(self) -> dict[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in self.pods.items()}


def running(job: dict[str, Any]) -> JobWorld:
    """A job all of whose members run, as far as they may."""
    world = JobWorld(job)
    for _ in range(10):
        world.settle()
        world.run()
    world.settle()
    return world


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
