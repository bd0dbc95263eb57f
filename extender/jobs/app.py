"""The job controller's composition root: what is made of what, and in which order it starts.

Takes settings, gives a running process; must not decide. The port opens first: it also makes our name in the election
one that only this process can have on its host. Nothing is watched while another replica acts: a term begins with
lists that are as new as what the last one saw.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import time
from collections.abc import Sequence

from extender import settings
from extender.jobs.controller import RESYNC_SECONDS, Controller
from extender.kube import client, errors, feeds, writes
from extender.kube.election import Election
from extender.runtime import lag, process, stopping, tasks
from extender.telemetry import logs
from extender.telemetry.job_metrics import JobMetrics
from extender.web import serve

LOG = logs.Log(__name__)
#: whether Volcano runs, and whether we are chosen, is looked at so often: both end by time alone
CHECK_SECONDS = 0.5


def main(argv: Sequence[str]) -> int:
    """Run the job controller until it is asked to stop; the exit status."""
    told = settings.read_jobs(argv, socket.gethostname())
    return process.main("the job controller", told.logging, _serve(told))


async def _serve(told: settings.JobsSettings) -> None:
    metrics, cluster = JobMetrics(), told.cluster
    async with contextlib.AsyncExitStack() as stack:
        stop = stack.enter_context(stopping.asked_to_stop())
        # a renewal of the Lease must not wait behind thousands of pods: it has connections of its own
        api, apart = [
            await stack.enter_async_context(
                client.connect(cluster.kubeconfig, cluster.context, component="muster-jobs", observer=metrics.api)
            )
            for _ in range(2)
        ]
        place = cluster.namespace, cluster.lease, f"{told.hostname}_{told.listen.port}"
        terms = _Terms(told, metrics, api, Election(apart, *place, time.monotonic))
        app = serve.application(serve.health_routes(terms.not_ready, metrics.registry))
        await stack.enter_async_context(serve.serve(app, told.listen, told.tls))
        await stack.enter_async_context(serve.metrics(metrics.registry, told.metrics_listen))
        stack.push_async_callback(terms.election.release)
        running = await stack.enter_async_context(tasks.Tasks())
        running.start("election", terms.election.run())
        running.start("terms", terms.run())
        running.start("lag", lag.measure(metrics.api.loop_lag))
        await running.run_until(stop)


class _Terms:
    """The times in which this replica acts, one after the other, each from lists of its own."""

    def __init__(self, told: settings.JobsSettings, metrics: JobMetrics, api: client.Api, election: Election) -> None:
        self._told = told
        self._metrics = metrics
        self._api = api
        self.election = election
        self._term: _Term | None = None

    def not_ready(self) -> str | None:
        """What is still awaited, in a few words; None when nothing is, or another replica acts."""
        return self._term.not_ready() if self._term is not None else self.election.not_ready()

    async def run(self) -> None:
        """Act whenever we are chosen, for ever."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            if not self.election.active:
                continue
            self._term = _Term(self._told, self._metrics, self._api, self.election)
            ends = asyncio.Event()
            async with tasks.Tasks() as running:
                self._term.start(running, ends)
                await running.run_until(ends)
            self._term = None
            self._metrics.active(False)
            LOG.warning("this replica does not act any more")


class _Term:
    """One of them. What the last one knew is of no use: another replica may have acted on newer states."""

    def __init__(self, told: settings.JobsSettings, metrics: JobMetrics, api: client.Api, election: Election) -> None:
        self._told = told
        self._metrics = metrics
        self._api = api
        self._election = election
        self._controller = Controller(api, metrics, self._acts, process.wall_clock(), time.monotonic)
        self._feeds = self._controller.feeds()
        self._awaited = {feed.resource.label for feed in self._feeds}

    def not_ready(self) -> str | None:
        """The lists that are still awaited."""
        return f"waiting for {', '.join(sorted(self._awaited))}" if self._awaited else None

    def start(self, running: tasks.Tasks, ends: asyncio.Event) -> None:
        """Start every task of the term; `ends` is set when we are not chosen any more."""
        for feed in self._feeds:
            found = functools.partial(self._awaited.discard, feed.resource.label)
            following = feeds.run(self._api, feed, lambda _: None, found, self._metrics.api)
            running.start(f"feed {feed.resource.label}", following)
        self._controller.start(running, self._told.workers)
        running.start("state", self._watch_state(ends))
        running.start("resync", self._resync())

    def _acts(self) -> bool:
        return not self._awaited and self._election.active

    async def _watch_state(self, ends: asyncio.Event) -> None:
        """Notice when all lists are read, when Volcano's controller comes or goes, and when the term ends."""
        acting, shown_by = False, None
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            self._metrics.queued(self._controller.queued())
            if not self._election.active:
                ends.set()
            elif not self._awaited:
                before, (acting, shown_by) = (acting, shown_by), (True, self._controller.volcano_runs())
                if before != (acting, shown_by):
                    await self._changed(shown_by)

    async def _changed(self, shown_by: str | None) -> None:
        self._metrics.active(True)
        self._metrics.volcano_runs(shown_by is not None)
        self._controller.look_at_all()
        text = f"Volcano's job controller runs ({shown_by}): all Jobs are left to it"
        said = (
            ("StandsAside", text) if shown_by else ("RunsJobs", "Volcano's job controller does not run: Jobs are ours")
        )
        LOG.info(said[1])
        # about our Lease: the place where both replicas are one
        namespace, name = self._told.cluster.namespace, self._told.cluster.lease
        about = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "namespace": namespace, "name": name}
        try:
            await writes.create_event(self._api, namespace, about, *said, "Normal")
        except errors.KubeError as error:
            LOG.warning("an Event could not be written", error=error)

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(RESYNC_SECONDS)
            self._controller.look_at_all()
