"""What is read of evictions: our record and Kubernetes' condition on a pod, and the newest eviction on a group."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.core.ids import GroupKey, Source
from extender.core.messages import NoteEviction
from extender.core.reasons import NOT_OURS, Evicted, Ground
from extender.wire import departed, evictions
from extender.wire.fields import seconds_of
from extender.wire.objects import decode_group, decode_pod

AT = "2026-11-30T10:00:00Z"
THEN = seconds_of(AT) or 0.0
RECORD = evictions.record(Ground.RECLAIMED, (("for", "big"), ("lost-seconds", 7)), AT)
OURS = Evicted(Ground.RECLAIMED, THEN, (("for", "big"), ("lost-seconds", 7)))


def condition(reason: Any, status: str = "True", **fields: Any) -> dict[str, Any]:
    return {"type": "DisruptionTarget", "status": status, "reason": reason, "lastTransitionTime": AT} | fields


def pod(record: Any, *conditions: Any) -> Any:
    notes = {} if record is None else {"muster.dev/evicted": record}
    meta = {"name": "p", "uid": "u", "annotations": notes}
    return decode_pod({"metadata": meta, "spec": {"nodeName": "n"}, "status": {"conditions": list(conditions)}})


API = "EvictionByEvictionAPI"
CASES: dict[str, tuple[Any, list[Any], Evicted | None]] = {
    "nothing": (None, [], None),
    "ours, and the API server has not marked it yet": (RECORD, [], OURS),
    "ours": (RECORD, [condition(API)], OURS),
    "somebody called the same API": (None, [condition(API)], Evicted(Ground.API, THEN)),
    "a record of ours that did not come true": (RECORD, [condition("DeletionByTaintManager")],
        Evicted(Ground.TAINT, THEN)),
    "what they say is kept": (None, [condition("PreemptionByScheduler", message="default-scheduler: preempting")],
        Evicted(Ground.SCHEDULER, THEN, (("said", "default-scheduler: preempting"),))),
    "the node's kubelet": (None, [condition("TerminationByKubelet")], Evicted(Ground.KUBELET, THEN)),
    "its node is gone": (None, [condition("DeletionByPodGC")], Evicted(Ground.NODE_GONE, THEN)),
    "a reason of tomorrow": (None, [condition("Novel")], Evicted(Ground.OTHERS, THEN, (("reason", "Novel"),))),
    "nobody else has our rules": (None, [condition("Preempted")],
        Evicted(Ground.OTHERS, THEN, (("reason", "Preempted"),))),
    "no more": (None, [condition(API, "False")], None),
    "no time": (None, [condition(API, lastTransitionTime=5)], Evicted(Ground.API, 0.0)),
    "beside other conditions": (None, [{"type": "Ready"}, condition(API), {"type": "PodScheduled"}],
        Evicted(Ground.API, THEN)),
    "no record": ("{", [], None),
    "a record of others' rules": ('{"rule":"EvictionByEvictionAPI"}', [], None),
    "a record of no rule": ('{"rule":["Reclaimed"]}', [condition(API)], Evicted(Ground.API, THEN)),
    "too long to be one": (orjson.dumps({"rule": "Reclaimed", "x": "y" * 20_000}).decode(), [], None),
    "too much in it": (orjson.dumps({"rule": "Reclaimed", **{str(n): n for n in range(99)}}).decode(), [],
        Evicted(Ground.RECLAIMED, 0.0, tuple((str(n), n) for n in range(16)))),
}  # fmt: skip


@pytest.mark.parametrize(("record", "conditions", "want"), CASES.values(), ids=CASES)
def test_by_which_rule_a_pod_goes(record: Any, conditions: list[Any], want: Evicted | None) -> None:
    found = pod(record, *conditions)
    assert found.evicted == want
    assert found.problems == ()


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("rule", "at", "x")), inner),
)


@given(_json, _json)
def test_whatever_stands_there_is_no_fault_of_the_pod(record: Any, reason: Any) -> None:
    text = record if isinstance(record, str) else orjson.dumps(record, default=str).decode() if _small(record) else ""
    found = pod(text, condition(reason, message=record)).evicted
    assert found is None or isinstance(found.ground, Ground)
    assert pod(None, condition(reason)).evicted is None or pod(None, condition(reason)).evicted.ground in NOT_OURS


def _small(told: Any) -> bool:
    """orjson writes 64 bits at most."""
    try:
        orjson.dumps(told)
    except orjson.JSONEncodeError:
        return False
    return True


@pytest.mark.parametrize("source", [Source.MUSTER, Source.NATIVE, Source.SCHEDULER_PLUGINS, Source.VOLCANO])
@pytest.mark.parametrize("ground", Ground)
def test_what_is_written_onto_a_group_is_read_back(source: Source, ground: Ground) -> None:
    patch = evictions.patches(NoteEviction(GroupKey(source, "team", "g"), "u", ground, THEN, (("evicted", 3),)))
    content: dict[str, Any] = {"metadata": {"name": "g", "uid": "u", "annotations": patch.annotations}}
    content |= {"spec": {"minMember": 2, "schedulingPolicy": {"basic": {}}}} | (patch.status or {})
    rule, at, message = departed.last_of(source, content) or ("", "", "")
    assert (rule, at) == (ground.value, AT)
    assert message.endswith("(evicted 3)")
    assert decode_group(source, content).evicted_at == THEN


@given(st.sampled_from([Source.MUSTER, Source.NATIVE, Source.SCHEDULER_PLUGINS, Source.VOLCANO]), _json)
def test_a_group_s_record_may_be_anything(source: Source, told: Any) -> None:
    status = {"lastEviction": told, "conditions": [{"type": "muster.dev/Evicted", "lastTransitionTime": told}, told]}
    notes = {"muster.dev/last-eviction": told}
    content = {"metadata": {"name": "g", "uid": "u", "annotations": notes}, "status": status}
    assert departed.evicted_at(source, content) >= 0.0
