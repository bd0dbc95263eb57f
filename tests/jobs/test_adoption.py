"""Jobs whose pods Volcano made stay in Volcano's group; all others get ours."""

from __future__ import annotations

from extender.jobs import store
from extender.jobs.rules.adoption import keep_group
from extender.jobs.rules.model import PodOrder, PodPhase, PodState, Removal, Step, Wanted

OURS = {"muster.dev/pod-group": "train-1", "muster.dev/task": "worker", "volcano.sh/job-name": "train"}
BODY = {"metadata": {"name": "train-worker-0", "labels": OURS, "annotations": {"a": "b"}}, "spec": {"x": 1}}
GROUP = Wanted("muster.dev/v1alpha1", "PodGroup", "train-1", {})
SERVICE = Wanted("v1", "Service", "train", {})
KEYS = Wanted("v1", "Secret", "train-ssh-1", {}, key_pair=True)
STEP = Step(
    objects=(GROUP, SERVICE),
    removals=(Removal("v1", "Service", "old"),),
    creates=(PodOrder("train-worker-0", ("worker", 0), BODY),),
)


def pod(group: str, owner: str = "job", *, deleting: bool = False, uid: str = "u") -> store.Pod:
    state = PodState(f"p-{uid}", uid, owner, "worker", 0, 0, PodPhase.RUNNING, deleting=deleting)
    return store.Pod(state, 1, group, told=True)


def test_new_pods_bear_the_mark_of_volcanos_group_and_there_is_none_of_ours():
    step = keep_group(STEP, "train-volcano")
    assert step.objects == (SERVICE,)
    assert step.removals == STEP.removals
    metadata = step.creates[0].body["metadata"]
    assert metadata["annotations"] == {"a": "b", "scheduling.k8s.io/group-name": "train-volcano"}
    assert metadata["labels"] == {"muster.dev/task": "worker", "volcano.sh/job-name": "train"}
    assert step.creates[0].body["spec"] == {"x": 1}
    assert BODY["metadata"]["labels"] == OURS


def test_new_pods_log_in_by_volcanos_key_pair():
    volumes = [{"name": "train-ssh", "secret": {"secretName": "train-ssh-1", "defaultMode": 384}}, {"name": "data"}]
    order = PodOrder("train-worker-0", ("worker", 0), BODY | {"spec": {"volumes": volumes}})
    step = keep_group(Step(objects=(GROUP, SERVICE, KEYS), creates=(order,)), "train-volcano")
    assert step.objects == (SERVICE,)
    secret = {"secretName": "train-ssh", "defaultMode": 384}
    assert step.creates[0].body["spec"]["volumes"] == [{"name": "train-ssh", "secret": secret}, {"name": "data"}]
    assert volumes[0]["secret"]["secretName"] == "train-ssh-1"


def test_without_a_group_of_volcanos_nothing_changes():
    assert keep_group(STEP, "") is STEP


def test_the_group_is_that_of_the_jobs_own_living_pods():
    assert store.adopted_group([], "job") == ""
    assert store.adopted_group([pod("")], "job") == ""
    assert store.adopted_group([pod(""), pod("g", uid="v")], "job") == "g"
    assert store.adopted_group([pod("g", "an older job")], "job") == ""
    assert store.adopted_group([pod("g", deleting=True)], "job") == ""
