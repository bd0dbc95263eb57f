"""Trace files of each format, as jobs and hosts: what is taken, what is made up, and rows that make no sense."""

from __future__ import annotations

import gzip
import io
import pathlib
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender.sim import console
from extender.sim.fields import Fault
from extender.sim.traces import chance, formats, made
from extender.sim.traces.common import QUEUES, Ask, Job, Trace

OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)
DLRM = "instance_sn,role,app_name,cpu_request,gpu_request,memory_request,creation_time,scheduled_time,deletion_time\n"
OWN = "job,submitted,duration,pods,gpus,queue,priority,cpu,memory\n"
HOSTS = "host,gpus,cpu,memory,model\n"


@pytest.fixture
def load(tmp_path: pathlib.Path):
    def loaded(*texts: str, seed: int = 1, hosts: int | None = None) -> Trace:
        paths = []
        for number, text in enumerate(texts):
            path = tmp_path / f"{number}.csv"
            path.write_text(text, encoding="utf-8")
            paths.append(str(path))
        return formats.load(paths, seed, hosts)

    return loaded


def test_openb_gives_request_times_models_and_a_priority(load) -> None:
    trace = load(OPENB + "p-1,6000,12288,1,460,G2|T4,BE,Running,100,900,150\n" + "p-2,100,200,0,0,,LS,Pending,50,70,\n")
    # a pod without GPUs takes any model, so hosts without one will do for it only
    assert trace.jobs == (Job("p-2", 50.0, 20.0, 1, Ask(100, 200, 0), made.queue(1, "p-2"), 100),)
    assert [bad.what for bad in trace.bad] == ["p-1: of its 1 pods 0 fit on the empty hosts"]
    hosts = "sn,cpu_milli,memory_mib,gpu,model\nn-0,64000,262144,2,T4\nn-1,64000,262144,2,P100\n"
    trace = load(OPENB + "p-1,6000,12288,1,460,G2|T4,BE,Running,100,900,150\n", hosts)
    assert [(job.submitted, job.duration, job.ask, job.priority) for job in trace.jobs] == [
        (100.0, 750.0, Ask(6000, 12288, 1, ("G2", "T4")), 0)
    ]
    assert [(host.name, host.gpus, host.rack) for host in trace.hosts] == [
        ("n-0", 2, "rack-t4-000"),
        ("n-1", 2, "rack-p100-000"),
    ]


def test_pods_that_are_joined_are_all_there_and_alike(load) -> None:
    rows = "".join(
        f"p-{n},{1000 + n % 2},1024,{(n % 3 > 0) * 1},1000,,LS,Running,{n},{n + 100},{n}\n" for n in range(600)
    )
    trace = load(OPENB + rows, hosts=64)
    assert sum(job.pods for job in trace.jobs) == 600
    assert all(job.pods == 1 for job in trace.jobs if not job.ask.gpus)
    sizes = {job.pods for job in trace.jobs}
    assert len(sizes) > 3
    assert max(sizes) > 4
    assert {job.ask.cpu for job in trace.jobs} == {1000, 1001}
    other = load(OPENB + rows, seed=2, hosts=64)
    assert other.jobs != trace.jobs
    assert load(OPENB + rows, hosts=64) == trace


def test_variants_without_times_come_a_minute_apart(load) -> None:
    trace = load("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np-0,1,1,0,0\np-1,1,1,0,0\np-2,1,1,0,0\n")
    assert [job.submitted for job in trace.jobs] == [0.0, 60.0, 120.0]


def test_instances_of_a_service_that_come_together_are_a_gang(load) -> None:
    trace = load(
        DLRM
        + "i-1,HN,app_1,8,1,64.0,100.0,110.0,200.0\n"
        + "i-2,HN,app_1,8,1,64.0,100.0,120.0,500.0\n"
        + "i-3,CN,app_1,8,0,64.0,100.0,100.0,200.0\n"
        + "i-4,HN,app_1,8,1,64.0,101.0,,\n"
        + "i-5,HN,app_1,8,1,64.0,,,\n"
    )
    assert [(job.pods, job.ask, job.submitted, job.duration) for job in trace.jobs] == [
        (1, Ask(8000, 65536, 0), 100.0, 100.0),
        (2, Ask(8000, 65536, 1), 100.0, 380.0),
        (1, Ask(8000, 65536, 1), 101.0, 2_676_636.0 - 101),
    ]
    assert [(bad.line, bad.what) for bad in trace.bad] == [(6, "creation_time is missing")]
    assert len({job.queue for job in trace.jobs}) == 1


