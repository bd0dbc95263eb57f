"""HAMi's lock of a node: whose pod's cards are handed out there now.

Takes: an Api, a node and a pod. Gives: the lock, or why it cannot be had in time; and takes back only what is this
pod's. Must not: bind, or touch a lock of another pod that may still be handed its cards.

The device plugin gives the lock back once the pod's containers have their cards. A lock is left over when it is five
minutes old, or when its pod is gone, has ended, has been served for a while, or is a pod of ours that was never bound:
the caller takes locks of a node one after the other, so no binding of ours is under way there.
"""

import asyncio
import enum
import time
from typing import Any

from extender.core import ids
from extender.kube import client, errors, resources
from extender.wire import hami

POLL_SECONDS = 0.1
#: so long is waited for the pod before
LOCK_SECONDS = 28.0
STALE_SECONDS = 300.0
#: the device plugin states that a pod is served just before it gives the lock back
SERVED_SECONDS = 2.0
_NODES = "/api/v1/nodes"
_PODS = resources.Served(resources.PODS, "v1")
#: what passes: somebody else wrote, or the API server is away for a moment
_PASSING = (errors.Conflict, errors.TooManyRequests, errors.ServerError, errors.Unreachable, errors.Unreadable)


async def take(api: client.Api, node: str, namespace: str, name: str, seconds: float | None = None) -> str:
    """Take the node's lock for a pod: "" when it has it, else why it has not."""
    return await _until(api, node, hami.Lock(0.0, namespace, name), True, seconds)


async def wait(api: client.Api, node: str, namespace: str, name: str, seconds: float | None = None) -> str:
    """Wait until HAMi can take the node's lock for a pod: "" when it can, else why not."""
    return await _until(api, node, hami.Lock(0.0, namespace, name), False, seconds)


async def _until(api: client.Api, node: str, mine: hami.Lock, takes: bool, seconds: float | None) -> str:
    ends = _now() + (LOCK_SECONDS if seconds is None else seconds)
    served_since: float | None = None
    while True:
        try:
            forgotten = served_since is not None and _now() - served_since > SERVED_SECONDS
            why, served = await _try(api, node, mine, takes, forgotten)
            served_since = (served_since or _now()) if served else None
        except _PASSING as error:
            why = str(error)
        except errors.ApiError as error:
            return str(error)
        if not why or _now() + POLL_SECONDS > ends:
            return why
        await asyncio.sleep(POLL_SECONDS)


async def give_back(api: client.Api, node: str, namespace: str, name: str) -> None:
    """Release the lock if it is this pod's; what cannot be written now is left over, and taken by the next."""
    for _ in range(3):
        try:
            content = await api.read(f"{_NODES}/{resources.quote(node)}")
            lock = _lock_of(content)
            if isinstance(lock, hami.Lock) and (lock.namespace, lock.name) == (namespace, name):
                await _write(api, node, content, None)
            return
        except errors.Conflict:
            await asyncio.sleep(POLL_SECONDS)
        except errors.KubeError:
            return


async def _try(api: client.Api, node: str, mine: hami.Lock, takes: bool, forgotten: bool) -> tuple[str, bool]:
    """Why the lock cannot be had now, and whether its pod is served: then it is about to be free, or forgotten."""
    content = await api.read(f"{_NODES}/{resources.quote(node)}")
    lock = _lock_of(content)
    if isinstance(lock, str) and lock:
        return f"the lock of node {node} is not one: {lock[:100]!r}", False
    if isinstance(lock, hami.Lock):
        if (lock.namespace, lock.name) == (mine.namespace, mine.name):
            return "", False
        standing = await _standing(api, lock, node)
        if standing is _Standing.BUSY or (standing is _Standing.SERVED and not forgotten):
            return f"node {node} is locked by pod {lock.namespace}/{lock.name}", standing is _Standing.SERVED
    if takes:
        await _write(api, node, content, hami.encode_lock(hami.Lock(time.time(), mine.namespace, mine.name)))
    return "", False


class _Standing(enum.Enum):
    """What a lock is good for."""

    BUSY = enum.auto()
    SERVED = enum.auto()
    LEFT_OVER = enum.auto()


async def _standing(api: client.Api, lock: hami.Lock, node: str) -> _Standing:
    if time.time() - lock.since > STALE_SECONDS:
        return _Standing.LEFT_OVER
    if not lock.name:
        return _Standing.BUSY
    try:
        pod = await api.read(_PODS.path(lock.namespace, lock.name))
    except errors.NotFound:
        return _Standing.LEFT_OVER
    spec, status = _part(pod, "spec"), _part(pod, "status")
    if status.get("phase") in ("Succeeded", "Failed"):
        return _Standing.LEFT_OVER
    if not spec.get("nodeName"):
        return _Standing.LEFT_OVER if spec.get("schedulerName") == ids.SCHEDULER_NAME else _Standing.BUSY
    if spec["nodeName"] != node:
        return _Standing.LEFT_OVER
    served = _part(_part(pod, "metadata"), "annotations").get(hami.PHASE) in (hami.SUCCESS, hami.FAILED)
    return _Standing.SERVED if served else _Standing.BUSY


def _lock_of(node: dict[str, Any]) -> hami.Lock | str | None:
    """The node's lock; its text when it cannot be read; None when there is none."""
    text = _part(_part(node, "metadata"), "annotations").get(hami.LOCK)
    return (hami.decode_lock(text) or text) if isinstance(text, str) and text else None


async def _write(api: client.Api, node: str, seen: dict[str, Any], text: str | None) -> None:
    version = _part(seen, "metadata").get("resourceVersion")
    body = {"metadata": {"resourceVersion": version, "annotations": {hami.LOCK: text}}}
    await api.request("PATCH", f"{_NODES}/{resources.quote(node)}", body=body, content_type=client.MERGE_PATCH)


def _part(content: dict[str, Any], key: str) -> dict[str, Any]:
    value = content.get(key)
    return value if isinstance(value, dict) else {}


def _now() -> float:
    return asyncio.get_running_loop().time()
