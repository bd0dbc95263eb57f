"""What both processes of a replica do alike: follow the cluster, say what they still wait for, know whether to act.

Takes an Api, the feeds to watch and what else is awaited, gives events to a callback, with pods in the groups that what
made them names, and word when nothing is awaited any more and when acting begins or ends; must not decide. Knows no
verbs and no engine.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from extender import settings
from extender.core.activity import Activity
from extender.kube import client, feeds, lease, makers
from extender.runtime import lag, tasks
from extender.runtime.leadership import Leadership
from extender.telemetry import logs
from extender.telemetry.api_metrics import ApiMetrics

LOG = logs.Log(__name__)
#: what is awaited beside the lists, as /readyz names it
_MAKERS = "what makes pods"


class Metrics(Protocol):
    """What is told here."""

    @property
    def api(self) -> ApiMetrics:
        """For the Kubernetes client."""

    def active(self, active: bool) -> None:
        """This replica begins or ceases to act."""


class Replica:
    """One process of one replica. `ready` is called once, `acts` at each change, `put` with each event."""

    def __init__(
        self,
        api: client.Api,
        told: settings.Process,
        metrics: Metrics,
        watched: Iterable[feeds.Feed],
        put: Callable[[Any], None],
        *,
        ready: Callable[[], None],
        acts: Callable[[bool], None],
        awaited: Iterable[str] = (),
        wall: Callable[[], float] | None = None,
    ) -> None:
        """`wall`: the time, for who wants planned pods too (see `extender.core.suspended`)."""
        self._api = api
        self._metrics = metrics
        self._watched = tuple(watched)
        #: all news pass through it
        self.makers = makers.Makers(
            api, told.cluster.namespace, put, functools.partial(self.found, _MAKERS), metrics.api, wall
        )
        self._ready = ready
        self._acts = acts
        self._awaited = {feed.resource.label for feed in self._watched} | {_MAKERS, *awaited}
        where = told.cluster.namespace, told.cluster.lease
        self._lease = lease.feed(*where)
        read = functools.partial(lease.read_lease, api, *where)
        self.leadership = Leadership(Activity(told.hostname), read, time.monotonic, self._activity_changed)

    def start(self, running: tasks.Tasks) -> None:
        """Start what follows the cluster."""
        for feed in self._watched:
            label = feed.resource.label
            self._follow(running, label, feed, self.makers.put, functools.partial(self.found, label))
        self._follow(running, "lease", self._lease, self.leadership.seen, lambda: None)
        running.start("makers", self.makers.run())
        running.start("activity", self.leadership.watch_the_clock())
        running.start("lag", lag.measure(self._metrics.api.loop_lag))

    def not_ready(self) -> str | None:
        """What is still awaited, in a few words; None when nothing is."""
        return f"waiting for {', '.join(sorted(self._awaited))}" if self._awaited else None

    def found(self, what: str) -> None:
        """This is awaited no more; may be said again."""
        if what not in self._awaited:
            return
        self._awaited.remove(what)
        if not self._awaited:
            LOG.info("ready")
            self._ready()

    def _follow(
        self,
        running: tasks.Tasks,
        name: str,
        feed: feeds.Feed,
        put: Callable[[Any], None],
        synced: Callable[[], None],
    ) -> None:
        running.start(f"feed {name}", feeds.run(self._api, feed, put, synced, self._metrics.api))

    def _activity_changed(self, active: bool) -> None:
        self._metrics.active(active)
        LOG.info("this replica acts" if active else "this replica does not act")
        self._acts(active)
