"""Topologies, namespaces, priority classes, leases and the list of open queues."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_objects import table

from extender.core.activity import Lease
from extender.core.model import Topology
from extender.wire import objects


def named(**fields: Any) -> dict:
    return {"metadata": {"name": "x"}} | fields


def test_topology() -> None:
    assert objects.decode_topology(named(spec={"levels": ["block", "rack"]})) == Topology("x", ("block", "rack"))


@pytest.mark.parametrize("levels", [None, [], "rack", [""], ["a", "a"], ["a", 3], [{"nodeLabel": "a"}]])
def test_a_topology_without_sound_levels_is_refused(levels: object) -> None:
    with pytest.raises(objects.DecodeError, match=r"spec\.levels"):
        objects.decode_topology(named(spec={"levels": levels}))


@table(
    "labels, want",
    {
        "a queue": ({"muster.dev/queue": "team-a"}, ("x", "team-a", False)),
        "none": ({"a": "b"}, ("x", None, False)),
        "no labels": (None, ("x", None, False)),
        "a number": ({"muster.dev/queue": 3}, ("x", None, False)),
        "managed": ({"muster.dev/managed": "enforce"}, ("x", None, True)),
        "managed by warning": ({"muster.dev/managed": "warn", "muster.dev/queue": "a"}, ("x", "a", True)),
        "managed in another way": ({"muster.dev/managed": "Enforce"}, ("x", None, False)),
        "managed by nothing": ({"muster.dev/managed": ""}, ("x", None, False)),
        "managed by a number": ({"muster.dev/managed": 1}, ("x", None, False)),
    },
)
def test_namespace(labels: Any, want: tuple) -> None:
    assert objects.decode_namespace({"metadata": {"name": "x", "labels": labels}}) == want


@table(
    "spec, want",
    {
        "held": (
            {"holderIdentity": "host_1", "renewTime": "2026-01-01T00:00:00.5Z", "leaseDurationSeconds": 30},
            Lease("host_1", "2026-01-01T00:00:00.5Z", 30.0),
        ),
        "given up": ({"holderIdentity": "", "leaseDurationSeconds": 1}, Lease("", "", 1.0)),
        "empty": ({}, Lease("", "", 15.0)),
        "malformed": (
            {"holderIdentity": 4, "renewTime": [], "leaseDurationSeconds": -1},
            Lease("", "", 15.0),
        ),
    },
)
def test_lease(spec: dict, want: Lease) -> None:
    assert objects.decode_lease(named(spec=spec)) == want


@table(
    "data, want",
    {
        "names, one a line": ({"open": "default\nteam-a\n"}, {"default", "team-a"}),
        "spaces and empty lines": ({"open": " a \r\n\n\nb"}, {"a", "b"}),
        "an empty text": ({"open": ""}, set()),
        "no key": ({}, set()),
        "no data": (None, set()),
        "not a text": ({"open": ["a"]}, set()),
    },
)
def test_open_queues(data: Any, want: set) -> None:
    assert objects.decode_open_queues(named(data=data)) == want


@settings(deadline=None)
@given(st.frozensets(st.text("abcxyz-.", min_size=1, max_size=10)))
def test_open_queues_come_back_as_they_went(names: frozenset) -> None:
    text = objects.encode_open_queues(names)
    assert objects.decode_open_queues({"data": {"open": text}}) == names


@pytest.mark.parametrize("value", [0, -7, 2_000_001_000, -(2**31)])
def test_priority_class(value: int) -> None:
    assert objects.decode_priority_class({"metadata": {"name": "low"}, "value": value}) == ("low", value)


@pytest.mark.parametrize("value", [None, "7", 1.5, 2**31, True, []])
def test_a_priority_class_without_a_value_is_refused(value: object) -> None:
    with pytest.raises(objects.DecodeError, match="value: not an integer"):
        objects.decode_priority_class({"metadata": {"name": "low"}, "value": value})


@pytest.mark.parametrize(
    "decode",
    [objects.decode_topology, objects.decode_namespace, objects.decode_lease, objects.decode_priority_class],
)
@pytest.mark.parametrize("obj", [None, 3, {}, {"metadata": []}, {"metadata": {"name": ""}}])
def test_an_object_without_a_name_is_refused(decode: Any, obj: object) -> None:
    with pytest.raises(objects.DecodeError):
        decode(obj)
