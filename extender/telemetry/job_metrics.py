"""The metrics of the job controller, one method per thing that can happen.

Takes: durations in seconds, counts, words of closed sets. Gives: a registry for /metrics. Must not: know HTTP, or grow
with the number of Jobs.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from extender.telemetry import api_metrics

LOOK_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class JobMetrics:
    """What the job controller tells; `api` is for the Kubernetes client."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.api = api_metrics.ApiMetrics(self.registry)
        self._active = Gauge("muster_jobs_active", "1 while this replica acts.", registry=self.registry)
        self._aside = Gauge(
            "muster_jobs_volcano_runs",
            "1 while Volcano's own job controller runs, to which all Jobs are left.",
            registry=self.registry,
        )
        self._waiting = Gauge(
            "muster_jobs_queued", "Jobs and CronJobs that wait to be looked at, or are.", registry=self.registry
        )
        self._pods = Counter("muster_jobs_pods_created", "Pods that were created for Jobs.", registry=self.registry)
        self._runs = Counter("muster_jobs_cron_runs", "Jobs that were created for CronJobs.", registry=self.registry)
        self._look = Histogram(
            "muster_jobs_look_seconds",
            "One look at one Job, with the writes that followed.",
            buckets=LOOK_SECONDS,
            registry=self.registry,
        )

    def active(self, active: bool) -> None:
        """This replica begins or ceases to act."""
        self._active.set(active)

    def volcano_runs(self, runs: bool) -> None:
        """Volcano's own controller was found running, or is not any more."""
        self._aside.set(runs)

    def queued(self, number: int) -> None:
        """So many keys wait or are being worked on."""
        self._waiting.set(number)

    def pods_created(self, number: int) -> None:
        """So many pods were created."""
        self._pods.inc(number)

    def cron_run(self) -> None:
        """A Job was created for a CronJob."""
        self._runs.inc()

    def looked(self, seconds: float) -> None:
        """One look at a Job took so long."""
        self._look.observe(seconds)
