"""The metrics of each process, as one class each with a method per thing that can happen.

Takes: durations in seconds, counts, words of closed sets. Gives: a registry for /metrics. Must not: be asked
for decisions, know HTTP, or grow with the number of pods and groups.
"""

import functools
from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from extender.core import reasons
from extender.telemetry import api_metrics, labels, tables

#: fine where the promises are: 0.5 ms, 2 ms, 10 ms, 50 ms
VERB_SECONDS = (
    *(0.0001, 0.0002, 0.0003, 0.0005, 0.00075, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.0075, 0.01),
    *(0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
)
HOLD_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 3600)

#: what readers of live answers ask for, in the API or in the page; the rest is discovery and what is not served
ANSWERED = frozenset({"workloads", "queues", "usages", "plans", "drainplans", "queueplans", "page"})
#: with the codes that are told: answered, malformed, not known, not allowed, not there, too many, ours to mend, not now
ANSWER_CODES = frozenset({"200", "400", "401", "403", "404", "405", "406", "429", "500", "503"})
#: by which rules we evict
_RULES = frozenset(reasons.Ground) - reasons.NOT_OURS
VERBS = frozenset({"filter", "prioritize", "preempt"})
#: foreign: not ours, passed unchanged; placed and refused: answers for our pods; error: told to the scheduler
#: as such; malformed: not a message of the scheduler
VERB_OUTCOMES = frozenset({"foreign", "placed", "refused", "error", "malformed"})
#: released: whole; partial: stuck half way; failed: fell below its minimum; expired: its deadline passed;
#: withdrawn: its plan was revoked; rolled-back: bound members were evicted again
ROUND_OUTCOMES = frozenset({"released", "partial", "failed", "expired", "withdrawn", "rolled-back"})
#: bound, or why the call was answered with an error; repeated: was bound before, and is answered the same
BIND_OUTCOMES = frozenset(
    {
        "bound",
        "repeated",
        "failed",
        "expired",
        "withdrawn",
        "gone",
        "conflict",
        "error",
        "malformed",
        "abandoned",
    }
)


class ExtenderMetrics:
    """What the extender tells; `api` is for the Kubernetes client."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.api = api_metrics.ApiMetrics(self.registry)
        verb = _Histograms(self.registry)
        self._verb = verb.of("muster_extender_verb_seconds", "Answering the scheduler.", ("verb", "outcome"))
        #: children by label values: looking one up costs more than counting
        self._verb_child = functools.cache(self._verb.labels)
        self._awaited = verb.of(
            "muster_extender_filter_awaited_seconds",
            "Filter calls that awaited a cycle; muster_extender_verb_seconds does not count them.",
        )
        self._answer = verb.of(
            "muster_extender_answer_seconds", "Answering readers of live answers.", ("resource", "code")
        )
        self._cycle = verb.of("muster_extender_cycle_seconds", "One cycle of the engine.")
        self._plan = verb.of("muster_extender_plan_seconds", "Planning one group.")
        self._groups = labels.Census(
            Gauge("muster_extender_groups", "Pod groups by phase.", ("phase",), registry=self.registry)
        )
        self._waiting = labels.Census(
            Gauge(
                "muster_extender_waiting_groups",
                "Waiting groups by reason.",
                ("reason",),
                registry=self.registry,
            ),
            frozenset(reasons.Reason),
        )
        gauge = _Gauges(self.registry)
        self._strays = gauge.of("muster_extender_strays", "Pods of ours that are neither gated nor admitted.")
        self._ledger = gauge.of(
            "muster_extender_ledger_difference",
            "Pods on which ledger and watches disagree; long above 0 is a fault of ours.",
        )
        self._usage = gauge.of(
            "muster_extender_usage_difference",
            "Queues in which usage and watches disagree; above 0 is a fault of ours.",
        )
        self._unreadable = gauge.of(
            "muster_extender_unreadable_nodes", "Nodes of which something cannot be read, such as their cards."
        )
        self._overcommitted = labels.Census(
            Gauge(
                "muster_extender_overcommitted_nodes",
                "Nodes with pods of ours on which more is used than there is, by what becomes of them.",
                ("outlook",),
                registry=self.registry,
            ),
            frozenset(reasons.Overcommit),
        )
        self.gpus = tables.Gpus(self.registry)
        self._evictions = Counter(
            "muster_extender_evictions",
            "Pods that were evicted, by the rule that let them go.",
            ("rule",),
            registry=self.registry,
        )
        for ground in sorted(_RULES):
            self._evictions.labels(ground)
        self._evicted_again = Counter(
            "muster_extender_repeated_evictions",
            "Evictions from groups that had lost a pod so in the hour before, though not in the same minute.",
            registry=self.registry,
        )
        self._fragmented = gauge.of(
            "muster_extender_fragmented_gpus",
            "GPUs that are free and of which the pods that wait and run, as a workload, have no use.",
        )
        network = ("muster_extender_topology_domains", "Domains of each level of the network.")
        self._domains = labels.Census(Gauge(*network, ("level",), registry=self.registry))
        network = ("muster_extender_topology_unlabelled_nodes", "Nodes that are in no domain of a level.")
        self._unlabelled = labels.Census(Gauge(*network, ("level",), registry=self.registry))
        self._network_problems = gauge.of(
            "muster_extender_topology_problems", "HyperNodes of which something was left out, since it makes no sense."
        )
        self._active = gauge.of("muster_extender_active", "1 while this replica acts.")
        self._decisions_lost = Counter(
            "muster_extender_decision_log_lost_events",
            "Events that are missing in the decision log, as it could not be written, or not fast enough.",
            registry=self.registry,
        )
        self._decisions_frozen = gauge.of(
            "muster_extender_decision_log_pause_seconds",
            "For how long deciding stood still, to take the engine's state for the newest file of the decision log.",
        )

    def decisions_lost(self, number: int) -> None:
        """So many events are missing in the decision log."""
        self._decisions_lost.inc(number)

    def decisions_frozen(self, seconds: float) -> None:
        """For so long deciding stood still, to take the engine's state for a new file."""
        self._decisions_frozen.set(seconds)

    def overcommitted(self, by_outlook: Mapping[str, int]) -> None:
        """On how many nodes with pods of ours more is used than there is, by what becomes of them."""
        self._overcommitted.count(by_outlook)

    def evicted(self, rule: str, again: bool) -> None:
        """A pod is evicted; `again`: its group has lost one so before, not long ago."""
        self._evictions.labels(labels.closed(rule, _RULES)).inc()
        if again:
            self._evicted_again.inc()

    def verb(self, verb: str, outcome: str, seconds: float) -> None:
        """A call of the scheduler is answered from the view."""
        self._verb_child(labels.closed(verb, VERBS), labels.closed(outcome, VERB_OUTCOMES)).observe(seconds)

    def filter_awaited(self, seconds: float) -> None:
        """A filter call is answered that had to await a cycle."""
        self._awaited.observe(seconds)

    def answer(self, resource: str, code: int, seconds: float) -> None:
        """A reader of live answers was answered, or refused."""
        self._answer.labels(labels.closed(resource, ANSWERED), labels.closed(str(code), ANSWER_CODES)).observe(seconds)

    def cycle(self, seconds: float) -> None:
        """A cycle of the engine ended."""
        self._cycle.observe(seconds)

    def plan(self, seconds: float) -> None:
        """One group was planned or found not to fit."""
        self._plan.observe(seconds)

    def groups(self, by_phase: Mapping[str, int], waiting: Mapping[reasons.Reason, int]) -> None:
        """How many groups there are, and why those that wait do."""
        self._groups.count(by_phase)
        self._waiting.count(waiting)

    def strays(self, number: int) -> None:
        """How many strays there are."""
        self._strays.set(number)

    def ledger_difference(self, number: int) -> None:
        """On how many pods the ledger and the watches disagree."""
        self._ledger.set(number)

    def usage_difference(self, number: int) -> None:
        """In how many queues usage and watches disagree."""
        self._usage.set(number)

    def unreadable(self, number: int) -> None:
        """Of how many nodes something cannot be read."""
        self._unreadable.set(number)

    def fragmented(self, gpus: float) -> None:
        """How many GPUs are free and of no use to the workload."""
        self._fragmented.set(gpus)

    def levels(self, domains: Mapping[str, int], unlabelled: Mapping[str, int], problems: int) -> None:
        """How many domains each level of the network has and how many nodes lack it; objects that make no sense."""
        self._domains.count(domains)
        self._unlabelled.count(unlabelled)
        self._network_problems.set(problems)

    def active(self, active: bool) -> None:
        """This replica begins or ceases to act."""
        self._active.set(active)


