"""Every event of a Job's policies with every action, on the real control plane: all at once, each on a Job of its own.

A Job has one `ps` and two workers, of which the second is struck; its workers have the policy. What nobody strikes
must be as it was: pods by their uids, phase, numbers and retries are compared with a table made of two small ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from e2e import history, waiting
from e2e import kube as kube_module
from e2e.volcano_jobs import JOBS, NAME_LABEL, Object, Stage, task

PS, STEADY, STRUCK = "ps-0", "worker-0", "worker-1"
WORKERS = frozenset({STEADY, STRUCK})
EVERYBODY = WORKERS | {PS}
ISLAND = {"e2e/island": "yes"}
TIMEOUT = "2s"
DEADLINE = 90.0


@dataclasses.dataclass(frozen=True)
class Event:
    """Something that a policy answers: how it comes about, and what is seen of it when nobody acts."""

    policy: Object
    #: members that an action about pods makes anew
    about: frozenset[str]
    #: members that have ended for good when nobody makes them anew, by the name of their number in the status
    ended: dict[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    #: members that are replaced whatever the policy says
    lost: frozenset[str] = frozenset()
    #: it is about the job, not about a task or pod
    whole: bool = False
    #: it comes about again and again until the island is open
    repeats: bool = False


ONE = frozenset({STRUCK})
EVENTS = {
    "PodFailed": Event({"event": "PodFailed"}, ONE, {"failed": ONE}),
    "*": Event({"event": "*"}, ONE, {"failed": ONE}),
    "exit code": Event({"exitCode": 3}, ONE, {"failed": ONE}),
    "PodEvicted": Event({"event": "PodEvicted"}, ONE, lost=ONE),
    "PodPending": Event({"event": "PodPending", "timeout": TIMEOUT}, WORKERS, repeats=True),
    "TaskCompleted": Event({"event": "TaskCompleted"}, WORKERS, {"succeeded": WORKERS}),
    "TaskFailed": Event({"event": "TaskFailed"}, ONE),
    "Unknown": Event({"event": "Unknown"}, EVERYBODY, lost=ONE, whole=True),
}
ENDS = {"AbortJob": "Aborted", "TerminateJob": "Terminated", "CompleteJob": "Completed"}
RESTARTS = ("RestartJob", "RestartTask", "RestartPod")
ACTIONS = (*ENDS, *RESTARTS, "ResumeJob")
#: what only a controller can notice: no policy may wait for it
REFUSED = ("OutOfSync", "CommandIssued")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a Job has come to."""

    phase: str
    #: numbers of the status that are not zero
    counts: dict[str, int]
    retried: bool
    #: members whose pod is another one now, and those that have none
    anew: frozenset[str]
    gone: frozenset[str]


def name_of(event: str, action: str) -> str:
    """The Job of a pair."""
    return f"{event}-{action}".lower().replace(" ", "-").replace("*", "any")


def wanted(event: Event, action: str) -> Outcome:
    """What must become of the pair's Job."""
    if action in ENDS:
        # only who had ended is still there
        counts = {number: len(members) for number, members in event.ended.items()}
        left = frozenset().union(*event.ended.values())
        return Outcome(ENDS[action], counts, False, frozenset(), EVERYBODY - left)
    if action == "ResumeJob":  # nothing was stopped
        counts = {number: len(members) for number, members in event.ended.items()}
        counts["running"] = len(EVERYBODY) - sum(counts.values())
        return Outcome("Running", counts, False, event.lost, frozenset())
    anew = {"RestartJob": EVERYBODY, "RestartTask": WORKERS, "RestartPod": event.about}[action]
    return Outcome("Running", {"running": 3}, True, EVERYBODY if event.whole else anew, frozenset())


