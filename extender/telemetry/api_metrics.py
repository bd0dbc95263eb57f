"""What both processes measure: calls to the API server, watches, the event loop, the process itself.

Takes: the tellings of `extender.kube` (it implements its Observer). Gives: metrics named `muster_api_...`,
`muster_watch_...` and `process_...`, and log lines for what went wrong. Must not: raise, block, or use names
of objects as labels.
"""

import functools
import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from extender.telemetry import logs

LOG = logs.Log(__name__)
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
LAG_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
#: how the API server or the client ends a watch in the course of nature
ORDERLY = "closed"


class ApiMetrics:
    """The Observer of one process's client."""

    def __init__(self, registry: CollectorRegistry) -> None:
        ProcessCollector(registry=registry)
        call = ("verb", "resource", "code")
        self._requests = Counter(
            "muster_api_requests",
            "Calls to the API server, by status or kind of failure.",
            call,
            registry=registry,
        )
        self._errors = Counter(
            "muster_api_errors", "Calls to the API server that did not succeed.", call, registry=registry
        )
        self._seconds = Histogram(
            "muster_api_request_seconds",
            "Duration of calls to the API server; watches not included.",
            ("verb", "resource"),
            buckets=SECONDS,
            registry=registry,
        )
        self._watch_lag = Gauge(
            "muster_watch_lag_seconds",
            "From the arrival of a watch's newest event to its handing on.",
            ("resource",),
            registry=registry,
        )
        self._watch_age = Gauge(
            "muster_watch_last_event_age_seconds",
            "Since a watch's newest event was handed on; grows while nothing changes.",
            ("resource",),
            registry=registry,
        )
        self._watch_restarts = Counter(
            "muster_watch_restarts", "Ends of watches, by reason.", ("resource", "reason"), registry=registry
        )
        self._set_aside = Counter(
            "muster_objects_set_aside", "Objects that could not be used.", ("resource",), registry=registry
        )
        self._loop_lag = Histogram(
            "muster_event_loop_lag_seconds",
            "How late the event loop woke a sleeper.",
            buckets=LAG_SECONDS,
            registry=registry,
        )
        #: children by label values: looking one up costs more than counting
        self._child = functools.cache(lambda family, *values: family.labels(*values))
        #: resource -> when its newest event was handed on, by the monotonic clock
        self._handed_on: dict[str, float] = {}

    def request_done(self, verb: str, resource: str, status: str, seconds: float) -> None:
        """One call ended; `status` is the HTTP status or the kind of the failure."""
        self._child(self._requests, verb, resource, status).inc()
        if not status.startswith("2"):
            self._errors.labels(verb, resource, status).inc()
        if verb != "WATCH":
            self._child(self._seconds, verb, resource).observe(seconds)

    def watch_event(self, resource: str, lag_seconds: float) -> None:
        """One event is handed on, so long after its bytes were taken from the connection."""
        self._child(self._watch_lag, resource).set(lag_seconds)
        if resource not in self._handed_on:
            self._watch_age.labels(resource).set_function(functools.partial(self._age, resource))
        self._handed_on[resource] = time.monotonic()

    def watch_restarted(self, resource: str, reason: str) -> None:
        """A list or watch ended; only disorderly ends are worth a line."""
        self._watch_restarts.labels(resource, reason).inc()
        if reason != ORDERLY:
            LOG.warning("a watch broke and starts again", resource=resource, reason=reason)

    def object_set_aside(self, resource: str, name: str, error: Exception) -> None:
        """One object could not be used; everything else goes on."""
        self._set_aside.labels(resource).inc()
        LOG.warning("an object cannot be used and is set aside", resource=resource, name=name, error=error)

    def loop_lag(self, seconds: float) -> None:
        """A sleeper of the event loop was woken so late."""
        self._loop_lag.observe(seconds)

    def _age(self, resource: str) -> float:
        return time.monotonic() - self._handed_on[resource]
