"""The job controller's composition root: what is made of what, and in which order it starts.

Takes settings, gives a running process; must not decide. The port opens first: it also makes our name in the election
one that only this process can have on its host.
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
#: whether Volcano runs, and whether we act, is looked at so often: both end by time alone
CHECK_SECONDS = 0.5


def main(argv: Sequence[str]) -> int:
    """Run the job controller until it is asked to stop; the exit status."""
    told = settings.read_jobs(argv, socket.gethostname())
    return process.main("the job controller", told.logging, _serve(told))


async def _serve(told: settings.JobsSettings) -> None:
    metrics, cluster = JobMetrics(), told.cluster
    async with contextlib.AsyncExitStack() as stack:
        stop = stack.enter_context(stopping.asked_to_stop())
        api = await stack.enter_async_context(
            client.connect(cluster.kubeconfig, cluster.context, component="muster-jobs", observer=metrics.api)
        )
        parts = _Process(told, metrics, api)
        app = serve.application(serve.health_routes(parts.not_ready, metrics.registry))
        await stack.enter_async_context(serve.serve(app, told.listen, told.tls))
        await stack.enter_async_context(serve.metrics(metrics.registry, told.metrics_listen))
        stack.push_async_callback(parts.election.release)
        running = await stack.enter_async_context(tasks.Tasks())
        parts.start(running)
        await running.run_until(stop)


class _Process:
    """The parts and how they are joined. `_acting` and `_volcano` are what was last said of them."""

    def __init__(self, told: settings.JobsSettings, metrics: JobMetrics, api: client.Api) -> None:
        self._told = told
        self._metrics = metrics
        self._api = api
        place = told.cluster.namespace, told.cluster.lease, f"{told.hostname}_{told.listen.port}"
        self.election = Election(api, *place, time.monotonic)
        self._controller = Controller(api, metrics, self._acts, process.wall_clock())
        self._feeds = self._controller.feeds()
        self._awaited = {feed.resource.label for feed in self._feeds}
        self._acting = False
        self._volcano: str | None = None

    def not_ready(self) -> str | None:
        """What is still awaited, in a few words; None when nothing is."""
        return f"waiting for {', '.join(sorted(self._awaited))}" if self._awaited else None

    def start(self, running: tasks.Tasks) -> None:
        """Start every eternal task."""
        for feed in self._feeds:
            found = functools.partial(self._awaited.discard, feed.resource.label)
            following = feeds.run(self._api, feed, lambda _: None, found, self._metrics.api)
            running.start(f"feed {feed.resource.label}", following)
        running.start("election", self.election.run())
        self._controller.start(running, self._told.workers)
        running.start("state", self._watch_state())
        running.start("resync", self._resync())
        running.start("lag", lag.measure(self._metrics.api.loop_lag))

    def _acts(self) -> bool:
        return not self._awaited and self.election.active

    async def _watch_state(self) -> None:
        """Notice for ever when we begin or cease to act, and when Volcano's controller comes or goes."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            self._metrics.queued(self._controller.queued())
            acting, volcano = self._acts(), self._controller.volcano_runs() if not self._awaited else None
            if (acting, volcano) == (self._acting, self._volcano):
                continue
            begins, changed = acting and not self._acting, volcano != self._volcano
            self._acting, self._volcano = acting, volcano
            self._metrics.active(acting)
            self._metrics.volcano_runs(volcano is not None)
            LOG.info("the state has changed", acts=acting, volcano=volcano or "does not run")
            if begins or changed:
                self._controller.look_at_all()
            if acting and (changed or volcano is not None):
                await self._tell(volcano)

    async def _tell(self, volcano: str | None) -> None:
        """An Event about our Lease: the place where both replicas are one."""
        namespace, name = self._told.cluster.namespace, self._told.cluster.lease
        about = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "namespace": namespace, "name": name}
        text = f"Volcano's job controller runs ({volcano}): all Jobs are left to it"
        said = (
            ("StandsAside", text)
            if volcano
            else ("RunsJobs", "Volcano's job controller does not run: Muster runs Jobs")
        )
        try:
            await writes.create_event(self._api, namespace, about, *said, "Normal")
        except errors.KubeError as error:
            LOG.warning("an Event could not be written", error=error)

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(RESYNC_SECONDS)
            self._controller.look_at_all()
