"""Gauges and histograms by queue and by node pool: names of objects as labels, so only so many of them.

Takes figures by name, gives series; names that come when the table is full count as `other`, and a name that has
vanished keeps its series, at zero. Must not: raise, or grow without bound.
"""

from collections.abc import Collection, Mapping, Sequence

from prometheus_client import CollectorRegistry, Gauge, Histogram

from extender.core.series import POOLS, QUEUES, SIZE_CLASSES, STATES, Start
from extender.telemetry import labels

#: hours, for queues that are long
WAIT_SECONDS = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 48 * 3600)
#: from a plan to the last binding of the minimum
STARTING_SECONDS = (0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
#: of series.STATES and OF_QUEUE, in the words of labels
POOL_STATES = tuple("out_of_use" if state == "outOfUse" else state for state in STATES)
CHARGED = ("allocated", "held", "reserved")
_OF_QUEUE = (
    ("waiting", "muster_extender_queue_waiting_gpus", "GPUs that groups ask for that wait in the queue or below it."),
    ("fair", "muster_extender_queue_fair_gpus", "GPUs that the queue is owed now, as its fair share."),
    (
        "unused",
        "muster_extender_queue_unused_gpus",
        "GPUs that the queue owns (deserved, guaranteed) and does not use.",
    ),
)


class Words:
    """At most so many names, those that come first; all others are one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.known: dict[str, None] = {}

    def word(self, name: str) -> str:
        """The name, or `other`."""
        if name not in self.known and len(self.known) < self._most - 1:
            self.known[name] = None
        return name if name in self.known else labels.OTHER


class Gpus:
    """The metrics of item "is the cluster better used": see core.utilisation and core.series."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._pools, self._queues = Words(POOLS), Words(QUEUES)
        self._of_pool = Gauge(
            "muster_extender_pool_gpus",
            "GPUs of a node pool, each of them in one state; a MIG instance is its part of a GPU.",
            ("pool", "state"),
            registry=registry,
        )
        self._of_queue = Gauge(
            "muster_extender_queue_gpus",
            "GPUs that are charged to the queue, or to one below it.",
            ("queue", "state"),
            registry=registry,
        )
        self._beside = {field: Gauge(name, text, ("queue",), registry=registry) for field, name, text in _OF_QUEUE}
        self._oldest = Gauge(
            "muster_extender_queue_oldest_wait_seconds",
            "For how long the group of this queue has waited that has waited longest; 0 when none waits.",
            ("queue",),
            registry=registry,
        )
        text = "From the creation of a group's first member until it had its places, for groups that have started."
        self._waited = _histogram(registry, "muster_extender_group_wait_seconds", text, WAIT_SECONDS)
        text = "From when a group had its places until its minimum was bound."
        self._starting = _histogram(registry, "muster_extender_group_start_seconds", text, STARTING_SECONDS)

    def show(self, pools: Mapping[str, Sequence[float]], queues: Mapping[str, Sequence[float]]) -> None:
        """Figures of series.STATES and series.OF_QUEUE, and no others."""
        for pool, figures in _bounded(pools, self._pools, len(POOL_STATES)).items():
            for state, value in zip(POOL_STATES, figures, strict=True):
                self._of_pool.labels(pool, state).set(value)
        for queue, figures in _bounded(queues, self._queues, len(CHARGED) + len(_OF_QUEUE)).items():
            for state, value in zip(CHARGED, figures, strict=False):
                self._of_queue.labels(queue, state).set(value)
            for (field, *_), value in zip(_OF_QUEUE, figures[len(CHARGED) :], strict=True):
                self._beside[field].labels(queue).set(value)

    def oldest(self, seconds: Mapping[str, float]) -> None:
        """For how long the oldest group of each queue has waited."""
        found = dict.fromkeys(self._queues.known, 0.0)
        for queue, age in seconds.items():
            word = self._queues.word(queue)
            found[word] = max(age, found.get(word, 0.0))
        for queue, age in found.items():
            self._oldest.labels(queue).set(age)

    def started(self, starts: Collection[Start]) -> None:
        """These groups have started."""
        for start in starts:
            words = (self._queues.word(start.queue), labels.closed(start.size, SIZE_CLASSES))
            self._waited.labels(*words).observe(start.waited)
            self._starting.labels(*words).observe(start.starting)


def _bounded(figures: Mapping[str, Sequence[float]], words: Words, width: int) -> dict[str, list[float]]:
    """By word; what is known and has no figures has none of anything."""
    found = {word: [0.0] * width for word in words.known}
    for name in sorted(figures):
        word = words.word(name)
        before = found.get(word, [0.0] * width)
        found[word] = [a + b for a, b in zip(before, figures[name], strict=True)]
    return found


def _histogram(registry: CollectorRegistry, name: str, text: str, buckets: Sequence[float]) -> Histogram:
    return Histogram(name, text, ("queue", "size"), buckets=buckets, registry=registry)
