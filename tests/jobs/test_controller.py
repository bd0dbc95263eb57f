"""The controller with the real rules on a cluster in memory: killed at every step, refused, and told old news."""

from __future__ import annotations

import random
from collections.abc import Collection
from typing import Any

import pytest
from fake_cluster import Cluster, Crash, Object

from extender.jobs import carry, store, work
from extender.jobs.controller import JOB_PODS, WHY_ANNOTATION, Controller
from extender.kube import errors, resources
from extender.kube.identities import identity_of
from extender.telemetry.job_metrics import JobMetrics

KEY = ("ns", "train")
JOB = "/apis/batch.volcano.sh/v1alpha1/namespaces/ns/jobs/train"
PODS = "/api/v1/namespaces/ns/pods"
RESTART = {"event": "PodFailed", "action": "RestartJob"}
PARTS = {
    resources.VOLCANO_JOBS.label: "jobs",
    JOB_PODS.label: "pods",
    resources.VOLCANO_COMMANDS.label: "commands",
}


def job(*, policies: list[Object] | None = None, replicas: int = 3, **spec: Any) -> Object:
    template = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
    tasks = [{"name": "worker", "replicas": replicas, "template": template}]
    given = {"schedulerName": "muster", "tasks": tasks, "policies": policies or []} | spec
    meta = {"name": "train", "namespace": "ns"}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": given}


class Life:
    """One process after the other on the same cluster, with a clock of the test's."""

    def __init__(self, **options: Any) -> None:
        self.cluster = Cluster()
        self.now = 1_800_000_000.0
        self.crashes = 0
        self.cluster.put(JOB, job(**options))
        self.start()

    def start(self) -> None:
        """A new process, which has read all lists."""
        clocks = (lambda: self.now, lambda: self.now)
        self.controller = Controller(self.cluster, JobMetrics(), lambda: True, *clocks)  # type: ignore[arg-type]
        self.told: dict[str, Object] = {}
        self.hear()

    def hear(self, parts: Collection[str] = tuple(PARTS.values())) -> None:
        """Have the watches (of these parts) tell what is new."""
        for feed in self.controller.feeds():
            part = PARTS.get(feed.resource.label)
            if part not in parts:
                continue
            there = {one["metadata"]["uid"]: one for one in self.cluster.of(part).values()}
            for uid, one in list(self.told.items()):
                if one["kind_of_feed"] == part and uid not in there:
                    del self.told[uid]
                    feed.gone(identity_of(one))
            for uid, one in there.items():
                if self.told.get(uid, {"metadata": None})["metadata"] != one["metadata"]:
                    self.told[uid] = one | {"kind_of_feed": part}
                    feed.seen(one)

    async def look(self) -> bool:
        """One look; false when the process died of it."""
        try:
            await self.controller.look(KEY)
        except work.Again:
            pass
        except Crash:
            self.crashes += 1
            self.cluster.crash_after = None
            self.start()
            return False
        return True

    async def rest(self, *, kubelets: bool = True) -> None:
        """Look and hear until nothing is written any more, for ten minutes of waits."""
        quiet = 0
        for _ in range(200):
            before = len(self.cluster.writes)
            await self.look()
            if kubelets:
                self.cluster.kubelets()
            self.hear()
            self.now += 20.0
            quiet = quiet + 1 if len(self.cluster.writes) == before else 0
            if quiet > 30:
                return
        raise AssertionError("it never comes to rest")

    @property
    def status(self) -> Object:
        return dict(self.cluster.objects[JOB]["status"])

    @property
    def phase(self) -> str:
        return str(self.status["state"]["phase"])

    def pods(self) -> dict[str, Object]:
        return self.cluster.of("pods")

    def end(self, pod: str, code: int) -> None:
        """Let a pod end, and hear of it."""
        self.end_unheard(pod, code)
        self.hear()

    def end_unheard(self, pod: str, code: int) -> None:
        """Let a pod end."""
        state = {"terminated": {"exitCode": code}}
        phase = "Failed" if code else "Succeeded"
        self.cluster.set_status(f"{PODS}/{pod}", phase=phase, containerStatuses=[{"name": "main", "state": state}])


async def test_a_job_gets_its_group_and_its_pods_once():
    life = Life()
    await life.rest()
    assert sorted(life.pods()) == ["train-worker-0", "train-worker-1", "train-worker-2"]
    assert life.phase == "Running"
    (group,) = life.cluster.of("podgroups").values()
    assert group["spec"]["minMember"] == 3
    created = [path for method, path in life.cluster.writes if method == "POST" and path == PODS]
    assert len(created) == 3


async def _restarted(crash_after: int | None) -> Life:
    life = Life(policies=[RESTART])
    await life.rest()
    life.end("train-worker-1", 1)
    life.cluster.crash_after = crash_after
    await life.rest()
    return life


