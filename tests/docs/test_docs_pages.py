"""The pages under docs/ say what is so: generated ones are what their sources give, and leave nothing out."""

from __future__ import annotations

import pytest

from docs import generate, troubles
from extender.core import explain
from extender.core.ids import Source
from extender.core.messages import StateGroup
from extender.core.reasons import KIND_OF, Ground, Overcommit, Reason, Refusal
from extender.wire import answers, status
from tests import builders

DOCS = generate.ROOT / "docs"


@pytest.mark.parametrize("name", generate.PAGES)
def test_a_generated_page_is_what_its_generator_gives(name: str) -> None:
    assert (generate.ROOT / name).read_text() == generate.PAGES[name](), "run `make docs`"


def rows(page: str) -> list[list[str]]:
    """The cells of all rows of its tables."""
    lines = [line for line in page.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_every_reason_rule_and_outlook_has_exactly_one_row_without_an_empty_cell() -> None:
    found = rows((DOCS / "troubleshooting.md").read_text())
    words = [cells[0].strip("` ") for cells in found]
    assert sorted(words) == sorted([*Reason, *Ground, *Overcommit])
    assert all(all(cells) for cells in found)
    assert {len(cells) for cells in found if cells[0].strip("` ") in set(Reason)} == {4}


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_has_the_same_words_in_status_condition_annotation_live_answer_and_page(reason: Reason) -> None:
    refusal = Refusal(reason, (("asked", 8), ("free", 3)))
    words = answers.why(refusal)["message"]
    (row,) = [cells for cells in rows(troubles.page()) if cells[0] == f"`{reason}`"]
    assert words == f"{row[1]} (asked 8, free 3)"
    for source in (Source.MUSTER, Source.NATIVE, Source.VOLCANO, Source.SCHEDULER_PLUGINS):
        key = builders.group_key("train", source)
        said = status.patches(
            StateGroup(key, "uid", "Pending", refusal, 1, False, (8, 0, 0, 0)), "2026-01-01T00:00:00Z"
        )
        assert words in str(said)
        assert str(reason) in str(said)
    assert row[3] == explain.mend(reason, ())
    assert answers.why(refusal)["reasonKind"] == KIND_OF[reason]
