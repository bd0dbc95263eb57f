"""The loopback messages go round unchanged, and malformed ones are refused."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.core.ids import GroupKey, Source
from extender.core.model import Hold
from extender.wire import records
from extender.wire.extender_v1 import WireError

names = st.text(min_size=1, max_size=12)
numbers = st.integers(0, 2**63 - 1)
keys = st.builds(GroupKey, st.sampled_from(list(Source)), names, names)
holds = st.builds(Hold, names, names, keys, numbers, st.booleans())
members = st.builds(records.Member, names, names, names, names)
notes = st.dictionaries(names, st.text(max_size=12)).map(lambda made: tuple(sorted(made.items())))
verdicts = st.builds(records.Grant, notes) | st.builds(records.Veto, names)


def uid_of(one: Any) -> str:
    return str(one.uid)


@settings(deadline=None)
@given(st.builds(records.HoldsAnswer, st.lists(holds, unique_by=uid_of).map(tuple), numbers))
def test_holds_go_round(answer: records.HoldsAnswer) -> None:
    assert records.decode_holds(records.encode_holds(answer)) == answer


@settings(deadline=None)
@given(st.builds(records.ReleaseRequest, keys, st.lists(members, unique_by=uid_of).map(tuple)))
def test_a_release_goes_round(request: records.ReleaseRequest) -> None:
    assert records.decode_release(records.encode_release(request)) == request


@settings(deadline=None)
@given(st.dictionaries(names, verdicts))
def test_an_answer_to_a_release_goes_round(answer: dict) -> None:
    assert records.decode_release_answer(records.encode_release_answer(answer)) == answer


@settings(deadline=None)
@given(st.builds(records.Withdrawal, st.lists(names, unique=True).map(tuple), names), numbers)
def test_a_withdrawal_goes_round(request: records.Withdrawal, answered: int) -> None:
    assert records.decode_withdrawal(records.encode_withdrawal(request)) == request
    assert records.decode_withdrawn(records.encode_withdrawn(answered)) == answered


GROUP = {"source": "muster", "namespace": "team", "name": "g"}
HOLD = {"uid": "u", "node": "n", "group": GROUP, "round": 1, "releasing": False}
MEMBER = {"uid": "u", "namespace": "team", "name": "p", "node": "n"}


def test_the_plain_messages_are_sound() -> None:
    """So that each refusal below is for the field that was changed."""
    answer = records.decode_holds(orjson.dumps({"holds": [HOLD], "sequence": 3}))
    assert answer == records.HoldsAnswer((Hold("u", "n", GroupKey(Source.MUSTER, "team", "g"), 1, False),), 3)
    request = records.decode_release(orjson.dumps({"group": GROUP, "members": [MEMBER]}))
    assert request.members == (records.Member("u", "team", "p", "n"),)


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"holds": [], "sequence": -1},
        {"holds": [], "sequence": True},
        {"holds": [], "sequence": 1.0},
        {"holds": None, "sequence": 1},
        {"holds": [3], "sequence": 1},
        {"holds": [HOLD, HOLD], "sequence": 1},
        *({"holds": [HOLD | {field: None}], "sequence": 1} for field in HOLD),
        *({"holds": [HOLD | {"group": GROUP | {field: 3}}], "sequence": 1} for field in GROUP),
        {"holds": [HOLD | {"group": GROUP | {"source": "slurm"}}], "sequence": 1},
        {"holds": [HOLD | {"releasing": 1}], "sequence": 1},
    ],
)
def test_malformed_holds_are_refused(message: dict) -> None:
    with pytest.raises(WireError):
        records.decode_holds(orjson.dumps(message))


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"group": GROUP},
        {"members": [MEMBER]},
        {"group": GROUP, "members": [MEMBER, MEMBER]},
        *({"group": GROUP, "members": [MEMBER | {field: ""}]} for field in MEMBER),
    ],
)
def test_malformed_releases_are_refused(message: dict) -> None:
    with pytest.raises(WireError):
        records.decode_release(orjson.dumps(message))


@pytest.mark.parametrize(
    "verdict",
    [
        None,
        {},
        {"veto": ""},
        {"veto": None},
        {"veto": "x", "annotations": {}},
        {"annotations": None},
        {"annotations": {"a": 1}},
        {"annotations": []},
    ],
)
def test_a_verdict_that_is_neither_veto_nor_grant_is_refused(verdict: Any) -> None:
    with pytest.raises(WireError):
        records.decode_release_answer(orjson.dumps({"members": {"u": verdict}}))


@pytest.mark.parametrize("message", [{}, {"uids": "u", "reason": "x"}, {"uids": [3], "reason": "x"}, {"uids": ["u"]}])
def test_malformed_withdrawals_are_refused(message: dict) -> None:
    with pytest.raises(WireError):
        records.decode_withdrawal(orjson.dumps(message))
