"""Which group a pod is in by what made it: tables, and whatever order the news come in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.core import explain, messages
from extender.core.ids import GroupKey, NodeName, PodUid, Source, TaskName
from extender.core.makers import (
    Gang,
    KindRead,
    Maker,
    MakerGone,
    MakerKey,
    Makers,
    MakerSeen,
    Recognition,
    RecognitionsSeen,
    group_of,
    maker_key,
)
from extender.core.membership import Need
from extender.core.model import Declared, Group, Owner, Part, Pod
from extender.core.reasons import Reason, Refusal
from extender.core.world import World
from tests.builders import group_key, make_group, make_pod

JOB = Recognition("job", (("batch", "Job"),))
SET = Recognition("jobset", (("batch", "Job"),), "set-name")
SERVED = Recognition("lws", (("apps", "StatefulSet"),), "lws-name", copy="replica")
TORCH = Recognition("torch", (("kubeflow.org", "TorchJob"),))
KINDS = RecognitionsSeen((SET, SERVED, JOB, TORCH))
TEAM = "team"


def need(least: int, **tasks: int) -> Group:
    return make_group("any", least, tasks, source=Source.OWNER)


def maker(word: str, name: str, *gangs: Gang, uid: str = "", copies: bool = False) -> Maker:
    of = tuple(replace(gang, group=replace(gang.group, uid=uid or f"uid-of-{name}")) for gang in gangs)
    return Maker(MakerKey(word, TEAM, name), uid or f"uid-of-{name}", of, copies)


def made(name: str, api: str, kind: str, owner: str, *, task: str = "", uid: str = "", **more: Any) -> Pod:
    labels = tuple(sorted(more.pop("labels", {}).items()))
    controller = Owner(kind, owner, uid or f"uid-of-{owner}", api)
    return make_pod(name, task=task, owner=controller, labels=labels, **more)


def of_job(name: str, owner: str = "train", **more: Any) -> Pod:
    return made(name, "batch", "Job", owner, **more)


def owner_key(*parts: str) -> GroupKey:
    return GroupKey(Source.OWNER, TEAM, ":".join(parts))


def heard(*events: Any) -> World:
    """What a world shows after these events."""
    world, makers = World(), Makers()
    for event in (KINDS, *events):
        for one in makers.hear(event):
            world.apply(one)
    return world


def homes(world: World) -> dict[str, GroupKey]:
    return {pod.name: pod.group for pod in world.pods.values()}


ALONE = GroupKey(Source.POD, TEAM, "uid-p")
WHOLE = maker("jobset", "train", Gang(need(4, driver=1, worker=3)))
IN_TURN = maker(
    "jobset",
    "train",
    Gang(need(1), "driver", (TaskName("driver"),)),
    Gang(need(3), "worker", (TaskName("worker"),)),
)
GANG_JOB = maker("job", "train", Gang(need(4)))
LOOSE_JOB = maker("job", "train", Gang(need(4), loose=True))
SERVING = maker("lws", "llm", Gang(need(3, leader=1, worker=2)), copies=True)
WORKERS_ONLY = maker("lws", "llm", Gang(need(2), tasks=(TaskName("worker"),)), copies=True)
OF_SET = {"labels": {"set-name": "train"}}
REPLICA = {"labels": {"lws-name": "llm", "replica": "1"}}

CASES: dict[str, tuple[Maker | None, Pod, GroupKey]] = {
    "a pod without a controller stands alone": (GANG_JOB, make_pod("p"), ALONE),
    "of a kind that nobody knows: alone": (GANG_JOB, made("p", "apps", "ReplicaSet", "web"), ALONE),
    "of another API group's Job: alone": (GANG_JOB, made("p", "batch.volcano.sh", "Job", "train"), ALONE),
    "of a Job that is a gang": (GANG_JOB, of_job("p"), owner_key("job", "train")),
    "of a Job that is none: alone": (LOOSE_JOB, of_job("p"), ALONE),
    "of one that is none, with a minimum on it": (
        LOOSE_JOB,
        of_job("p", declared=Declared(min_member=2)),
        owner_key("job", "train"),
    ),
    "of one that is none, to share a domain": (
        LOOSE_JOB,
        of_job("p", parts=(Part("rack", "podset "),)),
        owner_key("job", "train"),
    ),
    "of one that is none, to be near each other": (LOOSE_JOB, of_job("p", prefers="rack"), owner_key("job", "train")),
    "its maker is not there: a group that waits": (None, of_job("p"), owner_key("job", "train")),
    "its maker is another one of that name": (
        GANG_JOB,
        of_job("p", uid="older"),
        owner_key("job", "train", "older"),
    ),
    "through a Job to its set": (WHOLE, of_job("p", "train-0", task="worker", **OF_SET), owner_key("jobset", "train")),
    "an empty label names nothing": (None, of_job("p", labels={"set-name": ""}), owner_key("job", "train")),
    "roles that start in turn": (
        IN_TURN,
        of_job("p", "train-0", task="worker", **OF_SET),
        owner_key("jobset", "train", "worker"),
    ),
    "a role that the maker does not name stands alone": (IN_TURN, of_job("p", "x", task="odd", **OF_SET), ALONE),
    "of one of several wholes": (
        SERVING,
        made("p", "apps", "StatefulSet", "llm-1", task="worker", **REPLICA),
        owner_key("lws", "llm", "1"),
    ),
    "a role that starts first stands alone": (
        WORKERS_ONLY,
        made("p", "apps", "StatefulSet", "llm", task="leader", **REPLICA),
        ALONE,
    ),
    "a mark of its own comes first": (GANG_JOB, of_job("p", group="marked"), group_key("marked")),
}


@pytest.mark.parametrize(("maker", "pod", "want"), [pytest.param(*case, id=name) for name, case in CASES.items()])
def test_where_a_pod_is(maker: Maker | None, pod: Pod, want: GroupKey) -> None:
    news = [MakerSeen(maker)] if maker is not None else []
    assert homes(heard(*news, messages.PodSeen(pod))) == {"p": want}
    assert homes(heard(messages.PodSeen(pod), *news)) == {"p": want}
    makers = Makers()
    for event in (KINDS, *news):
        makers.hear(event)
    assert makers.place(pod).group == want


def test_what_a_group_needs_is_what_its_maker_says_and_without_one_it_waits() -> None:
    pod = of_job("p", "train-0", task="worker", **OF_SET)
    key = owner_key("jobset", "train")
    without = heard(messages.PodSeen(pod))
    missing = Refusal(Reason.GROUP_NOT_FOUND, (("maker", "jobset team/train"),))
    assert without.need(key) == missing
    # what an object that was deleted with --cascade=orphan has left waits for ever: the mend is named
    assert "the object that makes this pod does not exist" in explain.sentence(missing)
    assert "delete what it left" in explain.mend(missing.reason, missing.detail)
    assert "jobset team/train" in explain.mend(missing.reason, missing.detail)
    need = heard(messages.PodSeen(pod), MakerSeen(WHOLE)).need(key)
    assert isinstance(need, Need)
    assert (need.min_member, dict(need.tasks)) == (4, {"driver": 1, "worker": 3})


def test_a_minimum_on_the_pods_comes_before_what_the_makers_fields_say() -> None:
    pod = of_job("p", "train-0", task="worker", declared=Declared(min_member=2), **OF_SET)
    need = heard(MakerSeen(WHOLE), messages.PodSeen(pod)).need(owner_key("jobset", "train"))
    assert isinstance(need, Need)
    assert (need.min_member, need.tasks) == (2, ())
    assert isinstance(heard(messages.PodSeen(pod)).need(owner_key("jobset", "train")), Refusal)  # still not there


@pytest.mark.parametrize(
    ("done", "succeeded", "least"),
    [
        pytest.param(0, 0, 4, id="nothing is done"),
        pytest.param(3, 0, 1, id="three are done, and gone: the last one need not wait for them"),
        pytest.param(3, 3, 4, id="three are done, and there: they count themselves"),
        pytest.param(1, 3, 4, id="more are seen than the object says"),
        pytest.param(9, 0, 1, id="more are done than there were"),
    ],
)
def test_members_of_whom_only_the_maker_knows_that_they_are_done(done: int, succeeded: int, least: int) -> None:
    news = [MakerSeen(maker("job", "train", Gang(replace(need(4), done=done))))]
    pods = [of_job(f"p{n}", phase="Succeeded") for n in range(succeeded)] + [of_job("last")]
    need_now = heard(*news, *map(messages.PodSeen, pods)).need(owner_key("job", "train"))
    assert isinstance(need_now, Need)
    assert need_now.min_member == least


def test_a_kind_that_may_not_be_read_leaves_its_pods_alone_until_it_may() -> None:
    news = [messages.PodSeen(of_job("p")), KindRead("job", False)]
    assert homes(heard(*news)) == {"p": ALONE}
    assert homes(heard(*reversed(news))) == {"p": ALONE}
    assert homes(heard(*news, KindRead("job", True))) == {"p": owner_key("job", "train")}


def test_a_maker_that_was_made_again_has_another_group() -> None:
    again = maker("job", "train", Gang(need(2)), uid="second")
    world = heard(
        MakerSeen(GANG_JOB),
        messages.PodSeen(of_job("p")),
        MakerSeen(again),
        messages.PodSeen(of_job("q", uid="second")),
    )
    assert homes(world) == {"p": owner_key("job", "train", "uid-of-train"), "q": owner_key("job", "train")}
    assert world.groups[owner_key("job", "train")].uid == "second"


def test_groups_outlive_their_members_and_end_with_their_maker() -> None:
    news = [MakerSeen(GANG_JOB), messages.PodSeen(of_job("p")), messages.PodGone(PodUid("uid-p"))]
    assert set(heard(*news).groups) == {owner_key("job", "train")}
    assert not heard(*news, MakerGone(GANG_JOB.key)).groups


def test_a_call_of_the_scheduler_that_is_ahead_of_the_watch_brings_its_group() -> None:
    makers = Makers()
    for event in (KINDS, MakerSeen(GANG_JOB)):
        assert not makers.hear(event)
    group, called = makers.hear(messages.FilterCalled(of_job("p"), (NodeName("n"),)))
    assert (group.group.key, called.pod.group) == (owner_key("job", "train"), owner_key("job", "train"))
    assert makers.hear(messages.PodSeen(of_job("p"))) == [messages.PodSeen(called.pod)]


def test_the_same_news_twice_and_news_of_unknown_kinds_say_nothing() -> None:
    makers = Makers()
    for event in (KINDS, MakerSeen(GANG_JOB), messages.PodSeen(of_job("p"))):
        makers.hear(event)
    odd = maker("nobody", "x", Gang(need(1)))
    for event in (MakerSeen(GANG_JOB), MakerSeen(odd), MakerGone(odd.key), KindRead("job", True), KINDS):
        assert makers.hear(event) == []


def test_kinds_that_are_dropped_or_added_move_their_pods() -> None:
    pod = messages.PodSeen(of_job("p", "train-0", **OF_SET))
    dropped = RecognitionsSeen((JOB,))
    assert homes(heard(MakerSeen(WHOLE), pod, dropped)) == {"p": owner_key("job", "train-0")}
    assert not heard(MakerSeen(WHOLE), pod, dropped).groups
    assert homes(heard(dropped, pod, KINDS, MakerSeen(WHOLE))) == {"p": owner_key("jobset", "train")}


def test_a_groups_key_leads_back_to_its_maker() -> None:
    for one, key in (
        (WHOLE, owner_key("jobset", "train")),
        (IN_TURN, owner_key("jobset", "train", "driver")),
        (SERVING, owner_key("lws", "llm", "7")),
    ):
        assert maker_key(key) == one.key
        group = group_of(one, key)
        assert group is not None
        assert group.key == key
    for key in (owner_key("jobset", "train", "odd"), owner_key("jobset", "other"), owner_key("lws", "llm")):
        assert group_of(SERVING, key) is None
        assert group_of(IN_TURN, key) is None


# --- whatever the order ----------------------------------------------------------------------------

_MAKERS = (
    WHOLE,
    IN_TURN,
    maker("jobset", "train", Gang(need(2)), uid="second"),
    GANG_JOB,
    LOOSE_JOB,
    maker("job", "train", Gang(need(9)), uid="second"),
    SERVING,
    WORKERS_ONLY,
)
_PODS = tuple(
    pod
    for name in ("p", "q")
    for pod in (
        make_pod(name),
        of_job(name),
        of_job(name, uid="second"),
        of_job(name, declared=Declared(min_member=2)),
        of_job(name, group="marked"),
        of_job(name, "train-0", task="driver", **OF_SET),
        of_job(name, "train-0", task="worker", node="n", **OF_SET),
        made(name, "apps", "StatefulSet", "llm-1", task="worker", **REPLICA),
        made(name, "apps", "StatefulSet", "llm", task="leader", **REPLICA),
    )
)
_EVENTS = st.one_of(
    st.sampled_from(_PODS).map(messages.PodSeen),
    st.sampled_from(_MAKERS).map(MakerSeen),
    st.sampled_from([maker.key for maker in _MAKERS]).map(MakerGone),
    st.builds(KindRead, st.sampled_from(["job", "jobset", "lws"]), st.booleans()),
    st.sampled_from([KINDS, RecognitionsSeen((JOB, SERVED)), RecognitionsSeen((SET,))]),
)


def state(news: Sequence[Any]) -> Iterable[Any]:
    """What is there after these news, shown in the plainest order: kinds, rights, makers, pods."""
    kinds, unread, makers, pods = KINDS, {}, {}, {}
    for event in news:
        match event:
            case RecognitionsSeen():
                kinds = event
                words = {kind.word for kind in kinds.recognitions}
                makers = {key: one for key, one in makers.items() if key.kind in words}
            case KindRead():
                unread[event.word] = event
            case MakerSeen() if event.maker.key.kind in {kind.word for kind in kinds.recognitions}:
                makers[event.maker.key] = event
            case MakerGone():
                makers.pop(event.key, None)
            case messages.PodSeen():
                pods[event.pod.uid] = event
    return kinds, *unread.values(), *makers.values(), *pods.values()


@given(st.lists(_EVENTS, max_size=14))
def test_what_is_told_follows_from_what_is_there_whatever_the_order(news: list[Any]) -> None:
    late, plain = heard(*news), heard(*state(news))
    assert homes(late) == homes(plain)
    for key in late.members:
        assert late.need(key) == plain.need(key)
        assert late.groups.get(key) == plain.groups.get(key)
        assert late.tallies[key].totals() == plain.tallies[key].totals()
    assert {key: set(pods) for key, pods in late.members.items()} == {
        key: {pod.uid for pod in late.pods.values() if pod.group == key} for key in late.members
    }


_OF_FIXED_KINDS = _EVENTS.filter(lambda event: not isinstance(event, RecognitionsSeen))


@given(st.lists(_OF_FIXED_KINDS, max_size=14))
def test_a_marked_pod_is_left_as_it_is_and_no_other_stands_alone_for_want_of_news(news: list[Any]) -> None:
    """At each step: a pod with a maker is alone only where the kind cannot be read, or its maker is there."""
    makers, there, unread = Makers(), set(), set()
    for event in (KINDS, *news):
        match event:
            case KindRead():
                (unread.discard if event.readable else unread.add)(event.word)
            case MakerSeen():
                there.add(event.maker.key)
            case MakerGone():
                there.discard(event.key)
        for told in makers.hear(event):
            if not isinstance(told, messages.PodSeen) or told.pod.owner is None:
                continue
            labels = dict(told.pod.labels)
            word = "jobset" if "set-name" in labels else "lws" if "lws-name" in labels else "job"
            key = MakerKey(word, TEAM, "llm" if word == "lws" else "train")
            if told.pod.group.lone:
                assert word in unread or key in there
            elif told.pod.group.source is not Source.OWNER:
                assert told.pod in _PODS
