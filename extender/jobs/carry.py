"""Carries a step of the rules out.

Takes a Job's entry, its status and the step; gives the writes in the order that `rules.model.Step` asks for, so that a
crash between any two is made good by the next look at the Job. Must not decide, nor write when `may_write` says no.
What the API server refuses of pods and objects (quota, taken names, what admission forbids) is no fault: the refusal
is kept in the entry, stands in the Job's status, and the rest goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import orjson

from extender.jobs import objects, store, work
from extender.jobs.rules import model, status
from extender.kube import client, errors, resources, writes
from extender.telemetry import logs

LOG = logs.Log(__name__)
#: a status that only counts differently is written no sooner after the one before
GATHER_SECONDS = 1.0
#: pods are created so many at a time at first, then twice as many, so that a quota refuses few
FIRST_BATCH = 16
#: `status.state.reason` while something is refused
REFUSED = "Refused"
_MESSAGE = 512
_JOBS = resources.Served(resources.VOLCANO_JOBS, "v1alpha1")
_COMMANDS = resources.Served(resources.VOLCANO_COMMANDS, "v1alpha1")
_PODS = resources.Served(resources.PODS, "v1")


class NotNow(Exception):
    """This process does not act any more: what is left is for whoever does."""


class Carrier:
    """The writes for Jobs. `clock` is monotonic; `created` hears of each pod that was made."""

    def __init__(
        self,
        api: client.Api,
        known: store.Store,
        may_write: Callable[[], bool],
        clock: Callable[[], float],
        created: Callable[[int], None],
    ) -> None:
        self._api = api
        self._known = known
        self._may_write = may_write
        self._clock = clock
        self._created = created

    async def carry(
        self, entry: store.Entry, content: dict[str, Any], before: model.JobStatus, step: model.Step
    ) -> float | None:
        """Do all of it; gives after how many seconds the Job is to be looked at again for what was put off.

        `content` is the object that was judged, `before` its status as the rules gave it.
        """
        put_off = await self._state(entry, content, before, step)
        for event in step.events:  # before anything that may fail: they are not told again
            await self._tell(entry, event)
        refusal = await self._first_of(
            [self._keep(entry, wanted, before.phase is not None) for wanted in step.objects]
            + [self._remove(entry, unwanted) for unwanted in step.removals]
        )
        await self._first_of(self._delete(entry, pod) for pod in step.deletes)
        refusal = refusal or await self._create_all(entry, step.creates)
        for name in step.done:
            await self._finish(entry, name)
        if step.delete_job:
            self._check()
            await objects.delete(self._api, _JOBS.path(entry.namespace, entry.name), entry.uid, background=True)
        if refusal != entry.refusal:
            entry.refusal = refusal
            return 0.0
        if refusal:
            raise work.Again(refusal)
        return put_off

    # -- the status

    async def _state(
        self, entry: store.Entry, content: dict[str, Any], before: model.JobStatus, step: model.Step
    ) -> float | None:
        wanted = step.status or before
        if entry.refusal and (wanted.phase is None or wanted.phase in model.ACTIVE):
            wanted = dataclasses.replace(wanted, reason=REFUSED, message=entry.refusal)
        encoded = status.encode_status(wanted)
        said = hash(orjson.dumps(encoded, option=orjson.OPT_SORT_KEYS))
        # the API server drops what its definition of a Job does not know, and nothing is gained by saying it again
        if encoded == content.get("status") or entry.said == (said, entry.version):
            return None
        wait = entry.written_at + GATHER_SECONDS - self._clock()
        if step.status is not None and not step.urgent and wait > 0:
            return wait
        self._check()
        await self._put_status(entry, content, encoded)
        entry.said = (said, entry.version)
        return None

    async def _put_status(self, entry: store.Entry, content: dict[str, Any], encoded: model.Object) -> None:
        metadata = content["metadata"]
        kept = {key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion")}
        body = {"apiVersion": content["apiVersion"], "kind": content["kind"], "metadata": kept, "status": encoded}
        path = _JOBS.path(entry.namespace, entry.name)
        try:
            answer = await self._api.request("PUT", f"{path}/status", body=body)
        except errors.Conflict as error:  # what was judged is old
            self._known.job_seen(await self._api.read(path))
            raise work.Again("the Job has changed") from error
        entry.written_at = self._clock()
        self._known.job_seen(client.decode_object(answer))

    # -- objects

    async def _keep(self, entry: store.Entry, wanted: model.Wanted, begun: bool) -> str:
        name, mark = (wanted.kind, wanted.name), hash(orjson.dumps(wanted.body, option=orjson.OPT_SORT_KEYS))
        if entry.applied.get(name) == mark:
            return ""
        self._check()
        await objects.keep(self._api, entry.namespace, entry.uid, wanted, begun=begun)
        entry.applied[name] = mark
        return ""

    async def _remove(self, entry: store.Entry, unwanted: model.Removal) -> str:
        name = (unwanted.kind, unwanted.name)
        if entry.applied.get(name) != 0:
            self._check()
            await objects.remove(self._api, entry.namespace, entry.uid, unwanted)
            entry.applied[name] = 0
        return ""

    # -- pods

    async def _delete(self, entry: store.Entry, pod: model.PodDelete) -> str:
        self._check()
        LOG.info("a pod is deleted", job=f"{entry.namespace}/{entry.name}", pod=pod.name, why=pod.why)
        if await objects.delete(self._api, _PODS.path(entry.namespace, pod.name), pod.uid):
            self._known.pod_leaving(pod.uid)
        return ""

    async def _create_all(self, entry: store.Entry, orders: Sequence[model.PodOrder]) -> str:
        start, size = 0, FIRST_BATCH
        while start < len(orders):
            refusal = await self._first_of(self._create(entry, order) for order in orders[start : start + size])
            if refusal:
                return refusal
            start, size = start + size, 2 * size
        return ""

    async def _create(self, entry: store.Entry, order: model.PodOrder) -> str:
        self._check()
        collection = _PODS.path(entry.namespace, order.name).rpartition("/")[0]
        try:
            answer = await self._api.request("POST", collection, body=order.body)
        except errors.Conflict:
            return await self._look_at(entry, order.name)
        self._created(1)
        self._known.pod_seen(client.decode_object(answer), told=False)
        return ""

    async def _look_at(self, entry: store.Entry, name: str) -> str:
        """Whose the pod is that has the name already."""
        found = await writes.read_pod(self._api, entry.namespace, name)
        if found is None:
            raise work.Again(f"the pod {name} has just gone")
        self._known.pod_seen(found, told=False)
        if objects.owned_by(found, entry.uid) or (found["metadata"].get("labels") or {}).get(store.JOB_LABEL):
            raise work.Again(f"the pod {name} is there already")  # judged again, with this pod
        return f"there is a pod {name} that is not this Job's"

    # -- the rest

    async def _finish(self, entry: store.Entry, name: str) -> None:
        self._check()
        with contextlib.suppress(errors.NotFound):
            await self._api.request("DELETE", _COMMANDS.path(entry.namespace, name))

    async def _tell(self, entry: store.Entry, event: model.JobEvent) -> None:
        await objects.tell(self._api, model.KIND, entry.namespace, entry.name, entry.uid, event)

    async def _first_of(self, doing: Iterable[Awaitable[str]]) -> str:
        """Do all at once; the first refusal in their order, or the first failure when there is no refusal."""
        ends = await asyncio.gather(*doing, return_exceptions=True)
        failure: BaseException | None = None
        for end in ends:
            if isinstance(end, str):
                if end:
                    return end
            elif text := _refused(end):
                return text
            else:
                failure = failure or end
        if isinstance(failure, errors.KubeError):
            raise work.Again(str(failure)) from failure
        if failure is not None:
            raise failure
        return ""

    def _check(self) -> None:
        if not self._may_write():
            raise NotNow


def _refused(end: BaseException) -> str:
    """What a person has to mend, without the name of the object, so that the text stays the same; else empty."""
    if isinstance(end, objects.Taken):
        return str(end)
    if isinstance(end, (errors.Forbidden, errors.Invalid)) or (isinstance(end, errors.ApiError) and end.status == 400):
        for mark in (" is forbidden: ", " is invalid: "):
            if mark in end.message:
                return end.message.partition(mark)[2][:_MESSAGE]
        return end.message[:_MESSAGE]
    return ""
