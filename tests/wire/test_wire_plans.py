"""Questions "what if": what is supposed is read as it would be created, and what cannot be used is named."""

from __future__ import annotations

import pytest

from extender.core import answers as core
from extender.core.ids import GroupKey, NodeName, QueueName, Source
from extender.core.losses import Loss
from extender.core.mending import Mend
from extender.core.reasons import Ground, Reason, Refusal
from extender.core.whatif import Outlook
from extender.wire import plans
from extender.wire.fields import DecodeError
from tests import builders

NOW = 1_767_225_600.0
MARKS = {"labels": {"muster.dev/pod-group": "train"}}


def pod(**spec):
    container = {"name": "main", "resources": {"requests": {"nvidia.com/gpu": "2"}}}
    return {"metadata": {"name": "w", **MARKS}, "spec": {"schedulerName": "muster", "containers": [container], **spec}}


def question(*parts, group=None):
    return {"spec": {"pods": list(parts)} | ({"group": group} if group is not None else {})}


def group(version="muster.dev/v1alpha1", name="train", **spec):
    spec = spec or {"minMember": 2}
    return {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": name, "namespace": "evil"}, "spec": spec}


def test_pods_are_many_of_one_and_belong_to_the_namespace_that_is_asked_about():
    asked = question({"pod": pod(), "count": 2}, {"pod": pod(priority=5)}, group=group())
    found, pods = plans.decode_plan(asked, "team", NOW)
    assert [(one.name, one.namespace, one.created) for one in pods] == [
        *(("w-0", "team", NOW), ("w-1", "team", NOW), ("w", "team", NOW)),
    ]
    assert len({one.uid for one in pods}) == 3
    assert {one.group for one in pods} == {GroupKey(Source.MUSTER, "team", "train")}
    assert [one.priority for one in pods] == [0, 0, 5]
    assert dict(pods[0].shape.request)["nvidia.com/gpu"] == 2
    assert found is not None
    assert (found.key.namespace, found.min_member) == ("team", 2)


def test_a_pod_alone_is_a_group_of_its_own():
    alone = {**pod(), "metadata": {"name": "web"}}
    found, (one,) = plans.decode_plan(question({"pod": alone}), "team", NOW)
    assert (found, one.group.lone, one.name) == (None, True, "web")


@pytest.mark.parametrize(
    ("asked", "want"),
    [
        (None, "spec.pods: not pods of one group"),
        ({"spec": []}, "spec: "),
        (question(), "spec.pods: not pods of one group"),
        (question({"pod": pod(), "count": 0}), "spec.pods[0].count: 0 is not an integer from 1 to 5000"),
        (question({"pod": pod(), "count": 10**9}), "spec.pods[0].count: 1000000000 is not"),
        (question({"pod": pod(), "count": 3000}, {"pod": pod(), "count": 3000}), "spec.pods: more than 5000 pods"),
        (question({"pod": 7}), "spec.pods[0].pod: 7 is not an object"),
        (question({"pod": pod(schedulerName="x")}), "spec.schedulerName: x schedules it"),
        (question({"pod": pod(nodeName="n")}), "spec.nodeName: names a node"),
        (question({"pod": {**pod(), "metadata": {"name": "a"}}, "count": 2}), "spec.pods: not pods of one group"),
        (question({"pod": pod()}, group={"kind": "Other"}), "spec.group: no PodGroup"),
        (question({"pod": pod()}, group=group(name="x")), "spec.group: it is muster/team/x, and the pods"),
        (question({"pod": pod()}, group=group("scheduling.x-k8s.io/v1alpha1")), "spec.group: it is scheduler-plugins/"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named(asked, want):
    with pytest.raises(DecodeError) as refused:
        plans.decode_plan(asked, "team", NOW)
    assert str(refused.value).startswith(want)


def test_an_outlook_has_places_or_a_reason_with_what_would_end_it_and_who_would_go():
    key = GroupKey(Source.MUSTER, "team", "train")
    nodes = (core.Places(NodeName("n"), 2, (("cpu", 1500),)),)
    assert plans.encode_outlook(Outlook(key, QueueName("q"), True, nodes), "train")["status"] == {
        "name": "muster:train",
        "starts": True,
        "queue": "q",
        "startsWhen": [],
        "nodes": [{"name": "n", "members": 2, "requests": {"cpu": "1500m"}}],
    }
    victim = builders.make_pod("low", uid="u")
    loss = Loss(victim.group, Ground.PREEMPTED, (victim,), (("for", "train"),))
    refusal = Refusal(Reason.RESOURCES, (("asked", 4),))
    found = Outlook(key, QueueName("q"), False, (), refusal, (Mend(Reason.RESOURCES),), (loss,), 3)
    status = plans.encode_outlook(found, "train")["status"]
    assert (status["reason"], status["position"], len(status["startsWhen"])) == ("InsufficientResources", 3, 1)
    (gone,) = status["evictions"]
    assert gone == {
        "name": "pod:low",
        "namespace": "team",
        "pods": ["low"],
        "rule": "Preempted",
        "message": "a group of higher priority in the same queue takes its room (for train)",
    }


def maker(kind="PyTorchJob", version="kubeflow.org/v1", **spec):
    roles = {"Master": {"template": {"spec": {}}}, "Worker": {"replicas": 3, "template": {"spec": {}}}}
    given = {"pytorchReplicaSpecs": roles} | spec
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "train", "namespace": "evil"}, "spec": given}


def of_role(role):
    return {**pod(), "metadata": {"name": "w", "labels": {"muster.dev/task": role}}}


def test_an_object_that_makes_pods_may_stand_in_the_place_of_their_group():
    asked = question({"pod": of_role("master")}, {"pod": of_role("worker"), "count": 3}, group=maker())
    found, pods = plans.decode_plan(asked, "team", NOW)
    assert {one.group for one in pods} == {GroupKey(Source.OWNER, "team", "pytorchjob:train")}
    assert found is not None
    assert (found.key, found.min_member) == (pods[0].group, 4)
    assert dict(found.tasks) == {"master": 1, "worker": 3}


def test_pods_with_a_mark_are_not_of_the_object_that_makes_them():
    found, (one,) = plans.decode_plan(question({"pod": pod()}, group=maker()), "team", NOW)
    assert (found, one.group) == (None, GroupKey(Source.MUSTER, "team", "train"))


def test_an_object_whose_pods_stand_alone_groups_none():
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": {}}}}
    found, (one,) = plans.decode_plan(question({"pod": of_role("")}, group=job), "team", NOW)
    assert (found, one.group.lone) == (None, True)
    for bad in ({"metadata": 7}, {"metadata": {"name": 7}}, {"spec": 7}):
        asked = question({"pod": of_role("")}, group=job | bad)
        if bad == {"metadata": {"name": 7}}:
            with pytest.raises(DecodeError):
                plans.decode_plan(asked, "team", NOW)
        else:
            assert plans.decode_plan(asked, "team", NOW)[1][0].group.lone
