"""Runs in pairs, and the time left."""

import pytest

from e2e.bench import progress, ratios


@pytest.mark.parametrize(
    ("over", "under", "wanted"),
    [
        pytest.param([2, 3, 8], [2, 2, 2], (1.5, 1, 4), id="median, lowest and highest of the pairs"),
        pytest.param([10, 1], [1, 10], (5.05, 0.1, 10), id="runs pair by number, not by size"),
        pytest.param([2, 4], [1, 2, 3], (2, 2, 2), id="a round that lacks a side is left out"),
        pytest.param([2, 4], [0, 2], (2, 2, 2), id="nothing is divided by nothing"),
    ],
)
def test_ratios_are_those_of_paired_runs(over, under, wanted):
    assert ratios.paired(over, under) == ratios.Ratio(*(pytest.approx(number) for number in wanted))


@pytest.mark.parametrize(("over", "under"), [([], []), ([1], []), ([1], [0])])
def test_without_a_pair_there_is_no_ratio(over, under):
    assert ratios.paired(over, under) is None


def test_a_ratio_comes_back_from_the_file():
    ratio = ratios.Ratio(1.0, 0.5, 2.0)
    assert ratios.Ratio(**ratio.as_json()) == ratio
    assert str(ratio) == " 1.00 [0.50 .. 2.00]"


def test_every_kind_runs_once_a_round_and_every_other_round_goes_backwards():
    assert ratios.in_turn(["a", "b"], 3) == ["a", "b", "b", "a", "a", "b"]
    assert ratios.in_turn(["a", "b"], 0) == []


@pytest.mark.parametrize(
    ("left", "spent", "wanted"),
    [
        pytest.param({"a": 2}, {"a": [10, 20]}, 30, id="a step lasts as long as the mean of its equals"),
        pytest.param({"a": 1, "b": 2}, {"a": [10, 20]}, 45, id="one not seen yet as long as the mean of all"),
        pytest.param({"a": 0}, {"a": [10]}, 0, id="at the end nothing is left"),
    ],
)
def test_the_time_left_is_told_by_kind_of_step(left, spent, wanted):
    assert progress.seconds_left(left, spent) == wanted


def test_progress_says_how_many_steps_are_done(capsys):
    done = progress.Progress(["a", "b", "a"])
    done.done("a", "first")
    done.done("b", "second")
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(",")[0] for line in lines] == ["[1/3", "[2/3"]
    assert [line.partition("] ")[2] for line in lines] == ["first", "second"]
