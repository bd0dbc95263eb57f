"""How the model of kube-scheduler is judged: decisions that it agrees with, and others, worked out by hand."""

from __future__ import annotations

import io
import pathlib

import pytest

from extender.sim import console
from extender.sim.traces.common import Host, Job
from extender.sim.trial.agreement import Agreement, Decision, Judge, Kind
from extender.sim.trial.cluster import Broken
from extender.sim.trial.scoring import least_allocated, most_allocated
from tests.sim.trial.plays import host, hosts, job

PLACED, REFUSED, MADE_ROOM, LEFT = Kind
#: three hosts, of which the second is larger
THREE = [host("h0", cpu=10_000), host("h1", cpu=20_000), host("h2", cpu=10_000)]
JOBS = [job("a", 0, 10, cpu=4000), job("b", 0, 10, cpu=4000), job("wide", 0, 10, cpu=18_000, gpus=0)]
URGENT = [
    job("low", 0, 10, gpus=8, priority=1),
    job("mid", 0, 10, gpus=8, priority=5),
    job("high", 0, 10, gpus=8, priority=9),
    job("small", 0, 10, gpus=0, priority=1),
]

CASES = {
    "the best host": (THREE, JOBS, [(PLACED, "a", "h1")], []),
    "a host that is not": (
        *(THREE, JOBS, [(PLACED, "a", "h0")]),
        ["placed a h0: it scores 144 there, and higher on 1 of 3, up to 159"],
    ),
    "equals are all agreed with": (THREE[::2], JOBS, [(PLACED, "a", "h2"), (PLACED, "b", "h0")], []),
    "where it does not fit": (THREE, JOBS, [(PLACED, "wide", "h0")], ["placed wide h0: it does not fit there"]),
    "refused though it fits": (THREE, JOBS, [(REFUSED, "wide", "")], ["refused wide: it fits on 1"]),
    "refused as it does not": (THREE, JOBS, [(PLACED, "wide", "h1"), (REFUSED, "wide", "")], []),
    "placed when another has left": (
        *(THREE, JOBS),
        *([(PLACED, "wide", "h1"), (REFUSED, "wide", ""), (LEFT, "wide", "h1"), (PLACED, "wide", "h1")], []),
    ),
    "room where the least important are": (
        *(hosts(2), URGENT),
        [(PLACED, "low", "h0"), (PLACED, "mid", "h1"), (REFUSED, "high", ""), (MADE_ROOM, "high", "h0")],
        [],
    ),
    "room where more important ones are": (
        *(hosts(2), URGENT),
        [(PLACED, "low", "h0"), (PLACED, "mid", "h1"), (REFUSED, "high", ""), (MADE_ROOM, "high", "h1")],
        [f"made room high h1: victims cost (5, {5 + 2**31}, 1) there, and (1, {1 + 2**31}, 1) elsewhere"],
    ),
    "room where there are no victims": (
        *(hosts(2), URGENT, [(PLACED, "low", "h0"), (MADE_ROOM, "high", "h1")]),
        ["made room high h1: no victims there make room"],
    ),
    "room that is kept is another's, and scores know nothing of it": (
        *(hosts(2), URGENT),
        [
            *((PLACED, "low", "h0"), (PLACED, "mid", "h1"), (REFUSED, "high", ""), (MADE_ROOM, "high", "h0")),
            *((LEFT, "low", "h0"), (REFUSED, "low", ""), (PLACED, "small", "h0"), (PLACED, "high", "h0")),
            *((LEFT, "high", "h0"), (PLACED, "low", "h0")),  # and then it is kept no more
        ],
        [],
    ),
    "room that is kept does not make another host better": (
        *(hosts(2), URGENT),
        [
            *((PLACED, "low", "h0"), (PLACED, "mid", "h1"), (REFUSED, "high", ""), (MADE_ROOM, "high", "h0")),
            *((LEFT, "low", "h0"), (PLACED, "small", "h1")),
        ],
        ["placed small h1: it scores 171 there, and higher on 1 of 2, up to 172"],
    ),
}


def judged(there: list[Host], jobs: list[Job], steps, scores=least_allocated) -> Agreement:
    return Judge(jobs, there, scores).judge(Decision(*step) for step in steps)


