"""What we write of a group is read back as the reason that was written."""

from __future__ import annotations

from typing import Any

import pytest
from wire_objects import group

from extender.core.ids import GroupKey, Source
from extender.core.messages import StateGroup
from extender.core.model import Span
from extender.core.reasons import Reason, Refusal
from extender.wire import status
from extender.wire.objects import decode_group


def written(source: Source, reason: Reason | None) -> dict[str, Any]:
    """A group object after our patches for a statement."""
    refusal = Refusal(reason) if reason is not None else None
    phase = "Running" if reason is None else "Pending"
    said = StateGroup(
        GroupKey(source, "team", "g"), "g-1", phase, refusal, 1, initially_scheduled=reason is None, counts=(2, 2, 0, 0)
    )
    patches = status.patches(said, "2026-01-01T00:00:00Z")
    spec = {"minMember": 2, "schedulingPolicy": {"gang": {"minCount": 2}}}
    return group(meta={"annotations": patches.annotations or {}}, spec=spec, status=(patches.status or {})["status"])


@pytest.mark.parametrize(
    "source", [source for source in Source if source not in (Source.KUEUE, Source.OWNER, Source.POD)]
)
@pytest.mark.parametrize("reason", list(Reason))
def test_the_reason_of_a_waiting_group_comes_back(source: Source, reason: Reason) -> None:
    got = decode_group(source, written(source, reason))
    assert (got.stated_reason, got.initially_scheduled, got.problems) == (reason.value, False, ())


@pytest.mark.parametrize("source", [Source.NATIVE, Source.MUSTER])
def test_a_group_that_was_scheduled_states_no_reason_and_says_so(source: Source) -> None:
    got = decode_group(source, written(source, None))
    assert (got.stated_reason, got.initially_scheduled, got.problems) == ("", True, ())


def test_what_a_group_of_ours_has_of_the_network_stands_in_its_status() -> None:
    span = Span("block", "rack", (("block", 1), ("rack", 2)), "block", ("b0",))
    key = GroupKey(Source.MUSTER, "team", "g")
    said = StateGroup(key, "g-1", "Running", None, 1, True, (2, 2, 0, 0), span=span)
    body = status.patches(said, "2026-01-01T00:00:00Z").status
    assert body is not None
    assert body["status"]["topology"] == {
        "required": "block",
        "preferred": "rack",
        "level": "block",
        "domain": "b0",
        "levels": [{"level": "block", "domains": 1}, {"level": "rack", "domains": 2}],
    }
    assert written(Source.MUSTER, None)["status"]["topology"] is None
