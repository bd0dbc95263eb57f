"""What is written of an eviction: a bounded record, and for each source a place that nothing else overwrites."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.core import explain
from extender.core.ids import GroupKey, Source
from extender.core.messages import NoteEviction, StateGroup
from extender.core.reasons import Ground, Reason, Refusal
from extender.wire import evictions, status
from extender.wire.fields import seconds_of
from extender.wire.objects import decode_group

AT = "2026-11-30T10:00:00Z"
DETAIL = (("for", "team/big"), ("queue", "research"), ("cost", 3600))
RECORD = '{"rule":"Reclaimed","at":"2026-11-30T10:00:00Z","for":"team/big","queue":"research","cost":3600}'
WHY = "its queue had borrowed what another queue deserves, and that one takes it back"
SENTENCE = f"{WHY} (for team/big, queue research, cost 3600)"


def test_a_record_is_compact_json() -> None:
    assert evictions.record(Ground.RECLAIMED, DETAIL, AT) == RECORD


details = st.lists(st.tuples(st.text('abcdé"\\\n', max_size=20), st.text() | st.integers(-(2**63), 2**63 - 1)))


@given(st.sampled_from(Ground), details, st.integers(0, 3000))
def test_a_record_is_bounded_whatever_it_holds(ground: Ground, facts: list[Any], length: int) -> None:
    text = evictions.record(ground, (*facts, ("for", "ü" * length)), AT)
    assert len(text) < 10_000
    got = orjson.loads(text)
    assert len(got) <= 18
    assert all(isinstance(value, int) or len(value) <= 320 for value in got.values())


PATCHES: dict[Source, status.Patches] = {
    Source.MUSTER: status.Patches(
        {"status": {"lastEviction": {"rule": "Reclaimed", "message": SENTENCE, "at": AT}}}, None
    ),
    Source.NATIVE: status.Patches(
        {
            "status": {
                "conditions": [
                    {
                        "type": "muster.dev/Evicted",
                        "status": "True",
                        "reason": "Reclaimed",
                        "message": SENTENCE,
                        "lastTransitionTime": AT,
                    }
                ]
            }
        },
        None,
        strategic=True,
    ),
    Source.SCHEDULER_PLUGINS: status.Patches(None, {"muster.dev/last-eviction": RECORD}),
    Source.VOLCANO: status.Patches(None, {"muster.dev/last-eviction": RECORD}),
}


def note(source: Source) -> NoteEviction:
    return NoteEviction(GroupKey(source, "team", "g"), "g-1", Ground.RECLAIMED, seconds_of(AT), DETAIL)


@pytest.mark.parametrize(("source", "want"), PATCHES.items(), ids=str)
def test_where_a_group_s_record_goes(source: Source, want: status.Patches) -> None:
    assert evictions.patches(note(source)) == want


@pytest.mark.parametrize("source", PATCHES, ids=str)
def test_no_statement_overwrites_a_record(source: Source) -> None:
    statement = StateGroup(
        GroupKey(source, "team", "g"), "g-1", "Pending", Refusal(Reason.QUEUED), 1, False, counts=(2, 0, 0, 0)
    )
    later, record = status.patches(statement, AT), evictions.patches(note(source))
    assert set(later.annotations or ()).isdisjoint(record.annotations or ())
    if record.strategic:  # conditions merge by their type
        kinds = [{one["type"] for one in patch.status["status"]["conditions"]} for patch in (later, record)]  # type: ignore[index]
        assert kinds[0].isdisjoint(kinds[1])
    elif record.status is not None:
        assert set((later.status or {})["status"]).isdisjoint(record.status["status"])


@pytest.mark.parametrize("source", PATCHES, ids=str)
def test_a_record_makes_no_group_wrong_and_is_no_reason_to_wait(source: Source) -> None:
    patches = evictions.patches(note(source))
    spec = {"minMember": 2, "schedulingPolicy": {"gang": {"minCount": 2}}}
    meta = {"name": "g", "namespace": "team", "uid": "g-1", "annotations": patches.annotations or {}}
    got = decode_group(source, {"metadata": meta, "spec": spec} | (patches.status or {}))
    assert (got.stated_reason, got.problems) == ("", ())


@pytest.mark.parametrize("ground", Ground)
def test_every_ground_has_words_that_fit_an_event(ground: Ground) -> None:
    assert 0 < len(explain.why_evicted(ground, ())) < 200


def test_a_huge_detail_fits_the_definition_of_our_group() -> None:
    huge = NoteEviction(GroupKey(Source.MUSTER, "team", "g"), "g-1", Ground.STALE, 0.0, (("for", "x" * 9000),))
    written = evictions.patches(huge).status
    assert written is not None
    assert len(written["status"]["lastEviction"]["message"]) == 4096
