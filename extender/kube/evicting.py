"""One pod evicted, with the reason on record: by the extender and by the permit gate alike.

Takes an Api and an eviction that was decided. Gives: a pod that is gone or going and bears the record, a log line and
an Event of the pod. Must not: decide, evict without a record, leave a record of what was refused, or call an eviction
failed because it could not be told of.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Coroutine
from typing import Any

from extender.core import explain, messages
from extender.kube import client, errors, writes
from extender.telemetry import logs
from extender.wire import departed, evictions

LOG = logs.Log(__name__)


async def _nothing() -> None: ...


async def evict(
    api: client.Api, effect: messages.Evict, before: Callable[[], Coroutine[Any, Any, None]] = _nothing
) -> None:
    """Evict the pod; one that is gone already is a success. Errors of extender.kube.errors pass through.

    `before` is done when the reason is on record: what it does may take the pod away.
    Where no outcome is known, the record stays, as the same eviction is tried again.
    """
    if not await _put_record(api, effect, evictions.record(effect.ground, effect.detail, _now())):
        return
    await before()
    try:
        if not await writes.evict(api, effect.namespace, effect.name, effect.uid):
            return
    except (errors.Budget, errors.ApiError) as error:
        if not isinstance(error, errors.TooManyRequests):
            await _take_back_record(api, effect)
        raise
    await _tell(api, effect)


async def _put_record(api: client.Api, effect: messages.Evict, record: str | None) -> bool:
    """Through the pod's status, as the permit gate has a right to that alone."""
    note = {departed.EVICTED_ANNOTATION: record}
    return await writes.annotate_by_status(api, effect.namespace, effect.name, effect.uid, note)


async def _take_back_record(api: client.Api, effect: messages.Evict) -> None:
    try:
        await _put_record(api, effect, None)
    except errors.KubeError as error:
        LOG.warning("a refused eviction stays on record", namespace=effect.namespace, name=effect.name, error=error)


async def _tell(api: client.Api, effect: messages.Evict) -> None:
    why = explain.why_evicted(effect.ground, effect.detail)
    LOG.info("a pod is evicted", namespace=effect.namespace, name=effect.name, ground=effect.ground, why=why)
    involved = {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": effect.namespace,
        "name": effect.name,
        "uid": effect.uid,
    }
    try:
        await writes.create_event(api, effect.namespace, involved, effect.ground, why, "Warning")
    except errors.KubeError as error:
        LOG.warning("an eviction could not be told of", namespace=effect.namespace, name=effect.name, error=error)


def _now() -> str:
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}"
