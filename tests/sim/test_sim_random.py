"""Random scenarios with faults: no run breaks or goes on for ever, no gang starts in part, no node is overfilled."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.sim import admission, reading, sidecar
from extender.sim.runner import Run

NODES = ("n1", "n2", "n3")
GROUPS = ("a", "b", "c")
#: events are over by then, and everything must have come to rest some time later
QUIET, END = 60, 200
AT = st.integers(0, QUIET)


@st.composite
def groups(draw: st.DrawFn, name: str) -> dict[str, Any]:
    replicas = draw(st.integers(1, 4))
    return {
        "name": name,
        "minMember": draw(st.integers(1, replicas)),
        "priority": draw(st.integers(0, 1)),
        "at": draw(st.integers(0, 20)),
        "recreate": draw(st.booleans()),
        "grace": draw(st.sampled_from((0, 3))),
        "tasks": [{"name": "w", "replicas": replicas, "requests": {"cpu": draw(st.integers(1, 2))}}],
    }


def pods_of(told: list[dict[str, Any]]) -> list[str]:
    return [f"{group['name']}-w-{n}" for group in told for n in range(group["tasks"][0]["replicas"])]


def event(told: list[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    node, group, pod = st.sampled_from(NODES), st.sampled_from(GROUPS), st.sampled_from(pods_of(told))
    some = st.lists(pod, min_size=1, max_size=2, unique=True)
    thing = st.one_of(pod.map("pod/{}".format), node.map("node/{}".format), group.map("podgroup/{}".format))

    def kind(name: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
        return st.fixed_dictionaries({"kind": st.just(name), "at": AT, **fields})

    return st.one_of(
        kind("cordon", node=node),
        kind("uncordon", node=node),
        kind("drain", node=node),
        kind("fail_node", node=node),
        kind("recover_node", node=node),
        kind("delete_pod", pods=some),
        kind("recreate_pod", pod=pod, deliver=st.sampled_from(("add_before_delete", "delete_before_add"))),
        kind("finish_pods", pods=some, phase=st.sampled_from(("Succeeded", "Failed")), keep_object=st.booleans()),
        kind("set_min_member", group=group, minMember=st.integers(1, 4)),
        kind("delete_group", group=group),
        kind("delay_watch", object=thing, seconds=st.integers(1, 9)),
        kind("api_conflict", object=group.map("podgroup/{} status".format), times=st.integers(1, 9)),
        kind("api_conflict", object=pod.map("pod/{}".format), times=st.integers(1, 4)),
        kind("delay_bind_reply", pod=pod, seconds=st.integers(1, 30)),
        kind("repeat_bind", pod=pod, node=st.sampled_from(("same", "other"))),
        kind("kubelet_reject", node=node, until=st.just(QUIET)),
        kind("crash_during_bind", group=group, posted=st.integers(1, 3)),
        kind("start_sidecar"),
    )


@st.composite
def scenarios(draw: st.DrawFn) -> dict[str, Any]:
    told = [draw(groups(name)) for name in GROUPS]
    events = draw(st.lists(event(told), max_size=8))
    return {
        "settings": {"end": END, "http_timeout": 20},
        "nodes": [{"name": name, "allocatable": {"cpu": draw(st.integers(1, 4))}} for name in NODES],
        "groups": told,
        "pods": [{"name": "other", "at": draw(AT), "requests": {"cpu": 1}}] if draw(st.booleans()) else [],
        # whatever happened, the sidecar is there in the end
        "events": [*events, {"kind": "start_sidecar", "at": QUIET}],
    }


class Observed(Run):
    """A run that looks at the invariants after each instant."""

    def _instant(self, moment: float) -> None:
        before = {name: self._counts(name) for name in GROUPS}
        bindings = self.cluster.lives.bindings
        super()._instant(moment)
        assert self._loops_at is None, f"no rest at {moment}"
        overfull = [life for life in self.cluster.lives.by_uid.values() if self._out_of_room(life.uid)]
        assert overfull == [], "a kubelet refused what was bound to it for lack of room"
        ours = self.scheduler.sidecar
        if ours.up and not ours.gate.binding and self.cluster.lives.bindings > bindings:
            for name, count in before.items():
                self._started_whole(name, count)

    def _counts(self, name: str) -> int:
        return sum(life.takes or life.phase == "Succeeded" for life in self.sight.group(name))

    def _started_whole(self, name: str, before: int) -> None:
        """A group that had nothing has its minimum now, if it has anything and nothing of it was taken meanwhile."""
        thing = self.cluster.api.get("PodGroup", name)
        lives = self.sight.group(name)
        if before or thing is None or any(life.leaving or life.phase for life in lives):
            return
        assert self._counts(name) in (0, *range(thing["spec"]["minMember"], 9)), f"{name} started in part"

    def _out_of_room(self, uid: str) -> bool:
        life = self.cluster.lives.by_uid[uid]
        pod = self.cluster.object_of(life)
        return pod is not None and str(pod["status"].get("reason", "")).startswith("OutOf")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("way", ["pods are gated", "the policy is not served", "nodes are nominated"])
@settings(max_examples=30)
@given(scenario=scenarios())
def test_random_scenarios(way: str, scenario: dict[str, Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if way == "the policy is not served":
            patch.setattr(admission, "gate", lambda pod, open_queues: pod)
        if way == "nodes are nominated":
            patch.setattr(sidecar, "NOMINATE_ABOVE", 0)
        play(scenario)


def play(scenario: dict[str, Any]) -> None:
    """Run a scenario; nothing is on its way when it is over."""
    told = {"id": "R", "area": "random", "scenario": scenario, "want": [{"check": "evicted_total", "min": 0}]}
    run = Observed(reading.read_report(told))
    run.results()
    assert run.scheduler.sidecar.engine.self_check() == 0
    planned = [life.making.name for name in GROUPS for life in run.sight.held(name)]
    assert planned == [], "held at rest"
