"""CronJobs: when runs are due, also where clocks change, and what follows at each look."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import zoneinfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.jobs.rules import cron, cron_reading
from extender.jobs.rules.cron import Child, Concurrency, CronJob, CronStatus
from extender.jobs.rules.model import Phase

PARIS, NEW_YORK, LORD_HOWE = "Europe/Paris", "America/New_York", "Australia/Lord_Howe"


def at(text: str, zone: str = "") -> float:
    moment = datetime.datetime.fromisoformat(text)
    return moment.replace(tzinfo=zoneinfo.ZoneInfo(zone) if zone else datetime.UTC).timestamp()


# --- schedules ---------------------------------------------------------------------------------------

#: schedule, zone, after, the next runs in UTC
RUNS = {
    "every five minutes": ("*/5 * * * *", "", "2026-01-01 00:03", ["01-01 00:05", "01-01 00:10"]),
    "a minute itself is not after itself": ("0 * * * *", "", "2026-01-01 01:00", ["01-01 02:00"]),
    "a range with a step": ("10-30/10 3 * * *", "", "2026-01-01 03:10", ["01-01 03:20", "01-01 03:30", "01-02 03:10"]),
    "a number with a step goes on to the end": ("50/5 * * * *", "", "2026-01-01 00:50", ["01-01 00:55", "01-01 01:50"]),
    "lists": ("0 1,3 * * *", "", "2026-01-01 00:00", ["01-01 01:00", "01-01 03:00", "01-02 01:00"]),
    "names of months and days": ("0 0 * feb mon", "", "2026-01-01 00:00", ["02-02 00:00", "02-09 00:00"]),
    "a range of names": ("0 0 * * fri-sat", "", "2026-01-01 00:00", ["01-02 00:00", "01-03 00:00", "01-09 00:00"]),
    "Sunday is 0 and 7": ("0 0 * * 7", "", "2026-01-01 00:00", ["01-04 00:00"]),
    "a day of the month or of the week": ("0 0 13 * fri", "", "2026-01-10 00:00", ["01-13 00:00", "01-16 00:00"]),
    "a question mark is a star": ("0 0 1 * ?", "", "2026-01-01 00:00", ["02-01 00:00"]),
    "the 31st leaves short months out": ("0 0 31 * *", "", "2026-01-31 00:00", ["03-31 00:00", "05-31 00:00"]),
    "the 29th of February waits for its year": ("0 0 29 2 *", "", "2026-01-01 00:00", ["02-29 00:00"]),
    "@hourly": ("@hourly", "", "2026-01-01 00:59", ["01-01 01:00"]),
    "@DAILY": ("@DAILY", "", "2026-01-01 00:59", ["01-02 00:00"]),
    "@weekly": ("@weekly", "", "2026-01-01 00:00", ["01-04 00:00"]),
    "@yearly": ("@yearly", "", "2026-01-01 00:01", ["01-01 00:00"]),
    "a zone": ("0 9 * * *", PARIS, "2026-07-01 00:00", ["07-01 07:00", "07-02 07:00"]),
    "an hour that is skipped puts the run off, and does not leave it out": (
        "30 2 * * *", PARIS, "2026-03-28 02:00", ["03-29 01:00", "03-30 00:30"]),
    "an hour that comes twice has one run": ("30 2 * * *", PARIS, "2026-10-24 22:00", ["10-25 00:30", "10-26 01:30"]),
    "what runs all the time runs through the skipped hour": (
        "*/30 * * * *", PARIS, "2026-03-29 00:30", ["03-29 01:00", "03-29 01:30"]),
    "and twice through the hour that comes twice": (
        "0 * * * *", PARIS, "2026-10-24 23:30", ["10-25 00:00", "10-25 01:00", "10-25 02:00"]),
    "New York, spring": ("0 2 * * *", NEW_YORK, "2026-03-08 00:00", ["03-08 07:00", "03-09 06:00"]),
    "clocks that change by half an hour": ("15 2 * * *", LORD_HOWE, "2026-10-03 00:00", ["10-03 15:30", "10-04 15:15"]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "zone", "after", "want"), RUNS.values(), ids=RUNS)
def test_the_runs_of_a_schedule(text, zone, after, want):
    schedule = cron.read_schedule(text, zone)
    runs = list(itertools.islice(schedule.after(at(after)), len(want)))
    found = [datetime.datetime.fromtimestamp(run, datetime.UTC).strftime("%m-%d %H:%M") for run in runs]
    assert found == want


UNUSABLE = {
    "": "five fields",
    "* * * *": "five fields",
    "* * * * * *": "five fields",
    "@every 5m": "five fields",
    "60 * * * *": "minute",
    "* 24 * * *": "hour",
    "* * 0 * *": "day-of-month",
    "* * * 13 *": "month",
    "* * * * 8": "day-of-week",
    "*/0 * * * *": "minute",
    "5-1 * * * *": "minute",
    "-1 * * * *": "minute",
    "a * * * *": "minute",
    "1.5 * * * *": "minute",
    "١ * * * *": "minute",
    "* * 31 2 *": "day-of-month",
    "9" * 300 + " * * * *": "minute",
}


@pytest.mark.parametrize(("text", "said"), UNUSABLE.items())
def test_a_schedule_that_means_nothing_is_refused_by_name(text, said):
    with pytest.raises(cron.Unusable, match=said):
        cron.read_schedule(text, "")


@pytest.mark.parametrize("zone", ["Europe/Nowhere", "../../etc/passwd", "Local", "/etc/localtime", "Europe", "\0"])
def test_a_zone_that_does_not_exist_is_refused_by_name(zone):
    with pytest.raises(cron.Unusable, match="timeZone"):
        cron.read_schedule("* * * * *", zone)


FIELDS = st.tuples(
    st.sampled_from(["*", "0", "*/7", "5,50", "10-20"]),
    st.sampled_from(["*", "2", "*/3", "1-3", "0,23"]),
    st.sampled_from(["*", "1", "29", "*/10"]),
    st.sampled_from(["*", "3", "10", "3-10"]),
    st.sampled_from(["*", "0", "mon-fri", "6"]),
).map(" ".join)
#: about the changes of clocks, too
MOMENTS = st.integers(int(at("2026-03-01")), int(at("2026-11-10")))


@given(FIELDS, st.sampled_from(["", PARIS, NEW_YORK, LORD_HOWE]), MOMENTS)
def test_the_latest_run_is_the_last_of_those_that_came_before(text, zone, moment):
    """The oracle walks all runs from long before."""
    schedule = cron.read_schedule(text, zone)
    since = moment - 40 * 86400
    runs = list(itertools.takewhile(lambda run: run <= moment, schedule.after(since)))
    latest = schedule.latest(moment)
    if runs:
        assert latest == runs[-1]
    else:
        assert latest is None or latest <= since


# --- looks -------------------------------------------------------------------------------------------

NOW = at("2026-05-05 12:00:30")
NOON = at("2026-05-05 12:00")
MINUTE = 60.0


def hourly(**changes) -> CronJob:
    spec = {"schedulerName": "muster"}
    template = {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "x"}, "name": "ignored"}, "spec": spec}
    made = CronJob("ns", "tick", "uid", at("2026-05-05 11:30"), "0 * * * *", template)
    return dataclasses.replace(made, **changes)


def child(moment: float, phase: Phase | None = Phase.RUNNING, ended: float = 0.0) -> Child:
    name = cron.job_name("tick", moment)
    return Child(name, f"uid-{name}", phase, ended)


def ran(moment: float, **more) -> CronStatus:
    return CronStatus(last_schedule=moment, **more)


EARLIER = child(NOON - 60 * MINUTE)
ENDED = child(NOON - 60 * MINUTE, Phase.COMPLETED, NOON - 30 * MINUTE)

#: CronJob, its Jobs, and: is a Job created, how many are deleted
LOOKS = {
    "the first run is due": (hourly(), [], True, 0),
    "nothing is due before the first run": (hourly(created=NOON + 1), [], False, 0),
    "a run that was started is not started again": (hourly(status=ran(NOON)), [], False, 0),
    "nor when only its Job tells of it": (hourly(), [child(NOON)], False, 0),
    "nor when its Job has ended already": (hourly(), [child(NOON, Phase.FAILED, NOON + 1)], False, 0),
    "suspended, nothing starts": (hourly(suspended=True), [], False, 0),
    "a run that is late by less than the deadline starts": (hourly(deadline=31.0), [], True, 0),
    "one that is later does not": (hourly(deadline=29.0), [], False, 0),
    "Allow starts beside what runs": (hourly(status=ran(NOON - 60 * MINUTE)), [EARLIER], True, 0),
    "Forbid waits": (
        hourly(status=ran(NOON - 60 * MINUTE), concurrency=Concurrency.FORBID), [EARLIER], False, 0),
    "Forbid starts when the one before has ended": (
        hourly(status=ran(NOON - 60 * MINUTE), concurrency=Concurrency.FORBID), [ENDED], True, 0),
    "Replace deletes what runs": (
        hourly(status=ran(NOON - 60 * MINUTE), concurrency=Concurrency.REPLACE), [EARLIER], True, 1),
    "Replace deletes nothing when nothing is due": (
        hourly(status=ran(NOON), concurrency=Concurrency.REPLACE), [child(NOON)], False, 0),
    "an aborted Job has not ended: it may be resumed": (
        hourly(concurrency=Concurrency.FORBID), [child(NOON - 60 * MINUTE, Phase.ABORTED)], False, 0),
    "a bad schedule starts nothing": (hourly(schedule="x"), [], False, 0),
    "a name that is too long starts nothing": (hourly(name="t" * 53), [], False, 0),
    "the clock went back": (hourly(status=ran(NOON + 3600)), [], False, 0),
}  # fmt: skip


@pytest.mark.parametrize(("job", "children", "creates", "deletes"), LOOKS.values(), ids=LOOKS)
def test_what_a_look_starts_and_deletes(job, children, creates, deletes):
    step = cron.look(job, children, NOW)
    assert (step.create is not None) is creates
    assert len(step.deletes) == deletes
    if creates:
        assert step.status is not None
        assert step.status.last_schedule == NOON


def test_the_job_of_a_run_bears_its_minute_its_owner_and_what_the_template_says():
    job = cron.look(hourly(), [], NOW).create
    assert job is not None
    metadata = job["metadata"]
    assert metadata["name"] == f"tick-{int(NOON) // 60}"
    assert (metadata["labels"], metadata["annotations"]) == ({"team": "a"}, {"note": "x"})
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("CronJob", "uid", True)
    assert job["spec"] == {"schedulerName": "muster"}


def test_a_bad_schedule_is_said_and_old_jobs_still_go():
    old = [child(NOON - n * MINUTE, Phase.COMPLETED, NOON - n * MINUTE) for n in range(1, 6)]
    step = cron.look(hourly(schedule="nonsense"), old, NOW)
    assert "five fields" in step.refusal
    assert step.wake_at is None
    assert len(step.deletes) == 2


def test_runs_that_were_missed_are_made_good_by_one_start_and_said():
    job = hourly(created=NOON - 100 * 86400, status=ran(NOON - 100 * 86400))
    step = cron.look(job, [], NOW)
    assert step.create is not None
    assert step.create["metadata"]["name"] == cron.job_name("tick", NOON)
    assert [event.reason for event in step.events] == ["MissedRuns"]
    after = dataclasses.replace(job, status=step.status)
    assert cron.look(after, [child(NOON)], NOW).create is None


def test_it_wakes_for_the_next_run():
    assert cron.look(hourly(), [], NOW).wake_at == NOON + 3600


def test_the_oldest_of_each_kind_go_beyond_what_is_kept():
    succeeded = [child(NOON - (60 + n) * MINUTE, Phase.COMPLETED, NOON - n * MINUTE) for n in range(5)]
    failed = [
        child(NOON - (90 + n) * MINUTE, phase, NOON - n * MINUTE)
        for n, phase in enumerate([Phase.FAILED, Phase.TERMINATED, Phase.FAILED])
    ]
    step = cron.look(hourly(suspended=True, keep_succeeded=2, keep_failed=1), [*succeeded, *failed, EARLIER], NOW)
    assert {one.name for one in step.deletes} == {one.name for one in [*succeeded[2:], *failed[1:]]}
    none = cron.look(hourly(suspended=True, keep_succeeded=0, keep_failed=0), [*succeeded, *failed], NOW)
    assert len(none.deletes) == 8


def test_the_status_names_what_runs_and_the_last_success_which_never_goes_back():
    job = hourly(suspended=True, status=ran(NOON, last_success=NOON - 5))
    step = cron.look(job, [EARLIER, ENDED], NOW)
    assert step.status == CronStatus(((EARLIER.uid, EARLIER.name),), NOON, NOON - 5)
    again = cron.look(dataclasses.replace(job, status=step.status), [EARLIER, ENDED], NOW)
    assert again.status is None


@given(
    st.sampled_from(["*/10 * * * *", "0 * * * *", "30 2 * * *", "@hourly"]),
    st.sampled_from(list(Concurrency)),
    st.sampled_from([None, 0.0, 60.0, 3600.0]),
    st.lists(st.tuples(st.floats(1, 7200), st.booleans(), st.booleans()), max_size=25),
)
def test_no_run_starts_twice_wherever_a_look_is_cut_short(text, policy, deadline, looks):
    """Each look is cut short after its creation, or not; Jobs end as they like."""
    job = hourly(schedule=text, concurrency=policy, deadline=deadline, keep_succeeded=1000, keep_failed=1000)
    now, children, made = job.created, [], []
    for passes, whole, ends in looks:
        now += passes
        if ends:
            children = [dataclasses.replace(one, phase=Phase.COMPLETED, ended=now) for one in children]
        step = cron.look(job, children, now)
        gone = {one.uid for one in step.deletes}
        children = [one for one in children if one.uid not in gone]
        if step.create is not None:
            name = step.create["metadata"]["name"]
            assert name not in made
            assert policy is not Concurrency.FORBID or all(one.finished for one in children)
            made.append(name)
            children.append(Child(name, name))
        if whole and step.status is not None:
            job = dataclasses.replace(job, status=step.status)


# --- reading and writing -------------------------------------------------------------------------------


def test_an_object_is_read_with_its_defaults():
    found = cron_reading.decode_cron({"metadata": {"name": "x"}, "spec": {"schedule": "@daily"}})
    assert (found.keep_succeeded, found.keep_failed, found.concurrency, found.deadline) == (
        3,
        1,
        Concurrency.ALLOW,
        None,
    )
    assert not found.suspended


BAD = [None, True, -1, 0, 10**30, 1.5, float("nan"), "", "x", "9" * 99, [], [None], {}, {"name": 7}, [{"uid": []}]]
SECTIONS = {
    "metadata": ["namespace", "name", "uid", "creationTimestamp"],
    "spec": ["schedule", "timeZone", "startingDeadlineSeconds", "concurrencyPolicy", "suspend", "jobTemplate",
             "successfulJobsHistoryLimit", "failedJobsHistoryLimit"],
    "status": ["active", "lastScheduleTime", "lastSuccessfulTime"],
}  # fmt: skip


@pytest.mark.parametrize(("section", "key"), [(section, key) for section, keys in SECTIONS.items() for key in keys])
def test_no_bad_field_breaks_the_reading_or_the_look(section, key):
    for bad in BAD:
        content = {"metadata": {"name": "x"}, "spec": {"schedule": "@daily"}, "status": {}}
        content[section][key] = bad
        cron_reading.is_ours(content)
        cron.look(cron_reading.decode_cron(content), [], NOW)
        cron_reading.is_ours({section: bad})
        cron.look(cron_reading.decode_cron({section: bad}), [], NOW)


def test_a_status_survives_its_writing():
    status = CronStatus((("u1", "a"), ("u2", "b")), NOON, NOON - 60)
    encoded = cron_reading.encode_cron_status("ns", status)
    assert cron_reading.decode_cron({"status": encoded}).status == status
    assert encoded["lastScheduleTime"] == "2026-05-05T12:00:00Z"
