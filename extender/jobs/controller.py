"""The job controller's loop: what changes is looked at, and what the rules say is carried out.

Takes an Api and the time; gives the watches to follow and one look at a Job. Must not decide (`rules` do), nor write
while another replica acts or Volcano's own controller runs. Level-triggered: a look judges the whole Job by what is
known now, so that a restart, or taking over from Volcano, is a look at each Job and nothing more.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

from extender.jobs import carry, crons, store, volcano, work
from extender.jobs.rules import adoption, lifecycle, model, reading
from extender.kube import client, errors, feeds, resources, writes
from extender.kube.identities import Identity, identity_of
from extender.runtime import tasks
from extender.telemetry import logs
from extender.telemetry.job_metrics import JobMetrics
from extender.wire import objects

LOG = logs.Log(__name__)
#: changes of pods and of our own status gather for so long before a Job is looked at
GATHER_SECONDS = 0.05
#: a pod that no watch has told of for so long since its creation is asked for
DOUBT_SECONDS = 30.0
#: each Job is looked at again so often, and its objects are checked then
RESYNC_SECONDS = 600.0
#: on a Job: who runs it, when it is not we
WHY_ANNOTATION = "muster.dev/why"
CRON_WORKERS = 4
JOB_PODS = dataclasses.replace(resources.PODS, label_selector=store.JOB_LABEL)
VOLCANO_PODS = dataclasses.replace(resources.PODS, label_selector=volcano.POD_LABEL, part="volcano")
_JOBS = resources.Served(resources.VOLCANO_JOBS, "v1alpha1")


class Controller:
    """What is known, and the looks at it. `acts` says whether this replica was chosen and has read all lists."""

    def __init__(
        self,
        api: client.Api,
        metrics: JobMetrics,
        acts: Callable[[], bool],
        wall: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self._api = api
        self._metrics = metrics
        self._acts = acts
        self._wall = wall
        self._clock = clock
        self._known = store.Store()
        self._presence = volcano.Presence()
        self._carrier = carry.Carrier(api, self._known, self.may_write, clock, metrics.pods_created)
        self._crons = crons.Crons(api, metrics, self._known, self.may_write, wall, clock)
        self._queue = work.Queue(self.look, clock)

    def start(self, running: tasks.Tasks, workers: int) -> None:
        """Start the looks."""
        running.start("queue of Jobs", self._queue.run(workers))
        running.start("queue of CronJobs", self._crons.queue.run(CRON_WORKERS))

    def queued(self) -> int:
        """Jobs and CronJobs that wait to be looked at, or are."""
        return len(self._queue) + len(self._crons.queue)

    def feeds(self) -> tuple[feeds.Feed, ...]:
        """What is to be watched. Its decoders take each object in, so that one that cannot be read is set aside."""
        lease = resources.named(resources.LEASES, volcano.LEASE)
        deployment = resources.named(resources.DEPLOYMENTS, volcano.DEPLOYMENT)
        return (
            feeds.Feed(resources.VOLCANO_JOBS, self._job_seen, self._job_gone),
            feeds.Feed(JOB_PODS, self._pod_seen, self._pod_gone),
            feeds.Feed(resources.VOLCANO_COMMANDS, self._command_seen, self._command_gone),
            feeds.Feed(lease, self._lease_seen, self._lease_gone),
            feeds.Feed(deployment, self._deployment_seen, self._deployment_gone),
            feeds.Feed(VOLCANO_PODS, self._volcano_pod_seen, self._volcano_pod_gone),
            self._crons.feed(),
        )

    def volcano_runs(self) -> str | None:
        """The object that shows that Volcano's own controller runs."""
        return self._presence.shown_by(self._clock())

    def may_write(self) -> bool:
        """Whether Jobs are ours to run now."""
        return self._acts() and self.volcano_runs() is None

    def look_at_all(self) -> None:
        """Have each Job and CronJob looked at: whether we run it has changed, or it is time."""
        self._crons.look_at_all()
        for key in self._known.ours():
            entry = self._known.job(key)
            if entry is not None:
                entry.applied.clear()
            self._queue.add(key)

    # -- what the watches tell

    def _job_seen(self, content: dict[str, Any]) -> None:
        key = self._known.job_seen(content)
        if key is not None:
            self._queue.add(key, GATHER_SECONDS)
            self._tell_cron(key)

    def _job_gone(self, identity: Identity) -> None:
        key = (identity.namespace, identity.name)
        self._tell_cron(key)
        self._known.job_gone(key, identity.uid)

    def _tell_cron(self, key: store.Key) -> None:
        entry = self._known.job(key)
        if entry is not None and entry.cron:
            self._crons.child_changed(entry.cron)

    def _pod_seen(self, content: dict[str, Any]) -> None:
        key = self._known.pod_seen(content, told=True)
        if key is not None:
            self._queue.add(key, GATHER_SECONDS)

    def _pod_gone(self, identity: Identity) -> None:
        key = self._known.pod_gone(identity.uid)
        if key is not None:
            self._queue.add(key, GATHER_SECONDS)

    def _command_seen(self, content: dict[str, Any]) -> None:
        self._queue.add(self._known.command_seen(content))

    def _command_gone(self, identity: Identity) -> None:
        self._known.command_gone(identity.uid)

    def _lease_seen(self, content: dict[str, Any]) -> None:
        namespace = str(content["metadata"].get("namespace", ""))
        self._presence.lease_seen(namespace, objects.decode_lease(content), self._clock())

    def _lease_gone(self, identity: Identity) -> None:
        self._presence.lease_seen(identity.namespace, None, self._clock())

    def _deployment_seen(self, content: dict[str, Any]) -> None:
        wanted = (content.get("spec") or {}).get("replicas", 1)
        there = (content.get("status") or {}).get("replicas", 0)
        namespace = str(content["metadata"].get("namespace", ""))
        self._presence.deployment_seen(namespace, max(int(wanted), int(there)))

    def _deployment_gone(self, identity: Identity) -> None:
        self._presence.deployment_seen(identity.namespace, 0)

    def _volcano_pod_seen(self, content: dict[str, Any]) -> None:
        pod = identity_of(content)
        self._presence.pod_seen(pod.namespace, pod.name, pod.uid, str((content.get("status") or {}).get("phase", "")))

    def _volcano_pod_gone(self, identity: Identity) -> None:
        self._presence.pod_gone(identity.uid)

    # -- one look

    async def look(self, key: store.Key) -> float | None:
        """Judge the Job and carry out what follows; gives after how many seconds it is to be looked at again."""
        entry = self._known.job(key)
        if entry is None or not entry.ours or not self._acts():
            return None
        started = self._clock()
        try:
            shown_by = self.volcano_runs()
            content = entry.content()
            await self._say_who_runs(entry, content, shown_by)
            if shown_by is None:
                with contextlib.suppress(carry.NotNow):
                    return await self._run(key, entry, content)
        except errors.NotFound:
            return None  # the Job is gone; its watch tells so, too
        except errors.KubeError as error:
            raise work.Again(str(error)) from error
        finally:
            self._tell_cron(key)  # of the status that was written: its watch tells no news
            self._metrics.looked(self._clock() - started)
        return None

    async def _run(self, key: store.Key, entry: store.Entry, content: dict[str, Any]) -> float | None:
        pods = await self._pods(key)
        now = self._wall()
        found = reading.decode_job(content)
        if isinstance(found, reading.Refusal):
            before, step = found.status, reading.refuse(found, now)
            step = dataclasses.replace(step, done=tuple(one.name for one in self._known.commands(key)))
        else:
            before = _without_refusal(found.status)
            job = dataclasses.replace(found, status=before)
            step = lifecycle.reconcile(job, [pod.state for pod in pods], self._known.commands(key), now)
            step = adoption.keep_group(step, store.adopted_group(pods, entry.uid))
        put_off = await self._carrier.carry(entry, content, before, step)
        waits = [] if put_off is None else [put_off]
        waits += [] if step.wake_at is None else [max(step.wake_at - self._wall(), 0.0)]
        waits += [] if all(pod.told for pod in pods) else [DOUBT_SECONDS]
        # what our own writes changed is judged, too: no watch tells of what their answers told already
        waits += [carry.GATHER_SECONDS] if step.creates or step.urgent else []
        return min(waits, default=None)

    async def _pods(self, key: store.Key) -> list[store.Pod]:
        """The Job's pods, without those that vanished unseen: made by us and gone while a watch was broken."""
        pods = self._known.pods(key)
        for pod in pods:
            if not pod.told and pod.state.created < self._wall() - DOUBT_SECONDS:
                found = await writes.read_pod(self._api, key[0], pod.state.name)
                if found is None or found["metadata"].get("uid") != pod.state.uid:
                    self._known.pod_gone(pod.state.uid)
        return self._known.pods(key)

    async def _say_who_runs(self, entry: store.Entry, content: dict[str, Any], shown_by: str | None) -> None:
        """State on a Job that Volcano's controller runs it, and take that back when we do."""
        why = None if shown_by is None else f"Volcano's job controller runs this Job ({shown_by}); Muster schedules it"
        if (content["metadata"].get("annotations") or {}).get(WHY_ANNOTATION) != why:
            path = _JOBS.path(entry.namespace, entry.name)
            await writes.patch_annotations(self._api, path, entry.uid, {WHY_ANNOTATION: why})


def _without_refusal(status: model.JobStatus) -> model.JobStatus:
    """The status as the rules gave it: `carry` lays what is refused over it."""
    return dataclasses.replace(status, reason="", message="") if status.reason == carry.REFUSED else status
