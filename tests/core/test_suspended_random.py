"""Random histories of jobs that are queued by suspension: nobody is let go twice, nobody is lost, and counts add up.

The cluster here has what the API server would hold, a controller that makes and deletes pods as `suspend` says, and a
scheduler that binds whole groups. Watches of the two kinds show what happened late and independently of each other.
What holds after each event of the engine is checked by its driver (reservations, usage, room).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from extender.core import messages
from extender.core.ids import QUEUE_GATE, PodUid
from extender.core.makers import MakerGone, MakerSeen
from extender.core.messages import Suspend
from extender.core.model import Pod
from extender.core.reasons import Evicted
from extender.core.suspended import KEEP_SECONDS, Passed, Suspended
from extender.core.switches import Switch
from tests.builders import GPU, bound, gpu_node, make_queue
from tests.core.engine_driver import Driver, overfull
from tests.core.test_suspended import KINDS, Job

pytestmark = pytest.mark.timeout(120)
NODES, GPUS = 2, 3
NAMES = ("a", "b", "c")
#: jobs' priorities, by class
CLASSES = {"a": "", "b": "", "c": "high"}
QUOTA = make_queue("default", capability=((GPU, 4),))


class Cluster:
    """Jobs and pods as they are, what is still to be shown of them, and an extender that may be started anew."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.pods: dict[str, dict[PodUid, Pod]] = {}
        self.born = 0
        self.late: dict[str, list[Any]] = {"jobs": [], "pods": []}
        self.let_go: Counter[tuple[str, int]] = Counter()
        self.finished: set[str] = set()
        self.held: set[str] = set()
        self.now = 0.0
        self.start()

    def start(self) -> None:
        """The extender is started: it lists everything."""
        self.news, self.late = Suspended(), {"jobs": [], "pods": []}
        self.let_go.clear()
        self.driver = Driver(*(gpu_node(f"gpu-{n}", GPUS) for n in range(NODES)), QUOTA, active=False)
        self.driver.now += self.now
        self.hear(KINDS, messages.PriorityClassSeen("high", 10))
        self.hear(*(MakerSeen(job.maker()) for job in self.jobs.values()))
        self.hear(*(messages.PodSeen(pod) for pods in self.pods.values() for pod in pods.values()))
        self.hear(messages.ActivityChanged(True))
        self.tick()

    def hear(self, *events: Any) -> None:
        for event in events:
            for one in self.news.hear(event):
                self.carry_out(self.driver.send(one))

    def tick(self, seconds: float = 0.0) -> None:
        """Time passes."""
        self.now += seconds
        self.carry_out(self.driver.tick(seconds))
        self.hear(Passed(self.driver.now))
        assert not overfull(self.driver.engine)

    def carry_out(self, effects: list[messages.Effect]) -> None:
        for effect in effects:
            error = ""
            if isinstance(effect, Suspend):
                error = self.suspend(effect.switch, effect.on)
            elif isinstance(effect, messages.Ungate):
                self.change(effect.uid, lambda pod: replace(pod, gates=tuple(g for g in pod.gates if g != QUEUE_GATE)))
            elif isinstance(effect, messages.Evict):
                if effect.stop is not None:
                    self.suspend(effect.stop, True)
                ground = effect.ground
                self.change(
                    effect.uid,
                    lambda pod, g=ground: replace(pod, terminating=True, evicted=Evicted(g, self.driver.now)),
                )
            self.carry_out(self.driver.done(effect, error=error))

    def suspend(self, switch: Switch, on: bool) -> str:
        """As the write does."""
        job = self.jobs.get(switch.name)
        if job is None or job.uid != switch.uid or job.suspend is on:
            return ""
        if not on and job.generation != switch.generation:
            return "stale"
        if not on:
            self.let_go[job.uid, job.generation] += 1
        self.update(replace(job, suspend=on, admitted=not on))
        return ""

    # --- what others do -------------------------------------------------------------------------

    def update(self, job: Job) -> None:
        made = replace(job, generation=job.generation + 1)
        self.jobs[job.name] = made
        self.late["jobs"].append(MakerSeen(made.maker()))

    def create(self, name: str) -> None:
        if name not in self.jobs:
            self.born += 1
            self.jobs[name] = Job(name, 2, born=self.born, priority_class=CLASSES[name], generation=0)
            self.update(self.jobs[name])

    def delete(self, name: str) -> None:
        job = self.jobs.pop(name, None)
        if job is not None:
            self.late["jobs"].append(MakerGone(job.key))
            self.held.discard(name)
            self.remove(name)

    def by_hand(self, name: str) -> None:
        """Somebody turns the switch."""
        job = self.jobs.get(name)
        if job is not None:
            self.update(replace(job, suspend=not job.suspend))

    def resize(self, name: str) -> None:
        job = self.jobs.get(name)
        if job is not None and job.suspend:
            self.update(replace(job, pods=1 + job.pods % 3))

    def control(self, name: str) -> None:
        """The job's controller has its turn."""
        job = self.jobs.get(name)
        if job is None or job.uid in self.finished:
            return
        there = self.pods.setdefault(name, {})
        for uid in [uid for uid, pod in there.items() if pod.terminating or (job.suspend and not pod.ended)]:
            self.late["pods"].append(messages.PodGone(uid))
            del there[uid]
        taken = {pod.index for pod in there.values()}
        for number in range(job.pods) if not job.suspend else ():
            if (number,) not in taken:
                self.born += 1
                pod = job.pod(number, uid=f"{job.uid}/real-{self.born}")
                there[pod.uid] = pod
                self.late["pods"].append(messages.PodSeen(pod))

    def schedule(self, name: str) -> None:
        """kube-scheduler and gate bind the whole group, if all have places."""
        pods, job = list(self.pods.get(name, {}).values()), self.jobs.get(name)
        world = self.driver.engine.world
        known = all(pod.uid in world.pods and world.pods[pod.uid].gates == pod.gates for pod in pods)
        ready = job is not None and len(pods) == job.pods and known
        if ready and all(pod.waiting and not pod.gates and self.driver.node(pod) for pod in pods):
            for pod in pods:
                node = self.driver.node(pod)
                assert node is not None
                self.change(pod.uid, lambda one, node=node: bound(one, node, self.driver.now))

    def finish(self, name: str) -> None:
        """The job's pods end well, if all run."""
        job, pods = self.jobs.get(name), self.pods.get(name, {})
        if job is not None and pods and all(pod.bound for pod in pods.values()):
            self.finished.add(job.uid)
            for uid in list(pods):
                self.change(uid, lambda pod: replace(pod, phase="Succeeded"))

    def remove(self, name: str) -> None:
        for uid in self.pods.pop(name, {}):
            self.late["pods"].append(messages.PodGone(uid))

    def change(self, uid: PodUid, how: Callable[[Pod], Pod]) -> None:
        for pods in self.pods.values():
            if uid in pods:
                pods[uid] = how(pods[uid])
                self.late["pods"].append(messages.PodSeen(pods[uid]))

    def show(self, kind: str, most: int = 1000) -> None:
        """A watch shows what it has, or a part of it."""
        some, self.late[kind] = self.late[kind][:most], self.late[kind][most:]
        self.hear(*some)
        self.tick()

    def show_again(self, name: str) -> None:
        """A watch is begun anew, and shows what is known already."""
        if name in self.jobs:
            self.late["jobs"].append(MakerSeen(self.jobs[name].maker()))

    # --- what must hold -------------------------------------------------------------------------

    def check(self) -> None:
        twice = {key: times for key, times in self.let_go.items() if times > 1}
        assert not twice, f"let go more than once: {twice}"

    def come_to_rest(self) -> None:
        """Everybody does what there is to do, and nothing else happens."""
        before: object = None
        for _ in range(20):
            if before == (before := (dict(self.jobs), {name: dict(pods) for name, pods in self.pods.items()})):
                return
            for kind in self.late:
                self.show(kind)
            for name in NAMES:
                self.control(name)
                for kind in self.late:
                    self.show(kind)
                self.schedule(name)
            self.tick(2 * KEEP_SECONDS)
            self.check()
        raise AssertionError("it does not come to rest")

    def runs(self, name: str) -> bool:
        pods = self.pods.get(name, {}).values()
        return bool(pods) and all(pod.bound for pod in pods)


