"""`trace replay`: the table, the report and its bytes, progress, and what cannot be read or written."""

from __future__ import annotations

import io
import pathlib
import xml.etree.ElementTree as ET

import pytest

from extender.sim import console
from extender.sim.traces import formats
from extender.sim.trial import scaling, tables
from extender.sim.trial.measures import Figures
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


def test_what_ours_is_not_the_best_in_is_told_with_the_distance() -> None:
    results = [
        Result("Muster", 1, (), 8, Figures(useful=0.5, evictions=3)),
        Result("pod by pod", 1, (), 8, Figures(useful=0.6, evictions=3)),
        Result("Muster", 2, (), 8, Figures(useful=0.6, evictions=1)),
        Result("pod by pod", 2, (), 8, Figures(useful=0.5, evictions=0)),
    ]
    for result in results:
        result.figures.by_size = dict.fromkeys(("0", "1", "2-7", "8-63", "64+"), result.figures.gangs)
    assert list(tables.behind(results)) == []  # 1.5 evictions are told as 2
    results[3].figures.useful = 0.7
    assert "GPUs usefully allocated, %: Muster 55.0, pod by pod 65.0; 10.0 apart" in list(tables.behind(results))


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
