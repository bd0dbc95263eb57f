"""One pod evicted, with the reason told: by the extender and by the permit gate alike.

Takes an Api and an eviction that was decided. Gives: a pod that is gone or going, a log line and an Event of the pod.
Must not: decide, or call an eviction failed because it could not be told of.
"""

from __future__ import annotations

from extender.core import explain, messages
from extender.kube import client, errors, writes
from extender.telemetry import logs

LOG = logs.Log(__name__)


async def evict(api: client.Api, effect: messages.Evict) -> None:
    """Evict the pod; one that is gone already is a success. Errors of extender.kube.errors pass through."""
    if not await writes.evict(api, effect.namespace, effect.name, effect.uid):
        return
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
