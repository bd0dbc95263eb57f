"""The gate under random events, with an API server that is late, refuses and loses replies.

What must hold whatever happens: each call is answered once; a success is true; no binding is begun for a call
that is closed, without its group's minimum or without room; and when the noise ends the gate comes to rest,
with no call open and no group half bound by it.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from extender.core import gate_messages as gm
from extender.core import messages
from extender.core.gate_messages import CallId
from extender.core.ids import PodUid
from extender.core.membership import STARTED, Need, satisfied, standing
from extender.core.model import Group, Node, Owner, Pod
from tests.builders import GPU, gpu_node, make_group, make_pod, seen
from tests.core.gate_driver import START, Driver

NODES = ("n0", "n1", "n2")
TASKS = ("launcher", "worker")
JOB = Owner("Job", "job", "uid-job")
REQUEST = {GPU: 1, "cpu": 1000}


def make_driver(now: float) -> Driver:
    """A gate that knows nothing yet."""
    driver = Driver(acting=False, synced=False)
    driver.now = now
    return driver


class Cluster(RuleBasedStateMachine):
    """What is true (pods, nodes, groups), what the gate was not shown yet, and what it waits for."""

    def __init__(self) -> None:
        super().__init__()
        self.pods: dict[PodUid, Pod] = {}
        self.nodes: dict[str, Node] = {name: gpu_node(name, gpus=3) for name in NODES}
        self.groups: dict[str, Group] = {
            "a": make_group("a", min_member=3, tasks={"launcher": 1}),
            "b": make_group("b", min_member=2),
        }
        #: groups that were whole since they last had nothing bound: what hurts them is not the gate's doing
        self.whole: set[str] = set()
        self.unshown: deque[messages.WorldEvent] = deque()
        self.asked: list[gm.GateEffect] = []
        self.called: dict[CallId, tuple[PodUid, str]] = {}
        #: pods that were bound at some time
        self.ever_bound: set[PodUid] = set()
        self.made = 0
        self.acting = True
        self.driver = make_driver(START)
        for name in "ab":
            for task in ("launcher", "worker", "worker", "worker"):
                self.create(name, task, owned=True)
        self.unshown.clear()
        self.start_gate()

    # --- the gate -------------------------------------------------------------------------------

    def start_gate(self) -> None:
        """List everything, then act."""
        for thing in (*self.nodes.values(), *self.groups.values(), *self.pods.values()):
            self.send(seen(thing))
        self.send(gm.Synced())
        self.note_forgotten()
        self.send(messages.ActivityChanged(self.acting))

    def note_forgotten(self) -> None:
        """What was half bound a minute ago, when nobody acts, passes for a gang that was hurt."""
        for name in self.groups:
            times = [pod.bound_at or 0.0 for pod in self.of(name) if pod.node is not None]
            if times and self.driver.now - max(times) > 60:
                self.whole.add(name)

    def send(self, event: gm.GateEvent) -> None:
        """One event; its effects are checked and kept until the API server or the extender answers."""
        open_before = self.driver.unanswered
        known = {call: self.called[call] for call in open_before}
        effects = self.driver.send(event)
        bound = [effect for effect in effects if isinstance(effect, gm.Bind)]
        for effect in effects:
            if isinstance(effect, gm.Answer) and not effect.error:
                uid, node = self.called[effect.call]
                pod = self.pods.get(uid)
                assert pod is None or pod.node == node, "a success that is not true"
                assert uid in self.ever_bound, "a success that was never true"
            elif isinstance(effect, gm.Bind):
                assert (effect.uid, effect.node) in known.values(), "a binding for a call that nobody waits for"
        self.asked.extend(effect for effect in effects if not isinstance(effect, gm.Answer))
        self.note_seen_whole()
        if bound:
            self.check_minimum(bound)
            self.check_room(bound)

    def check_minimum(self, bound: list[gm.Bind]) -> None:
        """The slow count: shown as started, or a Binding on its way, less what is being evicted."""
        world = self.driver.world
        going = {effect.uid for effect in self.asked if isinstance(effect, gm.Bind)}
        leaving = {effect.uid for effect in self.asked if isinstance(effect, messages.Evict)}
        for key in {world.pods[effect.uid].group for effect in bound}:
            group = world.groups[key]
            members = world.members[key].values()
            have = [
                pod.task for pod in members if (standing(pod) in STARTED or pod.uid in going) and pod.uid not in leaving
            ]
            assert len(have) >= group.min_member, "a release below the minimum"
            assert all(Counter(have)[task] >= least for task, least in group.tasks), "a task's minimum"

    def check_room(self, bound: list[gm.Bind]) -> None:
        """What is shown on the node and what is on its way fit in."""
        world = self.driver.world
        going = {effect.uid: effect.node for effect in self.asked if isinstance(effect, gm.Bind)}
        for node in {effect.node for effect in bound}:
            facts = world.node(node)
            assert facts is not None
            assert facts.ready
            assert not facts.unschedulable
            there = set(world.on_node.get(node, {})) | {uid for uid, where in going.items() if where == node}
            used = sum(dict(world.pods[uid].shape.request)[GPU] for uid in there if uid in world.pods)
            assert used <= dict(facts.allocatable)[GPU], "more on a node than it has"

    # --- what happens to objects ----------------------------------------------------------------

    def put(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        self.unshown.append(messages.PodSeen(pod))

    def of(self, name: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.group == self.groups[name].key]

    def note_seen_whole(self) -> None:
        """A group that the watch shows whole, if late, is hurt by whatever the watch shows next."""
        world = self.driver.world
        for name, group in self.groups.items():
            if group.key in world.groups and group.key in world.tallies:
                need = world.need(group.key)
                if isinstance(need, Need) and satisfied(need, world.tallies[group.key]):
                    self.whole.add(name)

    def note_whole(self) -> None:
        for name, group in self.groups.items():
            on_nodes = [pod.task for pod in self.of(name) if pod.node is not None and not pod.terminating]
            counts = Counter(on_nodes)
            if not on_nodes:
                self.whole.discard(name)
            elif len(on_nodes) >= group.min_member and all(counts[t] >= least for t, least in group.tasks):
                self.whole.add(name)

    @rule(name=st.sampled_from("ab"), task=st.sampled_from(TASKS), owned=st.booleans())
    def create(self, name: str, task: str, owned: bool) -> None:
        if len(self.of(name)) < 6:
            self.made += 1
            owner = JOB if owned else None
            self.put(make_pod(f"{name}{self.made}", REQUEST, group=name, task=task, owner=owner))

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), gracefully=st.booleans())
    def delete(self, data: st.DataObject, gracefully: bool) -> None:
        pod = self.pods[data.draw(st.sampled_from(sorted(self.pods)))]
        if gracefully:
            self.put(replace(pod, terminating=True))
        else:
            self.remove(pod)

    def remove(self, pod: Pod) -> None:
        del self.pods[pod.uid]
        self.unshown.append(messages.PodGone(pod.uid))
        self.note_whole()

    @rule(name=st.sampled_from(NODES), closed=st.booleans(), gpus=st.integers(1, 4))
    def change_node(self, name: str, closed: bool, gpus: int) -> None:
        self.nodes[name] = gpu_node(name, gpus=gpus, unschedulable=closed)
        self.unshown.append(messages.NodeSeen(self.nodes[name]))

    @rule(name=st.sampled_from("ab"), minimum=st.integers(1, 4))
    def change_minimum(self, name: str, minimum: int) -> None:
        group = self.groups[name]
        self.groups[name] = replace(group, min_member=minimum, generation=group.generation + 1)
        self.unshown.append(messages.GroupSeen(self.groups[name]))
        if any(pod.node is not None for pod in self.of(name)):
            self.whole.add(name)

    @rule(node=st.sampled_from(NODES))
    def foreign_pod(self, node: str) -> None:
        self.made += 1
        pod = make_pod(f"f{self.made}", REQUEST, scheduler="default-scheduler", node=node)
        self.ever_bound.add(pod.uid)
        self.put(pod)

    @rule(count=st.integers(1, 5))
    def show(self, count: int) -> None:
        for _ in range(min(count, len(self.unshown))):
            self.send(self.unshown.popleft())

    # --- what the scheduler does ----------------------------------------------------------------

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), node=st.sampled_from(NODES))
    def call(self, data: st.DataObject, node: str) -> None:
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        self.call_for(self.pods[uid], node)

    @rule(name=st.sampled_from("ab"))
    def call_all(self, name: str) -> None:
        for index, pod in enumerate(self.of(name)):
            if pod.node is None:
                self.call_for(pod, NODES[index % 3])

    def call_for(self, pod: Pod, node: str) -> None:
        call = CallId(len(self.called) + 1)
        self.called[call] = (pod.uid, node)
        self.driver.open_call(call)
        self.send(gm.HoldCalled(call, pod.uid, pod.namespace, pod.name, node))

    @precondition(lambda self: self.driver.unanswered)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(sorted(self.driver.unanswered)))
        self.driver.forget_call(call)
        self.send(gm.CallClosed(call))

    # --- what the API server and the extender do ------------------------------------------------

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), how=st.sampled_from(["bad", "lost", "good"]))
    def answer(self, data: st.DataObject, how: str) -> None:
        effect = self.asked.pop(data.draw(st.integers(0, len(self.asked) - 1)))
        self.respond(effect, how)

    @precondition(lambda self: self.asked)
    @rule(count=st.integers(1, 6))
    def answer_well(self, count: int) -> None:
        for effect in self.asked[:count]:
            self.asked.remove(effect)
            self.respond(effect, "good")

    @rule(name=st.sampled_from("ab"), bad=st.integers(0, 4))
    def start(self, name: str, bad: int) -> None:
        """All members are called, and everything goes well but for the last bindings."""
        self.call_all(name)
        while any(not isinstance(effect, gm.Bind) for effect in self.asked):
            effect = next(effect for effect in self.asked if not isinstance(effect, gm.Bind))
            self.asked.remove(effect)
            self.respond(effect, "good")
        for _ in range(min(bad, len(self.asked))):
            self.respond(self.asked.pop(), "bad")

    def respond(self, effect: gm.GateEffect, how: str) -> None:
        match effect:
            case gm.ReadPod():
                pod = self.pods.get(effect.uid)
                self.send(gm.PodRead(effect.uid, pod, failed=how != "good"))
            case gm.ReadGroup():
                group = next(g for g in self.groups.values() if g.key == effect.key)
                self.send(gm.GroupRead(effect.key, effect.ask, group, failed=how != "good"))
            case gm.AskRelease():
                said = {member.uid: {} if how == "good" or n else None for n, member in enumerate(effect.members)}
                self.send(gm.ReleaseAnswered(effect.key, effect.ask, None if how == "lost" else said))
            case gm.Bind():
                self.send(self.bind(effect, how))
            case messages.Evict():
                if how == "good" and effect.uid in self.pods:
                    self.remove(self.pods[effect.uid])
                self.send(gm.EvictDone(effect.uid, "" if how == "good" else "refused"))

    def bind(self, effect: gm.Bind, how: str) -> gm.BindDone:
        pod = self.pods.get(effect.uid)
        if pod is None or pod.terminating:
            return gm.BindDone(effect.uid, "gone", gone=True)
        if how == "bad":
            return gm.BindDone(effect.uid, "refused")
        if pod.node is not None:  # an earlier Binding whose reply was lost: the API server refuses a second one
            return gm.BindDone(effect.uid, "" if pod.node == effect.node else "bound elsewhere")
        self.ever_bound.add(pod.uid)
        self.put(replace(pod, node=effect.node, bound_at=self.driver.now))
        self.note_whole()
        return gm.BindDone(effect.uid, "unsettled" if how == "lost" else "")

    # --- the gate's own life --------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.25, 1.0, 5.0, 11.0, 31.0]))
    def tick(self, seconds: float) -> None:
        self.driver.now += seconds
        self.send(messages.Tick())

    @rule(acting=st.booleans())
    def act(self, acting: bool) -> None:
        if acting and not self.acting:
            self.note_forgotten()
        self.acting = acting
        self.send(messages.ActivityChanged(acting))

    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        if self.pods:
            self.send(gm.Withdrawn((data.draw(st.sampled_from(sorted(self.pods))),)))

    @rule(landed=st.booleans())
    def restart(self, landed: bool) -> None:
        """Killed: bindings on their way may still be done; the scheduler's connections end."""
        going = [effect for effect in self.asked if isinstance(effect, gm.Bind)]
        for effect in going if landed else []:
            self.bind(effect, "good")
        self.asked = []
        self.unshown.clear()
        self.driver = make_driver(self.driver.now)
        self.start_gate()

    @invariant()
    def the_list_of_holds_names_each_pod_once(self) -> None:
        shown = [hold.uid for hold in self.driver.gate.shown()]
        assert len(shown) == len(set(shown))

    def teardown(self) -> None:
        """The noise ends: everything is shown and answered, and time passes."""
        self.act(True)
        for seconds in [1.0] * 60 + [60.0] * 10:
            while self.unshown or self.asked:
                self.show(len(self.unshown))
                if self.asked:
                    self.respond(self.asked.pop(0), "good")
            self.tick(seconds)
        assert not self.driver.unanswered, "a call without an answer"
        assert self.driver.gate.shown() == ()
        for name in self.groups:
            left = [pod for pod in self.of(name) if pod.node is not None and not pod.terminating]
            if left and name not in self.whole:
                assert all(pod.owner is None for pod in left), f"group {name} was left half bound"
        super().teardown()


Cluster.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestGateUnderRandomEvents = pytest.mark.timeout(120)(Cluster.TestCase)
