"""The extender protocol: bodies as kube-scheduler sends them, and replies as it reads them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_objects import node, pod, table

from extender.wire import extender_v1
from extender.wire.extender_v1 import BindArgs, Victims, WireError


def body(**message: Any) -> bytes:
    return orjson.dumps(message)


def args_of(names: list[str]) -> extender_v1.NodeArgs:
    return extender_v1.decode_node_args(body(Pod=pod(), Nodes=None, NodeNames=names))


def nodes_of(names: list[str]) -> extender_v1.NodeArgs:
    items = [node(meta={"name": name}) for name in names]
    return extender_v1.decode_node_args(body(Pod=pod(), Nodes={"items": items}, NodeNames=None))


# --- filter ----------------------------------------------------------------------------------------


@table(
    "message, want",
    {
        "names": ({"Nodes": None, "NodeNames": ["b", "a"]}, ("b", "a")),
        "names twice are offered once, in order": ({"NodeNames": ["b", "a", "b"]}, ("b", "a")),
        "no names": ({"NodeNames": []}, ()),
        "both null": ({"Nodes": None, "NodeNames": None}, ()),
        "neither": ({}, ()),
        "nodes without items": ({"Nodes": {"metadata": {}, "items": None}}, ()),
        "names of any script": ({"NodeNames": ["узел"]}, ("узел",)),
        "unknown fields are passed over": ({"NodeNames": ["a"], "Else": 1}, ("a",)),
    },
)
def test_offered_names(message: dict, want: tuple) -> None:
    got = extender_v1.decode_node_args(body(Pod=pod(), **message))
    assert got.offered == want
    assert got.pod == pod()


def test_nodes_that_are_sent_whole() -> None:
    got = nodes_of(["b", "a", "b"])
    assert got.offered == ("b", "a")
    assert [item["metadata"]["name"] for item in got.items or ()] == ["b", "a"]


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b'{"Pod":NaN}',
        b"\xff\xfe",
        b"[" * 100_000,
        body(NodeNames=["a"]),
        body(Pod=None, NodeNames=["a"]),
        body(Pod="p", NodeNames=["a"]),
        body(Pod={}, NodeNames="a"),
        body(Pod={}, NodeNames={"a": 1}),
        body(Pod={}, NodeNames=["a", None]),
        body(Pod={}, NodeNames=["a", 3]),
        body(Pod={}, NodeNames=["a", ["b"]]),
        body(Pod={}, NodeNames=[""]),
        body(Pod={}, Nodes=[]),
        body(Pod={}, Nodes={"items": {}}),
        body(Pod={}, Nodes={"items": [None]}),
        body(Pod={}, Nodes={"items": [{}]}),
        body(Pod={}, Nodes={"items": [{"metadata": {"name": 3}}]}),
    ],
    ids=lambda sent: sent[:40].decode(errors="replace"),
)
def test_malformed_node_args_are_refused_in_few_words(sent: bytes) -> None:
    with pytest.raises(WireError) as refused:
        extender_v1.decode_node_args(sent)
    assert 0 < len(str(refused.value)) < 80


@pytest.mark.parametrize("make", [args_of, nodes_of], ids=["names", "nodes"])
def test_passed_nodes_come_back_in_the_shape_that_was_sent(make: Any) -> None:
    args = make(["a", "b", "c"])
    reply = json.loads(extender_v1.encode_passed(args, ["b"]))
    assert reply["Error"] == ""
    if args.items is None:
        assert reply["NodeNames"] == ["b"]
    else:
        assert [item["metadata"]["name"] for item in reply["Nodes"]["items"]] == ["b"]


@pytest.mark.parametrize(("make", "left"), [(args_of, "NodeNames"), (nodes_of, "Nodes")])
def test_a_rejection_names_each_node_with_one_text_and_leaves_none(make: Any, left: str) -> None:
    reply = json.loads(extender_v1.encode_rejected(make(["a", "b"]), "waiting in its queue"))
    assert reply == {
        left: [] if left == "NodeNames" else {"items": []},
        "FailedAndUnresolvableNodes": {"a": "waiting in its queue", "b": "waiting in its queue"},
        "Error": "",
    }


def test_a_foreign_pod_passes_with_all_names_in_order() -> None:
    names = [f"n{i}" for i in range(500, 0, -1)]
    args = args_of(names)
    assert json.loads(extender_v1.encode_passed(args, args.offered))["NodeNames"] == names


def test_an_error_is_never_empty_nor_long() -> None:
    assert json.loads(extender_v1.encode_error("not ready")) == {"Error": "not ready"}
    assert json.loads(extender_v1.encode_error(""))["Error"]
    assert len(json.loads(extender_v1.encode_error("x" * 10_000))["Error"]) == 500
    assert json.loads(extender_v1.BOUND) == {"Error": ""}


@table(
    "sent, want",
    {
        "ours": (pod(), "muster"),
        "nobody's": ({}, ""),
        "no spec": ({"spec": None}, ""),
        "no text": ({"spec": {"schedulerName": 4}}, ""),
    },
)
def test_scheduler_of(sent: dict, want: str) -> None:
    assert extender_v1.scheduler_of(sent) == want


# --- prioritize ------------------------------------------------------------------------------------


def test_scores_are_integers_within_the_range() -> None:
    scores = [("a", 3), ("b", np.int64(7)), ("c", 99), ("d", -1)]
    text = extender_v1.encode_scores(scores)
    assert b"." not in text
    assert json.loads(text) == [
        {"Host": "a", "Score": 3},
        {"Host": "b", "Score": 7},
        {"Host": "c", "Score": 10},
        {"Host": "d", "Score": 0},
    ]


@pytest.mark.parametrize("score", [7.0, np.float64(7), "7", None])
def test_a_score_that_is_no_integer_is_a_fault_of_ours(score: Any) -> None:
    with pytest.raises(TypeError):
        extender_v1.encode_scores([("a", score)])


# --- bind ------------------------------------------------------------------------------------------

BIND = {"PodName": "p", "PodNamespace": "team", "PodUID": "u-1", "Node": "n1"}


def test_bind_args() -> None:
    assert extender_v1.decode_bind_args(body(**BIND)) == BindArgs("p", "team", "u-1", "n1")


@pytest.mark.parametrize("field", BIND)
@pytest.mark.parametrize("value", ["", None, 3, []])
def test_bind_args_without_a_field_are_refused_by_its_name(field: str, value: Any) -> None:
    with pytest.raises(WireError, match=f"^{field} is missing$"):
        extender_v1.decode_bind_args(body(**(BIND | {field: value})))


# --- preempt ---------------------------------------------------------------------------------------


@table(
    "message, want",
    {
        "told by uid": (
            {"NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "a"}, {"UID": "b"}], "NumPDBViolations": 1}}},
            {"n": Victims(("a", "b"), 1)},
        ),
        "told as pods": (
            {"NodeNameToVictims": {"n": {"Pods": [pod(meta={"uid": "a"})], "NumPDBViolations": 0}}},
            {"n": Victims(("a",))},
        ),
        "the shape that is not null counts": (
            {"NodeNameToVictims": None, "NodeNameToMetaVictims": {"n": {"Pods": []}}},
            {"n": Victims(())},
        ),
        "null is left out": (
            {"NodeNameToMetaVictims": {"n": None, "m": {"Pods": [None, {"UID": "a"}]}, "k": {"Pods": None}}},
            {"m": Victims(("a",)), "k": Victims(())},
        ),
        "no candidates": ({}, {}),
    },
)
def test_candidates_come_back_by_uid_without_nulls(message: dict, want: dict) -> None:
    args = extender_v1.decode_preempt_args(body(Pod=pod(), **message))
    assert args.victims == want
    reply = extender_v1.encode_candidates(args.victims)
    assert b"null" not in reply
    assert extender_v1.decode_preempt_args(body(Pod=pod(), **json.loads(reply))).victims == want


def test_a_veto_is_an_empty_map_and_not_null() -> None:
    assert json.loads(extender_v1.PREEMPT_VETO) == {"NodeNameToMetaVictims": {}}


@pytest.mark.parametrize(
    "candidates",
    [
        3,
        [],
        {"n": 3},
        {"n": {"Pods": 3}},
        {"n": {"Pods": [3]}},
        {"n": {"Pods": [{}]}},
        {"n": {"Pods": [{"UID": ""}]}},
        {"n": {"Pods": [], "NumPDBViolations": "1"}},
    ],
)
def test_malformed_candidates_are_refused(candidates: Any) -> None:
    with pytest.raises(WireError):
        extender_v1.decode_preempt_args(body(Pod=pod(), NodeNameToMetaVictims=candidates))


# --- names of all kinds ----------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.text(min_size=1, max_size=20), max_size=30))
def test_a_reply_never_names_a_node_that_was_not_offered(names: list[str]) -> None:
    args = args_of(names)
    assert len(set(args.offered)) == len(args.offered)
    assert set(args.offered) == set(names)
    assert json.loads(extender_v1.encode_passed(args, args.offered))["NodeNames"] == list(args.offered)
    assert set(json.loads(extender_v1.encode_rejected(args, "x"))["FailedAndUnresolvableNodes"]) == set(names)