@pytest.mark.parametrize(("there", "jobs", "steps", "apart"), CASES.values(), ids=CASES)
def test_a_decision_is_agreed_with_or_told_why_not(there, jobs, steps, apart) -> None:
    found = judged(there, jobs, steps)
    assert found.apart == apart
    assert sum(found.made.values()) == len(steps)


def test_how_strict_it_is_is_told_by_what_chance_would_do() -> None:
    found = judged(THREE, JOBS, [(PLACED, "a", "h1"), (PLACED, "b", "h1")])
    assert found.by_chance == pytest.approx(2 / 3)
    assert (found.share(PLACED), found.enough) == (1.0, True)
    assert not judged(THREE, JOBS, [(PLACED, "a", "h0")]).enough


def test_of_many_hosts_as_many_may_score_higher_as_were_left_out() -> None:
    many = [host(f"h{row:03}", cpu=10_000 + 1000 * row) for row in range(120)]
    # 100 of the 120 that fit are scored
    assert judged(many, JOBS, [(PLACED, "a", "h000")]).apart != []
    assert judged(many, [job("a", 0, 10, cpu=8000)], [(PLACED, "a", "h119")]).apart == []


def test_gpus_count_in_packing_only_for_pods_that_ask_for_them() -> None:
    there = [host("used", cpu=10_000), host("empty", cpu=10_000)]
    jobs = [job("gpus", 0, 10, cpu=0, gpus=8, memory=0), job("cpu", 0, 10, cpu=1000, gpus=0)]
    steps = [(PLACED, "gpus", "used"), (PLACED, "cpu", "empty")]
    assert judged(there, jobs, steps, most_allocated).apart == []


@pytest.mark.parametrize("step", [(PLACED, "nobody", "h0"), (PLACED, "a", "nowhere"), (LEFT, "a", "h0")])
def test_decisions_about_something_else_are_refused(step) -> None:
    with pytest.raises(Broken):
        judged(THREE, JOBS, [step])


def agree(folder: pathlib.Path, decisions: str, *words: str) -> tuple[int, str, str]:
    (folder / "jobs.csv").write_text(
        "job,submitted,duration,pods,gpus,cpu,memory\na,0,9999999,1,1,4000,1024\nb,1,9999999,1,1,4000,1024\n"
    )
    (folder / "hosts.csv").write_text("host,gpus,cpu,memory\nh0,8,10000,8192\nh1,8,20000,8192\n")
    (folder / "decisions.csv").write_text(decisions)
    out, errors = io.StringIO(), io.StringIO()
    paths = [str(folder / f"{name}.csv") for name in ("jobs", "hosts", "decisions")]
    status = console.main(["trace", "agree", *paths[:2], "--decisions", paths[2], *words], out, errors)
    return status, out.getvalue(), errors.getvalue()


HEAD = "what,job,host\n"


def test_the_command_says_how_far_they_agree(tmp_path: pathlib.Path) -> None:
    status, out, _ = agree(tmp_path, HEAD + "placed,a,h1\nplaced,b,h0\n")
    assert status == console.HELD
    assert "placed: the model agrees with 2 of 2, 100.0 %" in out
    assert "CPU allocated in the end: 26.67 % by the real one, 26.67 to 26.67 % by the model" in out


@pytest.mark.parametrize(
    ("decisions", "said"),
    [
        # it agrees with each, and yet half of all was never placed
        ("placed,a,h1\n", "GPUs allocated in the end: 6.25 % by the real one, 12.50 to 12.50 % by the model"),
        ("placed,a,h0\nplaced,b,h1\n", "placed: the model agrees with 1 of 2, 50.0 %"),
    ],
)
def test_it_falls_short_when_they_are_too_far_apart(tmp_path: pathlib.Path, decisions: str, said: str) -> None:
    status, out, _ = agree(tmp_path, HEAD + decisions)
    assert (status, said in out) == (console.FELL_SHORT, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n", "its columns are a, b; give what, job, host"),
        (HEAD + "thrown,a,h1\n", "line 2: 'thrown' is not a valid Kind"),
        (HEAD + "placed,a,\n", "line 2: host is missing"),
        (HEAD + "placed,c,h1\n", "'c' or 'h1' is not in the trace"),
    ],
)
def test_decisions_that_cannot_be_read_are_said(tmp_path: pathlib.Path, text: str, said: str) -> None:
    status, _, errors = agree(tmp_path, text)
    assert (status, said in errors) == (console.UNREADABLE, True), errors
