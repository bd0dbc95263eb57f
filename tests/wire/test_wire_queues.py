"""Queues of both projects: every field, what may be wrong with it, and our status there and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_objects import table

from extender.core.ids import QueueName, Source
from extender.core.model import Queue, QueueCondition, QueueStatus
from extender.core.resources import GPU, GPU_PARTS, GPU_SHARE
from extender.wire import objects

X = QueueName("x")


def ours(spec: Any = None, status: Any = None) -> Queue:
    meta = {"name": "x", "uid": "u-1", "generation": 3}
    return objects.decode_queue(Source.MUSTER, {"metadata": meta, "spec": spec, "status": status})


def volcano(spec: Any = None, status: Any = None, name: str = "x") -> Queue:
    return objects.decode_queue(Source.VOLCANO, {"metadata": {"name": name}, "spec": spec, "status": status})


@table(
    "spec, want",
    {
        "nothing said": ({}, {}),
        "a parent": ({"parent": "root"}, {"parent": "root"}),
        "closed": ({"state": "Closed"}, {"closed": True}),
        "open": ({"state": "Open"}, {}),
        "seen by an autoscaler": ({"autoscaling": "Visible"}, {"visible": True}),
        "hidden from an autoscaler": ({"autoscaling": "Hidden"}, {}),
        "amounts in base units": (
            {"capability": {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": 8, "pods": "10"}},
            {"capability": (("cpu", 1500), ("memory", 2**30), ("nvidia.com/gpu", 8), ("pods", 10))},
        ),
        "nothing of a resource is kept": (
            {"capability": {"nvidia.com/mig-1g.5gb": "0"}, "deserved": {"cpu": 0}},
            {"capability": (("nvidia.com/mig-1g.5gb", 0),), "deserved": (("cpu", 0),)},
        ),
        "a part of a byte is cut off": ({"deserved": {"memory": "0.1Gi"}}, {"deserved": (("memory", 107374182),)}),
        "a guarantee": ({"guarantee": {"resource": {"nvidia.com/gpu": "4"}}}, {"guarantee": (("nvidia.com/gpu", 4),)}),
        "not reclaimable": ({"reclaimable": False}, {"reclaimable": False}),
        "a priority": ({"priority": -5}, {"priority": -5}),
        "seconds": ({"minRuntimeSeconds": 60, "staleSeconds": 0}, {"min_runtime": 60, "stale": 0}),
        "no weight at all": ({"weight": 0}, {"weight": 0}),
        "GPUs as they are asked for": ({"gpuCharge": "gpus", "capability": {GPU: 2}}, {"capability": ((GPU, 2),)}),
        "GPUs by share": (
            {
                "gpuCharge": "share",
                "capability": {GPU: 2, "cpu": 1},
                "deserved": {GPU: 1},
                "guarantee": {"resource": {GPU: 0}},
            },
            {
                "by_share": True,
                "capability": (("cpu", 1000), (GPU_SHARE, 2 * GPU_PARTS)),
                "deserved": ((GPU_SHARE, GPU_PARTS),),
                "guarantee": ((GPU_SHARE, 0),),
            },
        ),
        "some namespaces": ({"namespaces": ["b", "a"]}, {"namespaces": frozenset({"a", "b"})}),
        "no namespace at all": ({"namespaces": []}, {"namespaces": frozenset()}),
    },
)
def test_a_queue_of_ours(spec: dict, want: dict) -> None:
    assert ours(spec) == Queue(X, uid="u-1", generation=3, **want)


@table(
    "spec, problem",
    {
        "less than no time": ({"staleSeconds": -1}, "spec.staleSeconds: -1 is not an integer from 0 to 31536000"),
        "seen or not": ({"autoscaling": "visible"}, "spec.autoscaling: 'visible' is not Hidden or Visible"),
        "seen by a flag": ({"autoscaling": True}, "spec.autoscaling: True is not a text"),
        "a state unknown": ({"state": "Ajar"}, "spec.state: 'Ajar' is not Open or Closed"),
        "a parent that is a list": ({"parent": ["a"]}, "spec.parent: ['a'] is not a text"),
        "less than nothing": ({"capability": {"cpu": "-1"}}, "spec.capability[cpu]: '-1' is negative"),
        "a huge amount": ({"deserved": {"cpu": "9E"}}, "spec.deserved[cpu]: '9E' is too large an amount"),
        "half a GPU": (
            {"capability": {"nvidia.com/gpu": "500m"}},
            "spec.capability[nvidia.com/gpu]: '500m' is not a whole number",
        ),
        "not a quantity": (
            {"guarantee": {"resource": {"memory": "viel"}}},
            "spec.guarantee.resource[memory]: 'viel' is not a quantity",
        ),
        "digits of another script": (
            {"capability": {"cpu": "\u0663"}},
            "spec.capability[cpu]: '\u0663' is not a quantity",
        ),
        "a resource that no pod asks for": (
            {"capability": {"gpu": 8}},
            "spec.capability[gpu]: no pod asks for a resource of this name",
        ),
        "a weight below nothing": ({"weight": -1}, "spec.weight: -1 is not an integer from 0 to 65535"),
        "a weight with a fraction": ({"weight": 0.5}, "spec.weight: 0.5 is not an integer from 0 to 65535"),
        "a huge priority": (
            {"priority": 2**31},
            "spec.priority: 2147483648 is not an integer from -1000000000 to 1000000000",
        ),
        "amounts in a list": ({"capability": ["cpu"]}, "spec.capability: ['cpu'] is not an object"),
        "a namespace that is a number": ({"namespaces": ["a", 3]}, "spec.namespaces: ['a', 3] is not a list of texts"),
    },
)
@pytest.mark.parametrize("decode", [ours, volcano])
def test_what_is_wrong_is_named(decode: Any, spec: dict, problem: str) -> None:
    assert decode(spec).problems == (problem,)


@table(
    "spec, status, want",
    {
        "no parent is the root": ({}, {}, {"parent": "root"}),
        "a parent": ({"parent": "dept"}, {}, {"parent": "dept"}),
        "its own words": (
            {
                "weight": 2,
                "capability": {"cpu": 4},
                "deserved": {"cpu": 2},
                "guarantee": {"resource": {"cpu": 1}},
                "affinity": {"nodeGroupAffinity": {}},
                "dequeueStrategy": "traverse",
            },
            {},
            {
                "parent": "root",
                "weight": 2,
                "capability": (("cpu", 4000),),
                "deserved": (("cpu", 2000),),
                "guarantee": (("cpu", 1000),),
            },
        ),
        "closed by its controller": ({}, {"state": "Closed"}, {"parent": "root", "closed": True}),
        "closing": ({}, {"state": "Closing"}, {"parent": "root", "closed": True}),
        "open": ({}, {"state": "Open", "allocated": {"cpu": "1"}}, {"parent": "root"}),
    },
)
def test_a_queue_of_volcano(spec: dict, status: dict, want: dict) -> None:
    assert volcano(spec, status) == Queue(X, source=Source.VOLCANO, **want)


def test_volcano_s_root_is_below_nothing() -> None:
    assert volcano({}, name="root").parent is None


amounts = st.dictionaries(st.sampled_from(("cpu", "memory", "pods", "nvidia.com/gpu")), st.integers(0, 2**50))
conditions = st.builds(
    QueueCondition,
    st.sampled_from(("Valid", "GuaranteeCovered")),
    st.booleans(),
    st.text("abc", min_size=1),
    st.text(),
    st.integers(0, 2**32),
)
statuses = st.builds(
    QueueStatus,
    amounts.map(lambda found: tuple(sorted(found.items()))),
    st.sampled_from(("0", "0.5", "inf")),
    st.integers(0, 9),
    st.sampled_from(("Open", "Closing")),
    st.integers(0, 9),
    st.lists(conditions, max_size=2).map(tuple),
)


@settings(deadline=None)
@given(statuses, statuses)
def test_a_status_comes_back_as_it_was_written_over_an_older_one(older: QueueStatus, newer: QueueStatus) -> None:
    stands = objects.encode_queue_status(older, ())
    patch = objects.encode_queue_status(newer, older.allocated)
    merged = patch | {"allocated": {**stands["allocated"], **patch["allocated"]}}
    merged["allocated"] = {name: text for name, text in merged["allocated"].items() if text is not None}
    assert ours({}, merged).status == newer


@pytest.mark.parametrize("status", [None, 3, [], {"allocated": {"cpu": "x"}, "pending": "y", "conditions": [4, {}]}])
def test_a_status_that_was_tampered_with_makes_no_queue_wrong(status: object) -> None:
    assert ours({}, status).problems in ((), ("status: 3 is not an object",), ("status: [] is not an object",))


@pytest.mark.parametrize("source", [Source.MUSTER, Source.VOLCANO])
@pytest.mark.parametrize("obj", [None, 3, {}, {"metadata": []}, {"metadata": {"name": ""}}])
def test_an_object_without_a_name_is_refused(source: Source, obj: object) -> None:
    with pytest.raises(objects.DecodeError):
        objects.decode_queue(source, obj)