class GateMetrics:
    """What the permit gate tells; `api` is for the Kubernetes client."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.api = api_metrics.ApiMetrics(self.registry)
        gauge = _Gauges(self.registry)
        self._held = gauge.of("muster_gate_held_binds", "Bind calls that are not answered yet.")
        self._oldest = gauge.of(
            "muster_gate_oldest_hold_seconds", "For how long the oldest held bind call has been held; 0 when none is."
        )
        self._active = gauge.of("muster_gate_active", "1 while this replica acts.")
        self._rounds = Counter(
            "muster_gate_rounds", "Ends of rounds, by outcome.", ("outcome",), registry=self.registry
        )
        self._binds = Histogram(
            "muster_gate_bind_seconds",
            "From a bind call to its answer, time held included; its count is the number of answers.",
            ("outcome",),
            buckets=HOLD_SECONDS,
            registry=self.registry,
        )
        self._bind_outcomes = Counter(
            "muster_gate_binds", "Answers to bind calls, by outcome.", ("outcome",), registry=self.registry
        )
        #: children by label values: looking one up costs more than counting
        self._bind_child = functools.cache(self._binds.labels)
        self._bind_outcome_child = functools.cache(self._bind_outcomes.labels)
        self._release = _Histograms(self.registry).of(
            "muster_gate_release_seconds", "From the decision to release a round to its last binding."
        )

    def oldest_hold(self, age: Callable[[], float]) -> None:
        """Whom to ask for how long the oldest call has been held."""
        self._oldest.set_function(age)

    def held(self, number: int) -> None:
        """How many bind calls are held now."""
        self._held.set(number)

    def active(self, active: bool) -> None:
        """This replica begins or ceases to act."""
        self._active.set(active)

    def round_ended(self, outcome: str) -> None:
        """A round of a group is over."""
        self._rounds.labels(labels.closed(outcome, ROUND_OUTCOMES)).inc()

    def bind_answered(self, outcome: str, seconds: float) -> None:
        """A bind call is answered, so long after it came."""
        word = labels.closed(outcome, BIND_OUTCOMES)
        self._bind_outcome_child(word).inc()
        self._bind_child(word).observe(seconds)

    def released(self, seconds: float) -> None:
        """The last binding of a release is written."""
        self._release.observe(seconds)


class _Histograms:
    """Makes histograms with the buckets of a verb."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def of(self, name: str, text: str, label_names: tuple[str, ...] = ()) -> Histogram:
        return Histogram(name, text, label_names, buckets=VERB_SECONDS, registry=self._registry)


class _Gauges:
    """Makes gauges without labels."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def of(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, registry=self._registry)