class Table:
    """The Jobs of all pairs."""

    def __init__(self, stage: Stage, seen: history.History) -> None:
        self._stage = stage
        self._seen = seen
        self.pairs = {name_of(word, action): (EVENTS[word], action) for word in EVENTS for action in ACTIONS}

    def of(self, *words: str) -> list[str]:
        """The names of the Jobs of these events."""
        return [name_of(word, action) for word in words for action in ACTIONS]

    def create(self, names: list[str]) -> None:
        """Create these; workers of those that are to be hindered go to the island."""
        for name in names:
            event, action = self.pairs[name]
            line = [event.policy | {"action": action}]
            worker = task("worker", 2, gpus=0, **({} if event.whole else {"policies": line}))
            if event.whole or event.repeats:
                worker["template"]["spec"]["nodeSelector"] = ISLAND
            least = 3 if event.whole else 1
            more: dict[str, Any] = {"policies": line} if event.whole else {}
            self._stage.create(name, task("ps", 1, gpus=0), worker, minAvailable=least, maxRetry=20, **more)

    def wait_running(self, names: list[str]) -> None:
        """Wait until all three pods of each of these run, and their status says so."""

        def idle() -> dict[str, Any]:
            jobs = {job["metadata"]["name"]: job["status"] for job in self._jobs()}
            found = {name: jobs.get(name, {}) for name in names}
            return {name: status for name, status in found.items() if status.get("running") != len(EVERYBODY)}

        waiting.wait_for(idle, DEADLINE, "the Jobs run", until=lambda left: not left)

    def wait_answered(self) -> None:
        """Wait until each policy has acted: what is hindered stays so until then."""

        def silent() -> list[str]:
            found = self._outcomes()
            return [
                name
                for name, (_, action) in self.pairs.items()
                if (action in ENDS and found[name].phase != ENDS[action])
                or (action in RESTARTS and not found[name].retried)
            ]

        waiting.wait_for(silent, DEADLINE, "every policy has acted", until=lambda left: not left)

    def differing(self) -> dict[str, Any]:
        """The Jobs that are not as they must be: what they must be, and what they are."""
        found = self._outcomes()
        must = {name: wanted(*pair) for name, pair in self.pairs.items()}
        return {name: {"must": must[name], "is": found[name]} for name in must if found[name] != must[name]}

    def _jobs(self) -> list[Object]:
        return [job for job in self._stage.kube.list(JOBS, self._stage.namespace) if "status" in job]

    def _pods(self) -> dict[str, dict[str, Object]]:
        """Members of each Job that have a pod."""
        found: dict[str, dict[str, Object]] = {}
        for pod in self._stage.kube.list("pods", self._stage.namespace):
            if "deletionTimestamp" not in pod["metadata"]:
                job = pod["metadata"]["labels"][NAME_LABEL]
                found.setdefault(job, {})[pod["metadata"]["name"].removeprefix(f"{job}-")] = pod
        return found

    def _first(self) -> dict[str, str]:
        """The uid of the first pod that ever had a name."""
        found: dict[str, str] = {}
        for entry in self._seen.nodes():
            pod, _, uid = entry.partition(" ")
            found.setdefault(pod, uid)
        return found

    def _outcomes(self) -> dict[str, Outcome]:
        pods, first, found = self._pods(), self._first(), {}
        numbers = ("pending", "running", "succeeded", "failed", "terminating", "unknown")
        for job in self._jobs():
            name, status = job["metadata"]["name"], job["status"]
            now = {member: one["metadata"]["uid"] for member, one in pods.get(name, {}).items()}
            before = {member: first[f"{name}-{member}"] for member in EVERYBODY if f"{name}-{member}" in first}
            counts = {number: status[number] for number in numbers if status.get(number)}
            anew = frozenset(member for member in now if now[member] != before.get(member))
            gone = frozenset(EVERYBODY - now.keys())
            found[name] = Outcome(status["state"]["phase"], counts, status.get("retryCount", 0) > 0, anew, gone)
        return found


def strike(stage: Stage, kube: kube_module.Kube, table: Table) -> None:
    """Let happen to the pods of each event what it is about."""
    deeds: dict[str, Callable[[str], Any]] = {
        "PodFailed": lambda name: stage.end(f"{name}-{STRUCK}", 3),
        "*": lambda name: stage.end(f"{name}-{STRUCK}", 3),
        "exit code": lambda name: stage.end(f"{name}-{STRUCK}", 3),
        "PodEvicted": lambda name: kube.evict(f"{name}-{STRUCK}", stage.namespace),
        "TaskCompleted": lambda name: [stage.end(f"{name}-{worker}") for worker in sorted(WORKERS)],
        "TaskFailed": lambda name: stage.restart_containers(f"{name}-{STRUCK}", 4),
        "Unknown": lambda name: kube.delete("pods", f"{name}-{STRUCK}", stage.namespace, grace=0),
    }
    for word, deed in deeds.items():
        for name in table.of(word):
            deed(name)


def test_each_event_does_to_the_job_what_the_action_of_its_policy_says(
    stage: Stage, kube: kube_module.Kube, make_nodes: Callable[..., list[str]], seen: history.History
) -> None:
    (island,) = make_nodes(1, gpus=0, labels=ISLAND, pods=500)
    table = Table(stage, seen)
    hindered = table.of("PodPending")
    others = [name for name in table.pairs if name not in hindered]
    table.create(others)
    table.wait_running(others)
    kube.patch("nodes", island, {"spec": {"unschedulable": True}})
    table.create(hindered)
    strike(stage, kube, table)
    table.wait_answered()
    kube.patch("nodes", island, {"spec": {"unschedulable": None}})
    waiting.wait_for(table.differing, DEADLINE, "all Jobs are as they must be", until=lambda left: not left)
    # what nothing befell had time to change while the others did
    seen.settle(kube)
    assert table.differing() == {}


def test_what_no_policy_can_wait_for_is_refused_with_every_action(stage: Stage) -> None:
    for word in REFUSED:
        for action in ACTIONS:
            policies = [{"event": word, "action": action}]
            stage.create(name_of(word, action), task("worker", 1, gpus=0), policies=policies)

    def states() -> dict[str, tuple[str, str]]:
        found = {}
        for job in stage.kube.list(JOBS, stage.namespace):
            state = job.get("status", {}).get("state", {})
            found[job["metadata"]["name"]] = (state.get("phase", ""), state.get("reason", ""))
        return found

    must = {name_of(word, action): ("Failed", "InvalidPolicy") for word in REFUSED for action in ACTIONS}
    waiting.wait_for(states, DEADLINE, "all are refused", until=lambda found: found == must)
    assert stage.kube.list("pods", stage.namespace) == []


def test_a_pod_that_runs_is_answered_too_and_retries_end(stage: Stage) -> None:
    """A policy that restarts what has just begun to run would do so for ever, were there no `maxRetry`."""
    for action in ACTIONS:
        policies = [{"event": "PodRunning", "action": action}]
        worker = task("worker", 2, gpus=0, policies=policies)
        stage.create(name_of("PodRunning", action), worker, minAvailable=1, maxRetry=1)
    must = {**ENDS, **dict.fromkeys(RESTARTS, "Failed"), "ResumeJob": "Running"}
    waiting.wait_for(
        lambda: {action: stage.phase(name_of("PodRunning", action)) for action in ACTIONS},
        DEADLINE,
        f"{must}",
        until=lambda found: found == must,
    )
    assert stage.status(name_of("PodRunning", "RestartJob"))["retryCount"] == 1
