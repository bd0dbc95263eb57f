"""Whatever JSON comes, only the named errors leave the codecs, and what is decoded keeps its promises."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_objects import group, node, pod

from extender.core.ids import Source
from extender.core.resources import MAX_ON_NODE
from extender.wire import extender_v1, objects, records

anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)

RICH_POD = pod(
    meta={
        "labels": {"muster.dev/task": "w", "muster.dev/queue": "q", "muster.dev/pod-group": "g"},
        "annotations": {"muster.dev/min-member": "4", "muster.dev/preemptible": "true"},
        "ownerReferences": [{"controller": True, "kind": "Job", "name": "j", "uid": "j-1"}],
        "creationTimestamp": "2026-01-01T00:00:00Z",
    },
    spec={
        "schedulingGroup": {"podGroupName": "g"},
        "initContainers": [
            {"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
        ],
        "overhead": {"cpu": "1"},
        "resources": {"requests": {"cpu": "1"}},
        "nodeSelector": {"a": "b"},
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
                            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}],
                        }
                    ]
                }
            }
        },
        "priority": 1,
        "schedulingGates": [{"name": "x"}],
    },
    status={
        "phase": "Running",
        "resources": {"requests": {"cpu": "2"}},
        "allocatedResources": {"cpu": "2"},
        "conditions": [
            {"type": "PodResizePending", "reason": "Infeasible"},
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        ],
        "containerStatuses": [
            {"name": "c", "allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "3"}}},
        ],
    },
)
RICH_NODE = node(
    meta={"labels": {"a": "b"}, "annotations": {"hami.io/node-nvidia-register": "[]"}},
    spec={"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}], "unschedulable": False},
    status={"conditions": [{"type": "Ready", "status": "True"}]},
)
RICH_BUDGET = {
    "metadata": {"name": "b", "namespace": "team", "uid": "b-1", "generation": 2},
    "spec": {
        "minAvailable": 1,
        "selector": {
            "matchLabels": {"a": "b"},
            "matchExpressions": [
                {"key": "c", "operator": "NotIn", "values": ["d"]},
                {"key": "e", "operator": "Exists"},
            ],
        },
    },
    "status": {"observedGeneration": 2, "disruptionsAllowed": 1, "disruptedPods": {"p": "2026-01-01T00:00:00Z"}},
}
RICH_GROUP = group(
    meta={"labels": {"muster.dev/queue": "q"}, "annotations": {"muster.dev/why": "x"}, "generation": 1},
    spec={
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
        "priority": 1,
        "minMember": 2,
        "minTaskMember": {"w": 1},
        "tasks": [{"name": "w", "minMember": 1}],
        "queue": "q",
        "topology": {"required": "rack", "preferred": "block"},
        "preemptible": True,
        "expectedDurationSeconds": 5,
        "scheduleTimeoutSeconds": 5,
    },
    status={"phase": "Running", "reason": "x", "conditions": [{"type": "Unschedulable", "status": "True"}]},
)


def places(value: Any, path: tuple = ()) -> list[tuple]:
    """All paths in a JSON value, but the one to the value itself."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = []
    for key, item in inner:
        found += [(*path, key), *places(item, (*path, key))]
    return found


def damaged(value: Any, path: tuple, put: Any) -> Any:
    """A copy of a JSON value with another value at one place."""
    made = copy.deepcopy(value)
    at = made
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = put
    return made


def damage(value: Any) -> st.SearchStrategy:
    return st.builds(lambda path, put: damaged(value, path, put), st.sampled_from(places(value)), anything)


@settings(deadline=None, max_examples=150)
@given(damage(RICH_POD))
def test_a_damaged_pod_is_decoded_or_has_no_identity(obj: dict) -> None:
    try:
        got = objects.decode_pod(obj)
    except objects.DecodeError:
        assert not (obj["metadata"] and isinstance(obj["metadata"], dict)) or not all(
            isinstance(obj["metadata"].get(key), str) and obj["metadata"][key] for key in ("name", "uid")
        )
        return
    assert dict(got.shape.request)["pods"] == 1
    assert all(0 < amount <= MAX_ON_NODE for _, amount in got.shape.request)
    assert hash(got.shape) is not None
    assert all(isinstance(problem, str) and problem for problem in got.problems)


