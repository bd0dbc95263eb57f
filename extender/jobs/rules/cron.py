"""CronJobs: when a Job of theirs is due, which ones are in its way, and which are old enough to go.

Takes a CronJob, its Jobs and the time; gives a CronStep. Must not remember anything: the time of the last run stands in
the status, and in the names of the Jobs that there are. The schedule is cron's (`cronsim` walks it, with Debian's rules
where clocks change: a run at a fixed time happens once on each day, also when its hour is skipped or comes twice).
Runs that were missed, because nobody looked or a Job was in the way, are made good by one start at most: the latest.
"""

from __future__ import annotations

import datetime
import zoneinfo
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cronsim import CronSim, CronSimError

from extender.jobs.rules.model import API_VERSION, FINISHED, KIND, JobEvent, Phase

CRON_KIND = "CronJob"
#: what cron itself knows by name
NAMES: Mapping[str, str] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
#: the name of a Job is that of the CronJob, a dash and the minute; its pods' names are longer still
LONGEST_NAME = 52
_MINUTE = 60


class Concurrency(StrEnum):
    """What happens to a run that is due while the Job of an earlier one has not ended."""

    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"


class Unusable(Exception):
    """A schedule or a time zone that means nothing; the text says what is wrong."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule and its zone, both sound."""

    fields: str
    zone: datetime.tzinfo

    def after(self, moment: float) -> Iterator[float]:
        """The runs later than a moment, in their order; none when there never is one."""
        return (run.timestamp() for run in CronSim(self.fields, self._local(moment)))

    def latest(self, moment: float) -> float | None:
        """The last run that is not later than a moment; None when there was none in fifty years."""
        before = next(CronSim(self.fields, self._local(moment + 1), reverse=True), None)
        if before is None:
            return None
        found = before.timestamp()
        # backwards, cronsim does not see a run that was put off by a change of clocks
        for run in self.after(found):
            if run > moment:
                break
            found = run
        return found

    def _local(self, moment: float) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(int(moment), self.zone)


@dataclass(frozen=True, slots=True)
class CronStatus:
    """What was last written. `active` holds the uids and names of Jobs that had not ended."""

    active: tuple[tuple[str, str], ...] = ()
    last_schedule: float | None = None
    last_success: float | None = None


@dataclass(frozen=True, slots=True)
class CronJob:
    """A CronJob object; times in seconds since the epoch."""

    namespace: str
    name: str
    uid: str
    created: float
    schedule: str
    template: Mapping[str, Any]
    zone: str = ""
    #: seconds by which a run may be late; None: any
    deadline: float | None = None
    concurrency: Concurrency = Concurrency.ALLOW
    suspended: bool = False
    #: ended Jobs that are kept
    keep_succeeded: int = 3
    keep_failed: int = 1
    status: CronStatus = CronStatus()


@dataclass(frozen=True, slots=True)
class Child:
    """A Job of the CronJob; `ended` is when it came to the phase that it is in."""

    name: str
    uid: str
    phase: Phase | None = None
    ended: float = 0.0

    @property
    def finished(self) -> bool:
        """Whether it has ended for good."""
        return self.phase in FINISHED


@dataclass(frozen=True, slots=True)
class CronStep:
    """What follows: deletions, then the Job to create, then the status. Repeating any of them does no harm."""

    deletes: tuple[Child, ...] = ()
    create: Mapping[str, Any] | None = None
    status: CronStatus | None = None
    events: tuple[JobEvent, ...] = ()
    wake_at: float | None = None
    #: why there are no runs: a person has to mend the object
    refusal: str = ""


@dataclass(slots=True)
class _Run:
    """The step in the making."""

    deletes: list[Child] = field(default_factory=list)
    create: Mapping[str, Any] | None = None
    events: list[JobEvent] = field(default_factory=list)


def read_schedule(text: str, zone: str) -> Schedule:
    """The schedule in this zone (empty: UTC); Unusable when either means nothing."""
    fields = NAMES.get(text.strip().lower(), text).replace("?", "*")
    if len(fields.split()) != 5:
        raise Unusable(f"schedule {text[:64]!r}: five fields are needed, or one of {', '.join(NAMES)}")
    if zone == "Local":  # of whom?
        raise Unusable("timeZone 'Local': name a zone, such as Europe/Paris")
    try:
        made = zoneinfo.ZoneInfo(zone) if zone else datetime.UTC
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise Unusable(f"timeZone {zone[:64]!r} is not known") from error
    try:
        CronSim(fields, datetime.datetime(2000, 1, 1, tzinfo=made))
    except (CronSimError, ValueError) as error:
        raise Unusable(f"schedule {text[:64]!r}: {error}") from error
    return Schedule(fields, made)


