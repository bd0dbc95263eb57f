"""Makers that are queued by suspension, as the engine hears of them and what it decides: tables, and random histories.

The cluster here has the API server's objects in a few words, and controllers that make and delete pods as told by
`suspend`; what it shows comes late, and in any order between kinds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from extender.core import messages
from extender.core.ids import GroupKey, QueueName, Source, TaskName
from extender.core.makers import (
    Gang,
    Maker,
    MakerGone,
    MakerKey,
    MakerSeen,
    Recognition,
    RecognitionsSeen,
    Suspension,
)
from extender.core.messages import Suspend
from extender.core.model import Owner, Pod, Queue
from extender.core.planning import EXPECT_SECONDS
from extender.core.reasons import Evicted, Ground, Reason
from extender.core.suspended import KEEP_SECONDS, Passed, Suspended
from extender.core.switches import Switch
from extender.core.switching import BACK_OFF_SECONDS
from tests.builders import GPU, bound, gpu_node, make_group, make_pod, make_queue, make_shape
from tests.core.engine_driver import GATED, START, Driver

KINDS = RecognitionsSeen((Recognition("job", (("batch", "Job"),)),))
TEAM = "team"


@dataclass
class Job:
    """A Job of the API server: each change of its spec raises its generation."""

    name: str
    pods: int = 2
    gpus: int = 1
    suspend: bool = True
    admitted: bool = False
    generation: int = 1
    priority_class: str = ""
    born: int = 0
    #: its minimum, where that is not all its pods
    least: int = 0

    @property
    def uid(self) -> str:
        return f"uid-of-{self.name}-{self.born}"

    @property
    def key(self) -> MakerKey:
        return MakerKey("job", TEAM, self.name)

    @property
    def group(self) -> GroupKey:
        return GroupKey(Source.OWNER, TEAM, f"job:{self.name}")

    @property
    def switch(self) -> Switch:
        return Switch("batch", ("v1",), "jobs", "spec.suspend", TEAM, self.name, self.uid, self.generation)

    def maker(self) -> Maker:
        """As it is decoded."""
        suspension: Suspension | None = Suspension(self.switch, self.suspend)
        if self.suspend and self.admitted:
            suspension = None
        elif self.suspend:
            names = (self.priority_class,) * self.pods
            suspension = Suspension(
                self.switch, True, tuple(self.pod(n, planned=True) for n in range(self.pods)), names
            )
        stops = None if suspension is None or suspension.waits else self.switch
        group = make_group("any", self.least or max(1, self.pods), source=Source.OWNER)
        return Maker(self.key, self.uid, (Gang(replace(group, uid=self.uid, switch=stops)),), suspension=suspension)

    def pod(self, number: int, *, planned: bool = False, uid: str = "") -> Pod:
        """One of its pods, planned or as its controller makes it; in no group yet."""
        return make_pod(
            f"{self.name}-{number}",
            {GPU: self.gpus},
            uid=uid or f"{self.uid}/{number}",
            gates=GATED,
            index=(number,),
            owner=Owner("Job", self.name, self.uid, "batch"),
            planned=self.switch if planned else None,
            created=START,
        )


class Scene:
    """An engine behind `Suspended`, with one node."""

    def __init__(self, gpus: int = 4, *queues: Queue) -> None:
        self.news = Suspended()
        self.driver = Driver(gpu_node(gpus=gpus), *queues)
        self.hear(KINDS)

    def hear(self, *events: Any) -> list[messages.Effect]:
        told = [one for event in events for one in self.news.hear(event)]
        return self.driver.send(*told)

    def see(self, *things: Job | Pod) -> list[messages.Effect]:
        """These are shown, and a cycle is run."""
        events = [MakerSeen(one.maker()) if isinstance(one, Job) else messages.PodSeen(one) for one in things]
        return [*self.hear(*events), *self.driver.tick()]

    def gone(self, *pods: Pod) -> list[messages.Effect]:
        return [*self.hear(*(messages.PodGone(pod.uid) for pod in pods)), *self.driver.tick()]

    def pass_by(self, seconds: float) -> list[messages.Effect]:
        """Time passes, second by second."""
        found: list[messages.Effect] = []
        for _ in range(int(seconds)):
            found += self.driver.tick(1.0)
            found += self.hear(Passed(self.driver.now))
        return [*found, *self.driver.tick()]

    def members(self, job: Job) -> list[Pod]:
        return list(self.driver.engine.world.members.get(job.group, {}).values())

    def planned(self, job: Job) -> list[str]:
        return sorted(pod.name for pod in self.members(job) if pod.planned)

    def let_go(self, job: Job) -> Job:
        """What was decided of the job comes true."""
        assert suspends(self.driver.effects)[-1:] == [(job.name, False)]
        return replace(job, suspend=False, admitted=True, generation=job.generation + 1)

    def reserved(self) -> int:
        return self.driver.reserved


def suspends(effects: list[messages.Effect]) -> list[tuple[str, bool]]:
    return [(effect.switch.name, effect.on) for effect in effects if isinstance(effect, Suspend)]


def ungated(effects: list[messages.Effect]) -> set[str]:
    return {effect.name for effect in effects if isinstance(effect, messages.Ungate)}


def test_a_job_whose_turn_has_come_is_let_go_once_and_its_room_is_kept() -> None:
    scene, job = Scene(), Job("a")
    assert suspends(scene.see(job)) == [("a", False)]
    assert scene.planned(job) == ["a-0", "a-1"]
    assert scene.reserved() == 2
    assert suspends([*scene.see(job), *scene.pass_by(5)]) == []
    running = scene.let_go(job)
    assert suspends([*scene.see(running), *scene.pass_by(5)]) == []
    assert scene.reserved() == 2


@pytest.mark.parametrize("maker_first", [True, False])
def test_pods_that_come_have_the_places_of_those_that_stood_for_them(maker_first: bool) -> None:
    scene, job, other = Scene(gpus=2), Job("a"), Job("b")
    scene.see(job)
    assert suspends(scene.see(other)) == []
    running = scene.let_go(job)
    if maker_first:
        scene.see(running)
    for number in (1, 0):
        pod = running.pod(number, uid=f"real-{number}")
        assert ungated(scene.see(pod)) == {pod.name}
        assert scene.reserved() == 2
    scene.see(running)
    assert {pod.uid for pod in scene.members(job)} == {"real-0", "real-1"}
    assert scene.driver.reason(other.group) is Reason.RESOURCES


def test_a_pod_has_the_place_of_the_one_with_its_number() -> None:
    scene, job = Scene(), Job("a", pods=3)
    scene.see(job)
    scene.see(running := scene.let_go(job), running.pod(1, uid="real"))
    assert scene.planned(job) == ["a-0", "a-2"]


def test_one_that_asks_for_more_than_was_planned_is_planned_anew() -> None:
    scene, job = Scene(gpus=2), Job("a", pods=1)
    scene.see(job)
    running = scene.let_go(job)
    scene.see(running, replace(running, gpus=2).pod(0, uid="real"))
    assert scene.driver.node(scene.members(job)[0]) == "gpu-0"
    assert scene.reserved() == 1


def test_one_that_may_not_go_where_it_was_planned_does_not() -> None:
    scene, job = Scene(gpus=2), Job("a", pods=1)
    scene.see(job)
    running = scene.let_go(job)
    other = make_shape({GPU: 1}, selector=(("pool", "other"),))  # as a webhook may have it
    found = scene.see(running, replace(running.pod(0, uid="real"), shape=other))
    assert scene.driver.node(scene.members(job)[0]) is None
    assert suspends(found) == [("a", True)]


def test_a_job_waits_for_its_quota_as_others_do() -> None:
    scene, queue = Scene(4, make_queue("default", capability=((GPU, 2),))), []
    queue = [Job("a"), Job("b"), Job("c")]
    scene.see(*queue)
    assert suspends(scene.driver.effects) == [("a", False)]
    assert {scene.driver.reason(job.group) for job in queue[1:]} == {Reason.QUOTA}
    running = scene.let_go(queue[0])
    pods = [running.pod(number, uid=f"real-{number}") for number in range(2)]
    scene.see(running, *pods)
    scene.driver.bind(*(pod for pod in scene.members(running)))
    scene.driver.tick()
    assert dict(scene.driver.engine.usage.of(QueueName("default")))[GPU] == 2
    assert suspends(scene.see(*(replace(bound(pod, "gpu-0"), phase="Succeeded") for pod in pods))) == [("b", False)]


def test_room_is_not_kept_for_ever_for_pods_that_do_not_come() -> None:
    scene, job, other = Scene(gpus=2), Job("a"), Job("b")
    scene.see(job, other)
    scene.see(scene.let_go(job))
    assert suspends(scene.pass_by(KEEP_SECONDS - 1)) == []
    assert suspends(scene.pass_by(3)) == [("b", False)]
    assert scene.members(job) == []


def test_room_is_kept_while_pods_come_one_by_one() -> None:
    scene, job = Scene(gpus=3), Job("a", pods=3)
    scene.see(job)
    running = scene.let_go(job)
    scene.see(running)
    for number in range(3):
        scene.pass_by(KEEP_SECONDS - 2)
        assert ungated(scene.see(running.pod(number, uid=f"real-{number}"))) == {f"a-{number}"}
    assert scene.planned(job) == []


def test_one_that_leaves_already_has_nobody_s_place() -> None:
    scene, job = Scene(), Job("a")
    scene.see(job)
    scene.see(replace(job.pod(0, uid="old"), terminating=True))
    assert scene.planned(job) == ["a-0", "a-1"]


def test_what_waits_without_pods_has_others_evicted_as_any_group_has() -> None:
    scene, job = Scene(gpus=2), Job("a", priority_class="high")
    low = [bound(make_pod(f"low-{n}", {GPU: 1}, owner=Owner("Job", "low", "l", "batch")), "gpu-0") for n in range(2)]
    scene.hear(messages.PriorityClassSeen("high", 7))
    scene.driver.see(*low)
    effects = scene.see(job)
    assert {effect.name for effect in effects if isinstance(effect, messages.Evict)} == {"low-0", "low-1"}
    assert suspends(effects) == []
    assert suspends([*scene.driver.gone(*low), *scene.driver.tick()]) == [("a", False)]


def test_there_is_nothing_to_show_to_an_autoscaler_of_a_group_without_pods() -> None:
    scene, job = Scene(1, make_queue("default", visible=True)), Job("a")
    effects = [*scene.see(job), *scene.pass_by(5)]
    assert scene.driver.reason(job.group) is Reason.RESOURCES
    assert ungated(effects) == set()


def test_what_comes_late_waits_and_is_suspended_again() -> None:
    scene, job, other = Scene(gpus=2), Job("a"), Job("b")
    scene.see(job, other)
    running = scene.let_go(job)
    scene.see(running)
    scene.pass_by(KEEP_SECONDS + 2)
    late = [running.pod(number, uid=f"late-{number}") for number in range(2)]
    assert suspends(scene.see(*late)) == [("a", True)]
    waits = replace(running, suspend=True, admitted=False, generation=3)
    scene.see(waits)
    assert scene.planned(job) == [], "the old pods are still there"
    scene.gone(*late)
    assert scene.planned(job) == ["a-0", "a-1"]
    assert suspends(scene.pass_by(60)) == [], "there is no room"


def test_who_is_let_go_in_vain_waits_longer_each_time() -> None:
    scene, job = Scene(gpus=2), Job("a")
    pauses = []
    for life in range(4):
        began = scene.driver.now
        let_go = suspends(scene.see(job))
        while not let_go and scene.driver.now < began + 100:
            let_go = suspends(scene.pass_by(1))
        pauses.append(scene.driver.now - began)
        job = scene.let_go(job)
        pods = [replace(job, gpus=2).pod(number, uid=f"{life}-{number}") for number in range(2)]  # more than planned
        scene.see(job)
        assert ("a", True) in suspends([*scene.see(*pods), *scene.pass_by(1)])
        job = replace(job, suspend=True, admitted=False, generation=job.generation + 1)
        scene.see(job)
        scene.gone(*pods)
    assert pauses[0] == 0
    assert pauses[1] < pauses[2] < pauses[3] < 8 * BACK_OFF_SECONDS


def test_a_gang_that_is_evicted_goes_back_to_where_it_has_no_pods() -> None:
    scene, job = Scene(gpus=2), Job("a")
    scene.see(job)
    running = scene.let_go(job)
    pods = [replace(running.pod(number, uid=f"real-{number}"), gates=()) for number in range(2)]
    scene.see(running, *pods)
    on_nodes = [bound(pod, "gpu-0", START) for pod in pods]
    scene.driver.entry(job.group).in_vain = 3
    scene.see(*on_nodes)
    assert scene.driver.entry(job.group).in_vain == 0, "it runs: what was in vain before is over"
    gone = [replace(pod, terminating=True, evicted=Evicted(Ground.RECLAIMED, START)) for pod in on_nodes]
    assert suspends(scene.see(gone[0])) == [], "one still runs"
    assert suspends(scene.see(gone[1])) == [("a", True)]
    assert suspends(scene.pass_by(3)) == []
    scene.see(replace(running, suspend=True, admitted=False, generation=3))
    assert suspends(scene.gone(*gone)) == [("a", False)], "there is room, and it was let go in earnest"


def test_pods_that_leave_for_another_reason_are_not_suspended() -> None:
    scene, job = Scene(gpus=2), Job("a")
    scene.see(job)
    running = scene.let_go(job)
    pods = [bound(running.pod(number, uid=f"real-{number}"), "gpu-0", START) for number in range(2)]
    scene.see(running, *pods)
    assert suspends(scene.see(*(replace(pod, terminating=True) for pod in pods))) == []


def test_what_kube_scheduler_refuses_keeps_its_pods() -> None:
    scene, job = Scene(gpus=2), Job("a", pods=1)
    scene.see(job)
    running = scene.let_go(job)
    pod = replace(running.pod(0, uid="real"), gates=())
    scene.see(running, pod)
    refused = replace(pod, rejection="0/1 nodes are available: 1 node(s) had volume node affinity conflict.")
    assert suspends([*scene.see(refused), *scene.pass_by(20)]) == []
    assert scene.driver.reason(job.group) is Reason.SCHEDULER_REFUSED


def test_one_that_is_let_go_by_hand_before_its_turn_is_suspended_again() -> None:
    scene, first, job = Scene(gpus=2), Job("a"), Job("b")
    scene.see(first)
    scene.see(job)
    by_hand = replace(job, suspend=False, generation=2)
    pods = [by_hand.pod(number, uid=f"real-{number}") for number in range(2)]
    scene.see(by_hand)
    found = [effect for pod in pods for effect in scene.see(pod)]
    assert suspends(found) == [("b", True)]


def test_one_that_starts_with_its_least_keeps_what_waits_beside_it() -> None:
    scene, job = Scene(gpus=2), Job("a", pods=3, least=2)
    scene.see(job)
    running = scene.let_go(job)
    found = scene.see(running)
    for number in range(3):
        found += scene.see(running.pod(number, uid=f"real-{number}"))
    assert scene.driver.reason(job.group) is Reason.RESOURCES
    assert suspends([*found, *scene.pass_by(3)]) == []
    assert len(ungated(found)) == 2


def test_one_whose_pods_still_come_is_not_suspended_for_want_of_the_others() -> None:
    scene, job = Scene(), Job("a", suspend=False)
    group = make_group("any", 2, {"driver": 1, "worker": 1}, source=Source.OWNER)
    gang = Gang(replace(group, uid=job.uid, switch=job.switch))
    scene.hear(MakerSeen(Maker(job.key, job.uid, (gang,), suspension=Suspension(job.switch, False))))
    found = scene.see(replace(job.pod(0, uid="real"), task=TaskName("driver")))
    assert scene.driver.reason(job.group) is Reason.MEMBERS
    assert suspends([*found, *scene.pass_by(EXPECT_SECONDS - 1)]) == []
    assert suspends(scene.pass_by(3)) == [("a", True)]


def test_one_that_is_suspended_by_hand_is_out_of_the_queue_until_its_mark_is_gone() -> None:
    scene, job = Scene(gpus=2), Job("a")
    scene.see(job)
    running = scene.let_go(job)
    pods = [running.pod(number, uid=f"real-{number}") for number in range(2)]
    scene.see(running, *pods)
    held = replace(running, suspend=True, generation=3)
    scene.see(held)
    scene.gone(*pods)
    assert (scene.members(job), scene.reserved()) == ([], 0)
    assert suspends(scene.see(replace(held, admitted=False))) == [("a", False)]


def test_what_changes_while_it_waits_counts_as_it_is_then() -> None:
    scene, job = Scene(gpus=4), Job("a", pods=8)
    scene.see(job)
    assert scene.driver.reason(job.group) is Reason.RESOURCES
    assert suspends(scene.see(replace(job, pods=3, gpus=2, generation=2))) == []
    assert scene.planned(job) == ["a-0", "a-1", "a-2"]
    (effect,) = [one for one in scene.see(replace(job, pods=4, generation=3)) if isinstance(one, Suspend)]
    assert effect.switch.generation == 3
    assert scene.reserved() == 4


def test_one_that_somebody_else_lets_go_and_suspends_before_it_has_pods_is_let_go_again() -> None:
    scene, job = Scene(gpus=4), Job("a")
    assert suspends(scene.see(job)) == [("a", False)]
    scene.see(replace(job, suspend=False, generation=2))
    assert suspends(scene.see(replace(job, generation=3))) == [("a", False)]


def test_one_that_is_deleted_while_it_waits_or_is_let_go_holds_nothing() -> None:
    scene, job = Scene(gpus=2), Job("a")
    scene.see(job)
    scene.hear(MakerGone(job.key))
    scene.driver.tick()
    assert (scene.members(job), scene.reserved()) == ([], 0)
    again = Job("a", born=1)
    assert suspends(scene.see(again)) == [("a", False)]
    assert all(pod.uid.startswith(again.uid) for pod in scene.members(again))


def test_priority_is_that_of_the_class() -> None:
    scene, job = Scene(), Job("a", priority_class="high")
    scene.hear(messages.PriorityClassSeen("high", 7))
    scene.see(job)
    assert [pod.priority for pod in scene.members(job)] == [7, 7]
    scene.hear(messages.PriorityClassSeen("high", 9))
    assert [pod.priority for pod in scene.members(job)] == [9, 9]
    scene.hear(messages.PriorityClassGone("high"))
    assert [pod.priority for pod in scene.members(job)] == [0, 0]


def test_one_that_may_not_be_let_go_says_so_and_leaves_the_room_to_others() -> None:
    scene, job, other = Scene(gpus=2), Job("a"), Job("b")
    (effect,) = [one for one in scene.see(job) if isinstance(one, Suspend)]
    scene.see(other)
    scene.driver.done(effect, error="jobs is forbidden: cannot patch")
    assert scene.driver.reason(job.group) is Reason.STAYS_SUSPENDED
    assert scene.driver.detail(job.group) == {
        "object": "jobs.batch team/a",
        "error": "jobs is forbidden: cannot patch",
    }
    assert suspends(scene.driver.tick()) == [("b", False)]
    scene.hear(MakerGone(other.key))
    assert suspends(scene.pass_by(BACK_OFF_SECONDS - 1)) == []
    (effect,) = [one for one in scene.pass_by(2) if isinstance(one, Suspend)]
    scene.driver.done(effect, error="the same")
    assert suspends(scene.pass_by(2 * BACK_OFF_SECONDS - 1)) == []
    assert suspends(scene.pass_by(2)) == [("a", False)]


def test_a_pod_that_kube_scheduler_asks_for_before_it_is_shown_is_the_one_that_was_planned() -> None:
    scene, job = Scene(gpus=1), Job("a", pods=1)
    scene.see(job)
    pod = replace(scene.let_go(job).pod(0, uid="real"), gates=())
    scene.hear(messages.FilterCalled(pod, ("gpu-0",)))  # type: ignore[arg-type]
    assert [one.uid for one in scene.members(job)] == ["real"]
    assert scene.driver.node(scene.members(job)[0]) == "gpu-0"


def test_a_replica_that_does_not_act_knows_as_much() -> None:
    scene, job = Scene(gpus=2), Job("a")
    scene.hear(messages.ActivityChanged(False))
    scene.see(job)
    running = replace(job, suspend=False, admitted=True, generation=2)
    scene.see(running.pod(0, uid="real"))
    assert {pod.uid for pod in scene.members(job) if not pod.planned} == {"real"}
    assert scene.planned(job) == ["a-1"]
    assert suspends(scene.see(running)) == []
    scene.hear(messages.ActivityChanged(True))
    scene.driver.tick()
    assert scene.reserved() == 2