OPS = {
    "create": Cluster.create,
    "delete": Cluster.delete,
    "by hand": Cluster.by_hand,
    "resize": Cluster.resize,
    "control": Cluster.control,
    "schedule": Cluster.schedule,
    "finish": Cluster.finish,
    "again": Cluster.show_again,
    "jobs shown": lambda cluster, _: cluster.show("jobs"),
    "pods shown": lambda cluster, _: cluster.show("pods"),
    "one pod shown": lambda cluster, _: cluster.show("pods", 1),
    "one job shown": lambda cluster, _: cluster.show("jobs", 1),
    "time": lambda cluster, _: cluster.tick(7.0),
    "restart": lambda cluster, _: cluster.start(),
}
STEPS = st.lists(st.tuples(st.sampled_from(sorted(OPS)), st.sampled_from(NAMES)), max_size=40)


@settings(max_examples=40, deadline=None)
@example([("by hand", "a"), ("jobs shown", "a"), ("by hand", "a")])
@given(STEPS)
def test_whatever_happens_each_job_waits_without_pods_or_runs_and_none_is_lost(steps: list[tuple[str, str]]) -> None:
    cluster = Cluster()
    for name in NAMES:
        cluster.create(name)
    for op, name in steps:
        OPS[op](cluster, name)
        cluster.check()
    cluster.come_to_rest()
    for _ in NAMES:  # each in its turn
        for other in NAMES:
            job = cluster.jobs.get(other)
            if job is None or job.uid in cluster.finished:
                continue
            if job.suspend and job.admitted:  # by hand: nobody but a person lets it go
                assert not cluster.pods.get(other)
                assert job.group not in cluster.driver.engine.entries
            elif cluster.runs(other):
                cluster.finish(other)
            else:
                assert job.suspend, f"{other} waits with pods"
                assert not cluster.pods.get(other), f"{other} waits with pods"
                assert job.group in cluster.driver.engine.entries, f"{other} is lost"
        cluster.come_to_rest()
    left = [
        job.name
        for job in cluster.jobs.values()
        if job.uid not in cluster.finished and not (job.suspend and job.admitted)
    ]
    cluster.come_to_rest()
    assert all(cluster.runs(name) for name in left), f"{left} never run"
    world = cluster.driver.engine.world
    assert not [pod for pod in world.pods.values() if pod.planned], "somebody is planned who runs"