async def test_a_restart_is_the_same_wherever_the_process_is_killed():
    whole = await _restarted(None)
    assert whole.status["retryCount"] == 1
    writes = 0
    while True:
        life = await _restarted(writes)
        if not life.crashes:
            break
        assert (life.phase, life.status["retryCount"], life.status["version"]) == (
            "Running",
            1,
            whole.status["version"],
        ), f"killed after {writes} writes"
        assert sorted(life.pods()) == sorted(whole.pods())
        assert all(one["status"]["phase"] == "Running" for one in life.pods().values())
        writes += 1
    assert writes > 7


async def test_the_first_start_is_the_same_wherever_the_process_is_killed():
    writes = 0
    while True:
        life = Life()
        life.cluster.crash_after = writes
        await life.rest()
        assert life.phase == "Running"
        assert len(life.pods()) == 3
        assert len(life.cluster.of("podgroups")) == 1
        if not life.crashes:
            break
        writes += 1
    assert writes > 4


@pytest.mark.parametrize("seed", range(30))
async def test_histories_of_failures_and_crashes_end_running_or_ended_with_counts_that_add_up(seed):
    chance = random.Random(seed)
    life = Life(
        policies=[{"event": "*", "action": chance.choice(["RestartJob", "RestartPod", "RestartTask"])}], maxRetry=2
    )
    for _ in range(25):
        match chance.randrange(6):
            case 0:
                running = [name for name, one in life.pods().items() if one["status"]["phase"] == "Running"]
                if running:
                    life.end(chance.choice(sorted(running)), chance.randrange(2))
            case 1:
                life.cluster.crash_after = chance.randrange(4)
            case 2:
                life.cluster.kubelets()
            case 3:
                life.now += chance.random() * 100
            case _:
                pass
        await life.look()
        if chance.randrange(2):
            life.hear()
    life.cluster.crash_after = None
    await life.rest()
    phase, status = life.phase, life.status
    assert phase in ("Running", "Completed", "Failed", "Terminated"), phase
    counted = sum(
        status.get(word, 0) for word in ("pending", "running", "succeeded", "failed", "terminating", "unknown")
    )
    there = [one for one in life.pods().values() if one["metadata"].get("deletionTimestamp") is None]
    assert counted >= len(there)
    assert status.get("running", 0) == sum(one["status"]["phase"] == "Running" for one in there)


QUOTA = errors.Forbidden(403, "Forbidden", 'pods "train-worker-1" is forbidden: exceeded quota: few, limited: pods=1')
REFUSALS = {
    "a quota": (QUOTA, "exceeded quota: few, limited: pods=1"),
    "a pod that is not valid": (errors.Invalid(422, "Invalid", 'Pod "x" is invalid: spec.y: no'), "spec.y: no"),
    "a namespace that is ending": (
        errors.Forbidden(403, "Forbidden", 'pods "x" is forbidden: unable to create new content in namespace ns'),
        "unable to create new content in namespace ns",
    ),
}


@pytest.mark.parametrize(("error", "said"), REFUSALS.values(), ids=REFUSALS)
async def test_what_is_refused_is_said_in_constant_words_and_made_good(error, said):
    life = Life()

    def refuse(method: str, path: str, body: Any) -> None:
        if method == "POST" and path == PODS and body["metadata"]["name"] != "train-worker-0":
            raise error

    life.cluster.refuse = refuse
    await life.rest()
    assert life.status["state"]["message"] == said
    assert life.status["state"]["reason"] == carry.REFUSED
    assert sorted(life.pods()) == ["train-worker-0"]
    said_at = life.cluster.objects[JOB]["metadata"]["resourceVersion"]
    with pytest.raises(work.Again):
        await life.controller.look(KEY)
    assert life.cluster.objects[JOB]["metadata"]["resourceVersion"] == said_at
    life.cluster.refuse = lambda method, path, body: None
    await life.rest()
    assert life.phase == "Running"
    assert "message" not in life.status["state"] or said not in life.status["state"]["message"]


async def test_a_refusal_that_is_over_leaves_the_status_of_a_job_that_runs_without_it():
    life = Life(minAvailable=1)

    def refuse(method: str, path: str, body: Any) -> None:
        if method == "POST" and path == PODS and body["metadata"]["name"] != "train-worker-0":
            raise QUOTA

    life.cluster.refuse = refuse
    await life.rest()
    assert (life.phase, life.status["state"]["reason"]) == ("Running", carry.REFUSED)
    life.cluster.refuse = lambda method, path, body: None
    await life.rest()
    assert len(life.pods()) == 3
    assert life.status["state"].get("message", "") == ""
    assert life.status["state"].get("reason", "") == ""


async def test_a_job_that_was_changed_meanwhile_is_read_and_judged_anew():
    life = Life(policies=[RESTART])
    await life.rest()
    life.cluster.set_status(JOB, unknown=0)
    life.end_unheard("train-worker-1", 1)
    life.hear(("pods",))  # of the pod its watch tells, of the Job not
    with pytest.raises(work.Again, match="has changed"):
        await life.controller.look(KEY)
    await life.controller.look(KEY)
    assert life.status["retryCount"] == 1


