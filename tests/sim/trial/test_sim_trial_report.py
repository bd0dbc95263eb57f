"""`trace replay`: the table, the report and its bytes, progress, and what cannot be read or written."""

from __future__ import annotations

import io
import pathlib
import xml.etree.ElementTree as ET

import pytest

from extender.sim import console
from extender.sim.traces import formats
from extender.sim.trial import scaling, tables
from extender.sim.trial.measures import Figures, Waits
from extender.sim.trial.runs import Result

OWN = "job,submitted,duration,pods,gpus,queue\n"
JOBS = OWN + "".join(f"j<{n}>,{n * 20},{30 + n * 7 % 60},{1 + n % 3},{1 + n % 4},{'ab'[n % 2]}\n" for n in range(10))
NAMES = ["Muster", "pod by pod", "FIFO gang"]


@pytest.fixture
def trace(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "jobs.csv"
    path.write_text(JOBS)
    return str(path)


def replay(*words: str) -> tuple[int, str, str]:
    out, errors = io.StringIO(), io.StringIO()
    return console.main(["trace", "replay", *words], out, errors), out.getvalue(), errors.getvalue()


def test_the_same_command_gives_the_same_bytes_in_one_process_and_in_two(trace: str, tmp_path: pathlib.Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for number, folder in enumerate(folders, 1):
        told = (trace, "--hosts", "2", "--seeds", "2", "--at-once", str(number), "--out", str(folder))
        status, out, errors = replay(*told, "--policies", *NAMES)
        assert status == console.HELD
        assert "GPUs usefully allocated, %" in out
        assert "[6/6, 0 s left]" in errors
    found = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders]
    assert found[0] == found[1]
    assert sorted(found[0]) == ["figures.csv", "means.csv", "queues.csv", "report.html", "series.csv", "waits.csv"]


def test_the_page_needs_nothing_beside_it_and_says_how_it_came_about(trace: str, tmp_path: pathlib.Path) -> None:
    status, _, _ = replay(
        *(trace, "--hosts", "2", "--load", "0.5", "--longest", "60", "--seed", "7", "--out", str(tmp_path)),
        *("--policies", *NAMES),
    )
    assert status == console.HELD
    page = (tmp_path / "report.html").read_text()
    assert "--load 0.5 --longest 60.0 --seed 7 --seeds 1 --policies Muster &#x27;pod by pod&#x27;" in page
    assert "All of this is simulated" in page
    assert "cost model `ring-1`" in page
    assert "jobs that run longer than 60 s are cut there" in page
    assert not [
        word for word in ("src=", "href=", "http://", "https://") if word in page.replace("http://www.w3.org", "")
    ]
    for start in page.split("<svg ")[1:]:
        ET.fromstring("<svg " + start.split("</svg>")[0] + "</svg>")
    assert page.count("<svg ") == 7
    rows = (tmp_path / "waits.csv").read_text().splitlines()
    assert rows[0] == "policy,seed,of,class,jobs,never,p50 s,p95 s,max s"
    assert len(rows) == 1 + 3 * (1 + 5 + 2)


def result(policy: str, seed: int = 1, **figures) -> Result:
    some = Waits(1, 0, 0.0, 0.0, 0.0)
    found = Figures(by_size=dict.fromkeys(("0", "1", "2-7", "8-63", "64+"), some), gangs=some, **figures)
    return Result(policy, seed, (), 8, found)


def test_what_ours_is_not_the_best_in_is_told_with_the_distance_and_what_for() -> None:
    results = [
        result("Muster", 1, useful=0.5, evictions=3),
        result("pod by pod", 1, useful=0.6, evictions=3),
        result("Muster", 2, useful=0.6, evictions=1),
        result("pod by pod", 2, useful=0.5, evictions=0),
    ]
    assert list(tables.behind(results)) == []  # 1.5 evictions are told as 2
    results[3].figures.useful = 0.7
    (line,) = tables.behind(results)
    assert line.startswith(
        "GPUs usefully allocated, %: Muster 55.0, pod by pod 65.0; 10.0 apart. Muster gives it up for"
    )
    assert line.endswith("--ablations shows which part costs it.")


def test_ablations_are_not_among_those_compared_and_show_which_part_costs_a_figure() -> None:
    results = [
        result("Muster", evictions=9, useful=0.5),
        result("pod by pod", evictions=2, useful=0.6),
        result("without topology", evictions=8, useful=0.4),
        result("without preemption", evictions=0, useful=0.5),
    ]
    useful, evictions = tables.behind(results)
    assert evictions.startswith("evictions: Muster 9, pod by pod 2; 7 apart.")
    assert evictions.endswith("It is 0 without preemption.")
    assert useful.endswith("No part of ours that can be off costs it.")


def test_what_no_job_asks_for_is_none_and_not_the_best() -> None:
    results = [result("Muster"), result("pod by pod")]
    for one in results:
        one.figures.by_size["64+"] = Waits(0, 0, 0.0, 0.0, 0.0)
    (row,) = [row for row in tables.means(results) if row[0] == "wait of 64 GPUs and more, p95 s"]
    assert row[1:] == ["none", "none"]
    assert list(tables.behind(results)) == []
    place = 2 + [figure.name for figure in tables.FIGURES].index(row[0])
    assert [row[place] for row in tables.figures(results)[1:]] == ["", ""]


def test_queues_are_told_with_their_fair_shares() -> None:
    results = [result("Muster", had={"a": 3.0, "b": 1.0}, fair={"a": 2.0, "b": 2.0})]
    results.append(result("Muster", 2, had={"a": 1.0, "b": 2.0}, fair={"a": 2.0, "b": 3.0}))
    assert tables.shares(results) == [["queue", "fair share", "Muster"], ["a", "2.0", "2.0"], ["b", "2.5", "1.5"]]


def test_charts_are_photographed_where_there_is_a_browser_and_else_it_is_said(
    trace: str, tmp_path, monkeypatch
) -> None:
    told = (trace, "--hosts", "2", "--policies", *NAMES, "--at-once", "1", "--png", "--out")
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CHROMIUM", raising=False)
    status, _, errors = replay(*told, str(tmp_path / "none"))
    assert (status, "no PNGs: there is no chromium" in errors) == (console.HELD, True)
    monkeypatch.setenv("CHROMIUM", "/bin/false")
    status, _, errors = replay(*told, str(tmp_path / "fails"))
    assert (status, "no PNGs: /bin/false failed" in errors) == (console.HELD, True)
    browser = tmp_path / "browser"
    browser.write_text('#!/bin/sh\nfor word; do case $word in --screenshot=*) : > "${word#*=}";; esac; done\n')
    browser.chmod(0o755)
    monkeypatch.setenv("CHROMIUM", str(browser))
    status, _, errors = replay(*told, str(tmp_path / "some"))
    assert (status, "PNG" in errors) == (console.HELD, False)
    assert sorted(path.stem for path in (tmp_path / "some").glob("*.png")) == [
        "fairness-between-queues-jain",
        "gpus-usefully-allocated",
        "of-no-use-over-time",
        "throughput-lost-to-placement-ring-1",
        "useful-over-time",
        "wait-of-64-gpus-and-more-p95-s",
        "wait-of-gangs-p95-s",
    ]


def test_the_load_is_reached_by_stretching_the_times_between_submissions(trace: str) -> None:
    read = formats.load([trace], 1, 2)
    jobs, said = scaling.prepared(read, scaling.Wishes(load=0.5))
    assert jobs[0].submitted == 0.0
    assert sum(job.work for job in jobs) == pytest.approx(0.5 * 16 * jobs[-1].submitted)
    assert [job.duration for job in jobs] == [job.duration for job in read.jobs]
    assert "50.0 % of all GPUs" in said[-1]
    jobs, said = scaling.prepared(read, scaling.Wishes(longest=40.0))
    assert max(job.duration for job in jobs) == 40.0
    assert said[0].startswith(f"{sum(job.duration > 40 for job in read.jobs)} jobs")
    assert [job.submitted for job in jobs] == [job.submitted for job in read.jobs]


def test_what_cannot_be_read_or_written_is_said(trace: str, tmp_path: pathlib.Path) -> None:
    status, _, errors = replay(str(tmp_path / "none.csv"))
    assert (status, "cannot read" in errors) == (console.UNREADABLE, True)
    status, _, errors = replay(trace, "--policies", "FIFO gang", "--hosts", "2", "--at-once", "1", "--out", trace)
    assert (status, "name a folder that can be written to" in errors) == (console.UNREADABLE, True)


@pytest.mark.parametrize("words", [("--load", "0"), ("--load", "nan"), ("--seeds", "0"), ("--policies", "mine")])
def test_arguments_that_make_no_sense_are_refused(trace: str, words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit):
        replay(trace, *words)


def test_one_job_and_hosts_without_gpus_are_no_fault(tmp_path: pathlib.Path) -> None:
    jobs, hosts = tmp_path / "one.csv", tmp_path / "hosts.csv"
    jobs.write_text(OWN + "only,5,60,2,0,a\n")
    hosts.write_text("host,gpus\nh,0\ng,0\n")
    status, _, errors = replay(str(jobs), str(hosts), "--load", "1", "--at-once", "1", "--out", str(tmp_path / "out"))
    assert status == console.HELD, errors
    assert (tmp_path / "out" / "report.html").exists()