@pytest.mark.parametrize(
    ("text", "want"),
    {
        "Sia": ("name,time,application,num_replicas,batch_size\ncifar10-0,107,cifar10,6,2048\n", [(107.0, 6, 1)]),
        "Tiresias": (
            "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n1,8,30,133,vgg11,147,23\n",
            [(30.0, 8, 1)],
        ),
        "Philly arrivals": (
            'job_type,total_steps,arrival_s,num_gpus\n"A (batch 1)",5,364815,4\n',
            [(364815.0, 4, 1)],
        ),
        "own": (OWN + "a,5,60,2,4,,,,\n", [(5.0, 2, 4)]),
    }.values(),
    ids=["Sia", "Tiresias", "Philly arrivals", "own"],
)
def test_each_format_gives_submission_pods_and_gpus(load, text: str, want: list[tuple[float, int, int]]) -> None:
    assert [(job.submitted, job.pods, job.ask.gpus) for job in load(text).jobs] == want


def test_runtimes_alone_get_arrivals_that_are_a_minute_apart_on_average(load) -> None:
    trace = load("runtime\n" + "".join(f"{n}.0\n" for n in range(1, 401)))
    assert {job.duration for job in trace.jobs} == {float(n) for n in range(1, 401)}
    assert 55 < trace.span / len(trace.jobs) < 65
    assert 1.2 < sum(job.pods for job in trace.jobs) / 400 < 3


def test_a_shockwave_trace_and_its_csv_are_the_same_jobs(load) -> None:
    line = "LM (batch size 10)\tpython3 main.py\tlanguage\t--steps\t1\t134583\t2\tgns\t1\t-1.000000\t1418\t55\n"
    head = "job_id,model,batch_size,total_steps,num_gpus,mode,priority,slo,duration_s,arrival_s\n"
    assert load(line).jobs == load(head + "0,LM,10,134583,2,gns,1,-1,1418,55\n").jobs
    assert load(line).jobs[0].duration == 1418.0


BAD_CELLS = {
    "negative": ("a,-5,60,1,1,,,,", "submitted is '-5'"),
    "endless": ("a,inf,60,1,1,,,,", "submitted is 'inf'"),
    "no number": ("a,nan,60,1,1,,,,", "submitted is 'nan'"),
    "huge": ("a,5,1e300,1,1,,,,", "duration is '1e300'"),
    "words": ("a,5,60,many,1,,,,", "pods is 'many'"),
    "fractional": ("a,5,60,1,0.5,,,,", "gpus is '0.5', and not a whole number"),
    "no pods": ("a,5,60,0,1,,,,", "pods is '0'"),
    "too many pods": ("a,5,60,5000,1,,,,", "pods is '5000'"),
    "no name": (",5,60,1,1,,,,", "job is missing"),
    "short": ("a,5", "gpus is missing"),
    "twice": ("good,6,60,1,1,,,,", "a second good"),
    "larger than all hosts": ("a,5,60,4096,8,,,,", "a: of its 4096 pods"),
}


@pytest.mark.parametrize(("row", "want"), BAD_CELLS.values(), ids=BAD_CELLS)
def test_a_bad_row_is_named_and_the_others_are_taken(load, row: str, want: str) -> None:
    trace = load(OWN + "good,1,60,1,1,team,7,1000,1024\n" + row + "\nlast,2,60,1,1,,,,\n", hosts=8)
    assert [job.name for job in trace.jobs] == ["good", "last"]
    assert len(trace.bad) == 1
    assert want in trace.bad[0].what
    assert trace.jobs[0] == Job("good", 1.0, 60.0, 1, Ask(1000, 1024, 1), "team", 7)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", "it is empty"),
        ("one,two\n1,2\n", "no format has the columns one, two"),
        ("a\tb\n", "no format has the columns"),
        (OWN, "there is no job in it"),
        (HOSTS + "h,8,,,\n", "there is no job in it"),
        (OWN + "a,1,1,1,1000,,,,\n", "none of its jobs fits"),
        ('job,submitted,duration,pods,gpus\n"' + "x" * 200_000 + '",1,1,1,1\n', "field larger"),
    ],
    ids=["empty", "unknown columns", "unknown tabs", "no rows", "hosts only", "nothing fits", "a huge cell"],
)
def test_a_file_that_is_no_trace_is_refused_with_the_cause(load, text: str, want: str) -> None:
    with pytest.raises(Fault, match=want):
        load(text)