@pytest.mark.parametrize(
    "error", [errors.ServerError(500, "x", "x"), errors.Unreachable("lost")], ids=["500", "no answer"]
)
async def test_what_may_have_happened_is_tried_again_and_does_no_harm(error):
    life, failing = Life(), [True]

    def refuse(method: str, path: str, body: Any) -> None:
        if method == "POST" and path == PODS and failing:
            failing.pop()
            life.cluster.put(f"{PODS}/{body['metadata']['name']}", body)  # it did happen
            raise error

    life.cluster.refuse = refuse
    await life.rest()
    assert (life.phase, len(life.pods())) == ("Running", 3)
    assert life.status["state"].get("reason", "") != carry.REFUSED


async def test_a_foreign_pod_of_the_same_name_is_left_alone_and_named():
    life = Life()
    foreign = {"kind": "Pod", "metadata": {"name": "train-worker-1", "namespace": "ns"}, "spec": {}}
    life.cluster.put(f"{PODS}/train-worker-1", foreign)
    await life.rest()
    assert "train-worker-1 that is not this Job's" in life.status["state"]["message"]
    assert len(life.pods()) == 3
    assert "ownerReferences" not in life.pods()["train-worker-1"]["metadata"]
    del life.cluster.objects[f"{PODS}/train-worker-1"]
    await life.rest()
    assert life.phase == "Running"


@pytest.mark.parametrize("owner", ["an earlier job", ""])
async def test_a_claim_that_goes_with_an_earlier_job_is_waited_for_and_one_of_nobody_is_used(owner):
    life = Life(volumes=[{"mountPath": "/data", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}])
    claim = "/api/v1/namespaces/ns/persistentvolumeclaims/train-pvc-0"
    owners = [{"kind": "Job", "name": "train", "uid": owner, "controller": True}] if owner else []
    life.cluster.put(claim, {"metadata": {"name": "train-pvc-0", "namespace": "ns", "ownerReferences": owners}})
    await life.rest()
    if owner:
        assert life.pods() == {}
        assert "train-pvc-0 that is not this Job's" in life.status["state"]["message"]
        del life.cluster.objects[claim]  # the garbage collector came by
        await life.rest()
    assert life.phase == "Running"
    assert len(life.pods()) == 3


async def test_a_job_that_cannot_be_run_is_failed_by_name_and_its_commands_go():
    life = Life(plugins={"mxnet": []})
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train"}
    target |= {"uid": life.cluster.objects[JOB]["metadata"]["uid"]}
    command = {"metadata": {"name": "c", "namespace": "ns"}, "action": "AbortJob", "target": target}
    life.cluster.put("/apis/bus.volcano.sh/v1alpha1/namespaces/ns/commands/c", command)
    life.hear()
    await life.rest()
    assert (life.phase, life.status["state"]["reason"]) == ("Failed", "InvalidPlugin")
    assert life.pods() == {}
    assert life.cluster.of("commands") == {}


async def test_a_job_of_another_scheduler_is_not_touched():
    life = Life(schedulerName="volcano")
    await life.rest()
    assert life.cluster.writes == []


async def test_an_old_state_of_a_pod_never_replaces_a_newer_one_and_a_gone_pod_stays_gone():
    life = Life()
    await life.rest()
    known = store.Store()
    pod = life.pods()["train-worker-0"]
    old = pod | {"metadata": pod["metadata"] | {"resourceVersion": "1"}, "status": {"phase": "Pending"}}
    assert known.pod_seen(pod, told=True) == KEY
    assert known.pod_seen(old, told=True) is None
    assert known.pods(KEY)[0].state.phase == "Running"
    assert known.pod_gone(pod["metadata"]["uid"]) == KEY
    assert known.pod_seen(pod, told=False) is None
    assert known.pods(KEY) == []


async def test_a_pod_that_vanished_unseen_is_asked_for_and_made_anew():
    """It was created by us while its watch was broken, and was gone before the watch came back."""
    life = Life(policies=[{"event": "PodEvicted", "action": "RestartPod"}])
    await life.look()
    await life.look()
    assert len(life.pods()) == 3
    del life.cluster.objects[f"{PODS}/train-worker-2"]
    life.cluster.kubelets()
    life.hear()
    life.now += 1000.0
    await life.rest()
    assert sorted(life.pods()) == ["train-worker-0", "train-worker-1", "train-worker-2"]


async def test_a_job_that_volcano_runs_says_so_and_is_left_alone():
    life = Life()
    (lease,) = [feed for feed in life.controller.feeds() if feed.resource.plural == "leases"]
    spec = {"holderIdentity": "volcano_1", "leaseDurationSeconds": 3600}
    meta = {"name": "vc-controller-manager", "namespace": "volcano-system"}
    lease.seen({"metadata": meta, "spec": spec})
    await life.rest()
    assert "volcano-system" in life.cluster.objects[JOB]["metadata"]["annotations"][WHY_ANNOTATION]
    assert [method for method, _ in life.cluster.writes] == ["PATCH"]
    lease.seen(
        {
            "metadata": {"name": "vc-controller-manager", "namespace": "volcano-system"},
            "spec": spec | {"holderIdentity": ""},
        }
    )
    await life.rest()
    assert life.phase == "Running"
    assert WHY_ANNOTATION not in life.cluster.objects[JOB]["metadata"]["annotations"]
