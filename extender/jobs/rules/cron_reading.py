"""CronJobs from their JSON objects, and their status back.

Takes decoded JSON, gives values; must not raise for a bad field: what is not sound counts as absent, but a schedule
that means nothing is refused by name (`cron.look`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extender.core.ids import SCHEDULER_NAME
from extender.jobs.rules import cron
from extender.jobs.rules.model import API_VERSION, KIND
from extender.wire.answers import time_text
from extender.wire.fields import seconds_of

Object = Mapping[str, Any]
#: more ended Jobs than this are not kept, whatever is said
MOST_KEPT = 1000


def is_ours(obj: Object) -> bool:
    """Whether the CronJob's Jobs ask for our scheduler."""
    return _map(_map(_map(obj.get("spec")).get("jobTemplate")).get("spec")).get("schedulerName") == SCHEDULER_NAME


def decode_cron(obj: Object) -> cron.CronJob:
    """The CronJob that the object describes."""
    metadata, spec, status = (_map(obj.get(key)) for key in ("metadata", "spec", "status"))
    deadline = _number(spec.get("startingDeadlineSeconds"), -1)
    policy = spec.get("concurrencyPolicy")
    return cron.CronJob(
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        created=_time(metadata.get("creationTimestamp")) or 0.0,
        schedule=str(spec.get("schedule", "")),
        template=_map(spec.get("jobTemplate")),
        zone=str(spec.get("timeZone") or ""),
        deadline=None if deadline < 0 else float(deadline),
        concurrency=cron.Concurrency(policy) if policy in list(cron.Concurrency) else cron.Concurrency.ALLOW,
        suspended=spec.get("suspend") is True,
        keep_succeeded=min(_number(spec.get("successfulJobsHistoryLimit"), 3), MOST_KEPT),
        keep_failed=min(_number(spec.get("failedJobsHistoryLimit"), 1), MOST_KEPT),
        status=_status(status),
    )


def encode_cron_status(namespace: str, status: cron.CronStatus) -> dict[str, Any]:
    """The whole object under `status`."""
    one = {"apiVersion": API_VERSION, "kind": KIND, "namespace": namespace}
    encoded: dict[str, Any] = {"active": [one | {"name": name, "uid": uid} for uid, name in status.active]}
    times = {"lastScheduleTime": status.last_schedule, "lastSuccessfulTime": status.last_success}
    return encoded | {key: time_text(moment) for key, moment in times.items() if moment is not None}


def _status(found: Object) -> cron.CronStatus:
    listed = found.get("active")
    active = [_map(one) for one in listed] if isinstance(listed, list) else []
    return cron.CronStatus(
        active=tuple((str(one.get("uid", "")), str(one.get("name", ""))) for one in active),
        last_schedule=_time(found.get("lastScheduleTime")),
        last_success=_time(found.get("lastSuccessfulTime")),
    )


def _time(found: object) -> float | None:
    return seconds_of(found) if isinstance(found, str) else None


def _number(found: object, otherwise: int) -> int:
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else otherwise


def _map(found: object) -> Object:
    return found if isinstance(found, Mapping) else {}