def test_a_broken_gzip_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "broken.csv.gz"
    path.write_bytes(gzip.compress(OWN.encode() * 100)[:40])
    with pytest.raises(Fault, match="name a readable file"):
        formats.load([str(path)], 1)


@settings(max_examples=60)
@given(st.text(alphabet=string.printable + "äß∞\x00", max_size=200))
def test_whatever_stands_in_a_row_ends_that_row_only(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("trace") / "own.csv"
    row = text.replace("\n", " ").replace("\r", " ").replace('"', "'").replace("\x0b", " ")
    path.write_text(OWN + row + "\nlast,2,60,1,1,,,,\n", encoding="utf-8")
    assert "last" in [job.name for job in formats.load([str(path)], 1).jobs]


def test_hosts_are_those_of_the_file_or_some_of_them(load) -> None:
    jobs = OWN + "a,1,1,1,1,,,,\n"
    hosts = HOSTS + "".join(f"h-{n},4,48000,65536,A\n" for n in range(40))
    trace = load(jobs, hosts)
    assert len(trace.hosts) == 40
    assert [host.rack for host in trace.hosts[::20]] == ["rack-a-000", "rack-a-001"]
    assert [host.name for host in load(jobs, hosts, hosts=4).hosts] == ["h-0", "h-10", "h-20", "h-30"]
    assert load(jobs, hosts=3).gpus == 24


def test_draws_are_spread_as_their_weights_and_quantiles_say() -> None:
    drawn = [chance.weighted(QUEUES, 1, "queue", n) for n in range(4000)]
    assert [round(drawn.count(name) / 40) for name, _ in QUEUES] == pytest.approx([50, 25, 15, 10], abs=3)
    runtimes = sorted(made.runtime(1, f"job-{n}") for n in range(4000))
    assert runtimes[2000] == pytest.approx(1186, rel=0.15)
    assert runtimes[3600] == pytest.approx(12860, rel=0.25)
    # the same on every machine, and for ever
    assert chance.unit(1, "a", 2) == 0.6482972712543954


SHIPPED = {
    "openb": ("alibaba-openb-2023/openb_pod_list_default.csv", 8152, 0),
    "DLRM": ("alibaba-dlrm-2025/disaggregated_DLRM_trace.csv.gz", 16_591, 7280),
    "Philly arrivals": ("gavel-philly/vc_11cb48_seed0_first85.csv", 109, 0),
    "Sia": ("sia/philly_workload-1.csv", 1612, 0),
    "Shockwave": ("shockwave/tacc_32gpus_120jobs.trace", 164, 0),
    "Tiresias": ("tiresias/60_job.csv", 170, 0),
}


@pytest.mark.parametrize(("name", "pods", "bad"), SHIPPED.values(), ids=SHIPPED)
def test_the_shared_traces_are_read_whole(shared: pathlib.Path, name: str, pods: int, bad: int) -> None:
    trace = formats.load([str(shared / "data" / "traces" / name)], 1, hosts=2000)
    assert (sum(job.pods for job in trace.jobs), len(trace.bad)) == (pods, bad)


def test_the_description_names_what_is_taken_made_up_and_bad(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text(OWN + "a,1,60,2,4,,,,\n" + "bad,x,1,1,1,,,,\n" * 30)
    out, errors = io.StringIO(), io.StringIO()
    assert console.main(["trace", "describe", str(path), "--seed", "3"], out, errors) == console.HELD
    told = out.getvalue()
    assert "own jobs, 31 rows" in told
    assert "seed of what is made up: 3" in told
    assert "made up, hosts: 8 of 8" in told
    assert f"  {path}:3: submitted is 'x'" in told
    assert "30 bad rows" in told
    assert "and 20 more" in told
    assert "1 jobs of 2 pods" in told
    assert console.main(["trace", "describe", str(tmp_path / "none.csv")], out, errors) == console.UNREADABLE
    assert "cannot read" in errors.getvalue()


def test_the_formats_are_listed_with_what_is_made_up(tmp_path: pathlib.Path) -> None:
    out = io.StringIO()
    assert console.main(["trace", "formats"], out) == console.HELD
    assert all(f"{format.name}: " in out.getvalue() for format in formats.FORMATS)
