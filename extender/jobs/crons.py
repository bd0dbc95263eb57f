"""The looks at CronJobs: what their rules say is carried out.

Takes an Api, what is known of Jobs, and the time; gives the watch to follow and one look. Must not decide, nor write
while another replica acts or Volcano's own controller runs. A look creates a Job before the status tells of it; the
name of the Job is that of the run, so that a look that was cut short makes no second one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from extender.jobs import objects, store, work
from extender.jobs.rules import cron, cron_reading, model
from extender.jobs.rules.status import decode_status
from extender.kube import client, errors, feeds, resources
from extender.kube.identities import Identity
from extender.telemetry import logs
from extender.telemetry.job_metrics import JobMetrics

LOG = logs.Log(__name__)
_CRONS = resources.Served(resources.VOLCANO_CRON_JOBS, "v1alpha1")
_JOBS = resources.Served(resources.VOLCANO_JOBS, "v1alpha1")


class Crons:
    """The CronJobs of ours. `_said` is the refusal of which an Event was written, by uid."""

    def __init__(
        self,
        api: client.Api,
        metrics: JobMetrics,
        known: store.Store,
        may_write: Callable[[], bool],
        wall: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self._api = api
        self._metrics = metrics
        self._known = known
        self._may_write = may_write
        self._wall = wall
        self._crons: dict[store.Key, dict[str, Any]] = {}
        self._keys: dict[str, store.Key] = {}
        self._said: dict[str, str] = {}
        self.queue = work.Queue(self.look, clock)

    def feed(self) -> feeds.Feed:
        """What is to be watched; see `Controller.feeds`."""
        return feeds.Feed(resources.VOLCANO_CRON_JOBS, self._seen, self._gone)

    def look_at_all(self) -> None:
        """Have each CronJob looked at."""
        for key in self._crons:
            self.queue.add(key)

    def child_changed(self, uid: str) -> None:
        """A Job of the CronJob with this uid is new, different or gone."""
        if uid in self._keys:
            self.queue.add(self._keys[uid])

    def _seen(self, content: dict[str, Any]) -> None:
        metadata = content["metadata"]
        key = (str(metadata.get("namespace", "")), str(metadata["name"]))
        before = self._crons.get(key)
        if not cron_reading.is_ours(content):
            self._crons.pop(key, None)
        elif before is None or store.version_of(content) >= store.version_of(before):
            self._crons[key], self._keys[metadata["uid"]] = content, key
            self.queue.add(key)

    def _gone(self, identity: Identity) -> None:
        self._keys.pop(identity.uid, None)
        self._said.pop(identity.uid, None)
        key = (identity.namespace, identity.name)
        if key in self._crons and self._crons[key]["metadata"]["uid"] == identity.uid:
            del self._crons[key]

    async def look(self, key: store.Key) -> float | None:
        """Judge the CronJob and carry out what follows; gives after how many seconds it is to be looked at again."""
        content = self._crons.get(key)
        if content is None or not self._may_write():
            return None
        found = cron_reading.decode_cron(content)
        children = [_child(entry) for entry in self._known.children(found.uid)]
        step = cron.look(found, children, self._wall())
        try:
            await self._carry(content, found, step)
        except errors.NotFound:
            return None  # the CronJob is gone; its watch tells so, too
        except errors.KubeError as error:
            raise work.Again(str(error)) from error
        return None if step.wake_at is None else max(step.wake_at - self._wall(), 0.0)

    async def _carry(self, content: dict[str, Any], found: cron.CronJob, step: cron.CronStep) -> None:
        for child in step.deletes:
            await objects.delete(self._api, _JOBS.path(found.namespace, child.name), child.uid, background=True)
        if step.create is not None:
            await self._create(found, step.create)
        for event in step.events:
            await self._tell(found, event)
        if step.status is not None:
            await self._put_status(content, found, step.status)
        if step.refusal and self._said.get(found.uid) != step.refusal:
            await self._tell(found, model.JobEvent(True, "Refused", step.refusal))
        self._said[found.uid] = step.refusal

    async def _create(self, found: cron.CronJob, job: model.Object) -> None:
        collection = _JOBS.path(found.namespace, "job").rpartition("/")[0]
        name = job["metadata"]["name"]
        try:
            await self._api.request("POST", collection, body=job)
        except errors.Conflict:
            LOG.info("the Job of a run is there already", job=f"{found.namespace}/{name}")
        except (errors.Forbidden, errors.Invalid) as error:
            await self._tell(found, model.JobEvent(True, "JobRefused", f"the Job {name} could not be created: {error}"))
            raise
        else:
            self._metrics.cron_run()
            await self._tell(found, model.JobEvent(False, "JobCreated", f"created the Job {name}"))

    async def _put_status(self, content: dict[str, Any], found: cron.CronJob, status: cron.CronStatus) -> None:
        metadata = content["metadata"]
        kept = {key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion")}
        encoded = cron_reading.encode_cron_status(found.namespace, status)
        body = {"apiVersion": content["apiVersion"], "kind": content["kind"], "metadata": kept, "status": encoded}
        path = _CRONS.path(found.namespace, found.name)
        try:
            answer = client.decode_object(await self._api.request("PUT", f"{path}/status", body=body))
        except errors.Conflict as error:
            self._seen(await self._api.read(path))
            raise work.Again("the CronJob has changed") from error
        self._seen(answer)

    async def _tell(self, found: cron.CronJob, event: model.JobEvent) -> None:
        await objects.tell(self._api, cron.CRON_KIND, found.namespace, found.name, found.uid, event)


def _child(entry: store.Entry) -> cron.Child:
    status = decode_status(entry.content().get("status"))
    return cron.Child(entry.name, entry.uid, status.phase, status.since)