@settings(deadline=None, max_examples=200)
@given(damage(RICH_NODE))
def test_a_damaged_node_is_decoded_or_has_no_name(obj: dict) -> None:
    with contextlib.suppress(objects.DecodeError):
        got = objects.decode_node(obj)
        assert all(0 <= amount <= MAX_ON_NODE for _, amount in got.allocatable)
        assert "pods" in dict(got.allocatable)
        assert all(isinstance(text, str) for item in got.labels.items() for text in item)


@pytest.mark.parametrize(
    "source", [source for source in Source if source not in (Source.KUEUE, Source.OWNER, Source.POD)]
)
@settings(deadline=None, max_examples=150)
@given(obj=damage(RICH_GROUP))
def test_a_damaged_group_is_decoded_or_has_no_identity(source: Source, obj: dict) -> None:
    with contextlib.suppress(objects.DecodeError):
        got = objects.decode_group(source, obj)
        assert got.min_member >= 1
        assert all(1 <= minimum <= 100_000 for _, minimum in got.tasks)
        assert len(dict(got.tasks)) == len(got.tasks)


@settings(deadline=None, max_examples=200)
@given(damage(RICH_BUDGET))
def test_a_damaged_budget_is_decoded_or_has_no_identity_and_never_allows_more(obj: dict) -> None:
    with contextlib.suppress(objects.DecodeError):
        got = objects.decode_budget(obj)
        assert 0 <= got.allowed < 2**31
        assert not (got.problems and got.allowed)


DECODERS: dict[str, Callable[[Any], object]] = {
    "pod": objects.decode_pod,
    "node": objects.decode_node,
    "topology": objects.decode_topology,
    "budget": objects.decode_budget,
    "queue": functools.partial(objects.decode_queue, Source.MUSTER),
    "queue of Volcano": functools.partial(objects.decode_queue, Source.VOLCANO),
    "namespace": objects.decode_namespace,
    "lease": objects.decode_lease,
    "open queues": objects.decode_open_queues,
}


@pytest.mark.parametrize("decode", DECODERS.values(), ids=DECODERS)
@settings(deadline=None)
@given(obj=anything | st.builds(lambda inner: {"metadata": {"name": "x", "uid": "u"}, "spec": inner}, anything))
def test_any_json_is_decoded_or_refused(decode: Callable[[Any], object], obj: Any) -> None:
    with contextlib.suppress(objects.DecodeError):
        decode(obj)


@pytest.mark.parametrize(
    "decode",
    [
        extender_v1.decode_node_args,
        extender_v1.decode_bind_args,
        extender_v1.decode_preempt_args,
        records.decode_holds,
        records.decode_release,
        records.decode_release_answer,
        records.decode_withdrawal,
        records.decode_withdrawn,
    ],
    ids=lambda decode: decode.__name__,
)
@settings(deadline=None)
@given(sent=st.binary(max_size=40) | anything.map(orjson.dumps))
def test_any_body_is_decoded_or_refused(decode: Callable[[bytes], object], sent: bytes) -> None:
    with contextlib.suppress(extender_v1.WireError):
        decode(sent)


MESSAGE = {
    "Pod": {},
    "NodeNames": ["a"],
    "Nodes": {"items": [{"metadata": {"name": "a"}}]},
    "NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "a"}], "NumPDBViolations": 0}},
}


@settings(deadline=None, max_examples=200)
@given(damage(MESSAGE))
def test_a_damaged_call_is_decoded_or_refused(message: dict) -> None:
    sent = orjson.dumps(message)
    for decode in (extender_v1.decode_node_args, extender_v1.decode_preempt_args):
        with contextlib.suppress(extender_v1.WireError):
            decode(sent)
