"""Lines of the decision log come back as they were, what is no such line is named, and a state cannot run anything."""

from __future__ import annotations

import base64
import pickle
import zlib
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from extender.core import messages
from extender.core.decisions import Placed, Refused
from extender.core.engine import Engine
from extender.core.ids import NodeName, PodUid, QueueName
from extender.core.model import (
    Budget,
    CardAsk,
    CardRequest,
    Declared,
    Expression,
    Hold,
    HyperNode,
    Members,
    Owner,
    Part,
    PartRule,
    QueueStatus,
    Share,
    Taint,
    Term,
    Toleration,
)
from extender.core.reasons import Ground, Reason, Refusal
from extender.wire import frozen, journal
from tests.builders import GPU, bound, gpu_node, group_key, make_group, make_pod, make_queue, make_topology
from tests.core.engine_driver import Driver

REFUSAL = Refusal(Reason.RESOURCES, (("asked", 3), ("resource", "größe")))
POD = bound(
    make_pod(
        "p",
        {GPU: 2**53 + 1},
        group="a",
        task="w",
        constraints={
            "selector": (("zone", "a"),),
            "affinity": (Term((Expression("rack", "In", ("r1",)),), ()),),
            "tolerations": (Toleration("gpu", "Exists", "", ""),),
        },
        declared=Declared(min_member=2, preemptible=False),
        index=(1, 2),
        parts=(Part("rack", "r1", True),),
        owner=Owner("Job", "job", "uid"),
        labels=(("a", "b"),),
        checkpoint=1.25,
        shares=((Share("card", 10, 20),), ()),
        problems=("spec: wrong",),
    ),
    "n1",
    0.1,
)
EVENTS: dict[str, messages.EngineEvent] = {
    "pod": messages.PodSeen(POD),
    "pod gone": messages.PodGone(PodUid("p")),
    "node": messages.NodeSeen(gpu_node("n", 8, {"b": "1", "a": "2"}, taints=(Taint("k", "v", "NoExecute"),), cards=())),
    "node gone": messages.NodeGone(NodeName("n")),
    "group": messages.GroupSeen(
        make_group("a", 2, {"w": 1}, parts=(PartRule("rack", selector=(Expression("a", "Exists", ()),), size=2),))
    ),
    "group gone": messages.GroupGone(group_key("a")),
    "topology": messages.TopologySeen(make_topology()),
    "hypernode": messages.HyperNodeSeen(HyperNode("s0", 1, members=(Members(pattern="n.*"),))),
    "queue": messages.QueueSeen(
        make_queue("q", namespaces=frozenset({"b", "a"}), status=QueueStatus(((GPU, 1),), "0.5", 2, "Open", 3))
    ),
    "budget": messages.BudgetSeen(Budget("team", "b", "uid", (), 1, 2, 3, frozenset({"p1", "p0"}))),
    "namespace": messages.NamespaceSeen("team", QueueName("q"), True),
    "priority class": messages.PriorityClassSeen("low", -7),
    "filter call": messages.FilterCalled(POD, (NodeName("n1"), NodeName("n2"))),
    "holds": messages.HoldsSeen((Hold(PodUid("p"), NodeName("n"), group_key("a"), 7),)),
    "acting": messages.ActivityChanged(True),
    "no list": messages.OpenQueuesSeen(None),
    "open queues": messages.OpenQueuesSeen(frozenset({QueueName("b"), QueueName("a")})),
    "eviction failed": messages.EffectDone(
        messages.Evict(PodUid("p"), "team", "p", Ground.RECLAIMED, (("lost-seconds", 3),)), "429"
    ),
    "tick": messages.Tick(),
}
CARDS = CardRequest((CardAsk(1, 1000, None, 30), None), kinds=("A100",), passing=(0,))


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_an_event_comes_back_as_it_was(event: messages.EngineEvent) -> None:
    found = journal.read_line(journal.line(1764554400.123456, event, [], []))
    assert found == journal.Entry(1764554400.123456, event, [], [])


def test_all_events_and_effects_can_be_read() -> None:
    assert {type(event).__name__ for event in EVENTS.values()} >= journal._EVENTS.keys() - {
        "TopologyGone", "HyperNodeGone", "QueueGone", "BudgetGone", "NamespaceGone", "PriorityClassGone",
        "FilterRejected",
    }  # fmt: skip
    for kinds in (journal._EVENTS, journal._EFFECTS, journal._DECIDED):
        for kind in kinds.values():
            if kind is not messages.EffectDone:
                journal.values._reader(kind)


def test_effects_and_decisions_come_back_as_they_were() -> None:
    effect = messages.StateGroup(group_key("a"), "uid", "Pending", REFUSAL, 3, False, (1, 2, 3, 4))
    decided = (Placed(group_key("a"), (("p", NodeName("n")),)), Refused(group_key("b"), REFUSAL))
    entry = journal.read_line(journal.line(0.0, messages.Tick(), [effect], decided))
    assert isinstance(entry, journal.Entry)
    assert [journal.made(one) for one in (*entry.effects, *entry.decided)] == [effect, *decided]
    assert journal.outcome([effect], decided) == (entry.effects, entry.decided)


def _changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    told = orjson.loads(journal.line(0.0, EVENTS["pod"], [], []))
    change(told)
    return orjson.dumps(told)