def look(cron: CronJob, children: Sequence[Child], now: float) -> CronStep:
    """What follows for a CronJob. `children` are the Jobs that it controls."""
    run = _Run(deletes=_too_old(cron, children))
    last, wake, refusal = _last_run(cron, children), None, ""
    try:
        if len(cron.name) > LONGEST_NAME:
            raise Unusable(f"the name is too long for Jobs: {LONGEST_NAME} characters at most")
        schedule = read_schedule(cron.schedule, cron.zone)
    except Unusable as error:
        refusal = str(error)
    else:
        if not cron.suspended:
            last = _start(cron, schedule, children, last, now, run)
            wake = next(schedule.after(now), None)
    succeeded = [child.ended for child in children if child.phase is Phase.COMPLETED]
    before = cron.status.last_success
    gone = {child.uid for child in run.deletes}
    status = CronStatus(
        active=tuple((c.uid, c.name) for c in _by_age(children) if not c.finished and c.uid not in gone),
        last_schedule=last,
        last_success=max(succeeded, default=before) if before is None else max([before, *succeeded]),
    )
    changed = status if status != cron.status else None
    return CronStep(tuple(run.deletes), run.create, changed, tuple(run.events), wake, refusal)


def job_name(cron: str, moment: float) -> str:
    """The name of the Job of a run: the same run never makes two."""
    return f"{cron}-{int(moment) // _MINUTE}"


def _start(
    cron: CronJob, schedule: Schedule, children: Sequence[Child], last: float | None, now: float, run: _Run
) -> float | None:
    """Put the run that is due into the step, if there is one and nothing is in its way; the time of the last run."""
    due, since = schedule.latest(now), cron.created if last is None else last
    if due is None or due <= since or (cron.deadline is not None and now - due > cron.deadline):
        return last
    active = [child for child in children if not child.finished]
    if active and cron.concurrency is Concurrency.FORBID:
        return last
    if active and cron.concurrency is Concurrency.REPLACE:
        run.deletes += active
    first = next(schedule.after(since), due)
    if first < due:
        run.events.append(
            JobEvent(True, "MissedRuns", f"earlier runs were missed; this one makes up for them: {due:.0f}")
        )
    run.create = _job(cron, due)
    return due


def _job(cron: CronJob, due: float) -> Mapping[str, Any]:
    given = cron.template.get("metadata")
    metadata = given if isinstance(given, Mapping) else {}
    owner = {"apiVersion": API_VERSION, "kind": CRON_KIND, "name": cron.name, "uid": cron.uid}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": job_name(cron.name, due),
            "namespace": cron.namespace,
            **{key: dict(metadata[key]) for key in ("labels", "annotations") if isinstance(metadata.get(key), Mapping)},
            "ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": True}],
        },
        "spec": cron.template.get("spec") or {},
    }


def _last_run(cron: CronJob, children: Sequence[Child]) -> float | None:
    """When the last Job was due: by the status, or by a Job of which the status does not tell yet."""
    runs = [moment for child in children if (moment := _moment_of(cron.name, child.name)) is not None]
    return max(runs if cron.status.last_schedule is None else [cron.status.last_schedule, *runs], default=None)


def _moment_of(cron: str, job: str) -> float | None:
    minute = job.removeprefix(f"{cron}-")
    return (
        float(minute) * _MINUTE
        if minute != job and minute.isascii() and minute.isdigit() and len(minute) < 12
        else None
    )


def _too_old(cron: CronJob, children: Sequence[Child]) -> list[Child]:
    """Ended Jobs beyond what is kept, oldest first."""
    ended = [child for child in _by_age(children) if child.finished]
    succeeded = [child for child in ended if child.phase is Phase.COMPLETED]
    failed = [child for child in ended if child.phase is not Phase.COMPLETED]
    return succeeded[: max(len(succeeded) - cron.keep_succeeded, 0)] + failed[: max(len(failed) - cron.keep_failed, 0)]


def _by_age(children: Sequence[Child]) -> list[Child]:
    return sorted(children, key=lambda child: (child.ended, child.name))