WRONG: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"{", "no JSON"),
    "an array": (b"[]", "no JSON object"),
    "an unknown event": (b'{"at":1,"event":"Boom"}', "'Boom' is not known"),
    "a time that is none": (b'{"at":"1","event":"Tick"}', "at: '1' is not a number"),
    "a field that is missing": (_changed(lambda told: told["of"]["pod"].pop("uid")), "the fields of Pod"),
    "a field of another type": (_changed(lambda told: told["of"]["pod"].update(name=3)), "pod.name: '3' is not"),
    "a boolean for a number": (_changed(lambda told: told["of"]["pod"].update(priority=True)), "pod.priority"),
    "an unknown source": (_changed(lambda told: told["of"]["pod"].update(group=["x", "", ""])), "one of Source"),
    "effects that are none": (b'{"at":1,"event":"Tick","effects":3}', "effects: not an array"),
    "the outcome of nothing": (b'{"at":1,"event":"EffectDone","of":["Boom",{},""]}', "'Boom' is no effect"),
}


@pytest.mark.parametrize(("text", "says"), WRONG.values(), ids=WRONG)
def test_what_is_no_line_is_named(text: bytes, says: str) -> None:
    with pytest.raises(journal.Unreadable, match=says):
        journal.read_line(text)


def _header(**fields: object) -> bytes:
    told = orjson.loads(journal.header(journal.Settings(1000), journal.START, 1.0))
    return orjson.dumps(told | fields)


HEADERS: dict[str, tuple[bytes, str]] = {
    "an event": (journal.line(0.0, messages.Tick(), [], []), "its first line is no header"),
    "another format": (_header(**{"muster-decisions": 2}), "format 2, and this Muster reads 1"),
    "other rules": (_header(rules="abc"), "another version of Muster .rules abc"),
    "settings of others": (_header(settings={"turns": None}), "the fields of Settings"),
    "a state that is not packed": (_header(state="AAAA"), "state: "),
    "a state that does not end": (
        _header(state=base64.b64encode(zlib.compress(b"x" * 999)[:-9]).decode()),
        "it does not end",
    ),
}


@pytest.mark.parametrize(("text", "says"), HEADERS.values(), ids=HEADERS)
def test_what_is_no_header_is_named(text: bytes, says: str) -> None:
    with pytest.raises(journal.Unreadable, match=says):
        journal.read_header(text)


# --- the state ---------------------------------------------------------------------------------------


def test_an_engine_that_is_thawed_goes_on_as_it_was() -> None:
    driver = Driver(gpu_node("n0", 4), gpu_node("n1", 2), *(make_pod(f"p{n}", {GPU: 2}, group="a") for n in range(2)))
    driver.see(make_group("a", 3))
    driver.send(messages.HyperNodeSeen(HyperNode("s0", 1, members=(Members(pattern="n.*"),))))
    driver.tick(1)
    engine = frozen.thaw(frozen.freeze(driver.engine))
    late = messages.PodSeen(make_pod("p2", {GPU: 2}, group="a"))
    for event in (late, messages.Tick()):
        assert engine.handle(event, driver.now) == driver.engine.handle(event, driver.now)
        assert engine.decided == driver.engine.decided
    assert engine.view.planned(PodUid("uid-p2")) is not None


def test_what_is_to_happen_later_happens_in_a_thawed_engine_too() -> None:
    pods = [make_pod(f"p{n}", {GPU: 2}, group="a", owner=Owner("Job", "j", "u"), created=1_000_000.0) for n in range(2)]
    driver = Driver(gpu_node("n0", 8), make_group("a", 3), *pods)
    driver.tick()
    assert driver.reserved == 3  # room is kept for the third for ten seconds
    engine, decided = frozen.thaw(frozen.freeze(driver.engine)), 0
    for _ in range(30):
        driver.now += 1.0
        found = engine.handle(messages.Tick(), driver.now), list(engine.decided)
        assert found == (driver.engine.handle(messages.Tick(), driver.now), driver.engine.decided)
        decided += len(engine.decided)
    assert decided > 0


class Evil:
    """What runs something when it is unpacked."""

    def __init__(self, *reduced: Any) -> None:
        self._reduced = reduced

    def __reduce__(self) -> Any:
        return self._reduced


def _global(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n.".encode()


STATES: dict[str, bytes] = {
    "nothing": b"",
    "no pickle": b"hello",
    "a number": pickle.dumps(3),
    "a function of Python": pickle.dumps(Evil(print, ("run",))),
    "a way to look for others": pickle.dumps(Evil(getattr, ("", "__class__"))),
    "a module of the core's own imports": _global("extender.core.engine", "changes"),
    "a function of the core": _global("extender.core.victims", "choose"),
    "a class that the core imports": _global("extender.core.engine", "Callable"),
    "something of ours that is no core": _global("extender.wire.journal", "Header"),
    "a method that is none": pickle.dumps(Evil(frozen._method, (Engine(0), "__class__"))),
    "a method of a stranger": pickle.dumps(Evil(frozen._method, ("", "upper"))),
    "an array of objects": pickle.dumps(Evil(frozen._array, ("O", (1,), b"12345678", True))),
    "an array of another size": pickle.dumps(Evil(frozen._array, ("<i8", (5,), b"12345678", True))),
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_a_state_from_anywhere_is_refused(state: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(frozen.Unusable):
        frozen.thaw(state)
    assert capsys.readouterr().out == ""
