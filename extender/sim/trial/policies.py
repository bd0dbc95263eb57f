"""All that is compared: our engine and gate, and models of others, by the names that reports use.

Takes nothing, gives makers; must not hold behaviour.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from extender.sim.traces.common import Job
from extender.sim.trial.fifo_gang import FifoGang
from extender.sim.trial.native_gang import NativeGang
from extender.sim.trial.ours import Options, Ours
from extender.sim.trial.pod_by_pod import PodByPod
from extender.sim.trial.quota_first import QuotaFirst
from extender.sim.trial.replay import Policy, Stage
from extender.sim.trial.scoring import least_allocated, most_allocated

OURS = "Muster"
#: the claim that is measured speaks of this one
DEFAULT = "pod by pod"


@dataclass(frozen=True, slots=True)
class Entry:
    """A policy: what it is in one line, and how it is made for a stage, jobs and a seed."""

    about: str
    make: Callable[[Stage, Sequence[Job], int], Policy]


def _ours(options: Options) -> Callable[[Stage, Sequence[Job], int], Policy]:
    return lambda stage, jobs, seed: Ours(stage, jobs, options)


_ALL = Options()
POLICIES: Mapping[str, Entry] = {
    OURS: Entry("Muster's own engine and permit gate, as in production, under the virtual clock", _ours(_ALL)),
    DEFAULT: Entry(
        "model of kube-scheduler, pods one by one, LeastAllocated (its default)",
        lambda stage, jobs, seed: PodByPod(stage, least_allocated, seed),
    ),
    "pod by pod, packing": Entry(
        "model of kube-scheduler, pods one by one, MostAllocated over CPU, memory and GPUs",
        lambda stage, jobs, seed: PodByPod(stage, most_allocated, seed),
    ),
    "native gang": Entry(
        "model of kube-scheduler's own gangs (1.37, off by default), LeastAllocated",
        lambda stage, jobs, seed: NativeGang(stage, least_allocated, seed),
    ),
    "FIFO gang": Entry(
        "model of gangs in order of arrival, without queues, packing",
        lambda stage, jobs, seed: FifoGang(stage, seed),
    ),
    "quota first": Entry(
        "model of admission by quota without placement (Kueue's way), then pods one by one, LeastAllocated",
        lambda stage, jobs, seed: QuotaFirst(stage, jobs, least_allocated, seed),
    ),
}
#: each policy of ours off in turn
ABLATIONS: Mapping[str, Entry] = {
    "without topology": Entry("gangs name no level", _ours(replace(_ALL, topology=False))),
    "without durations": Entry("groups do not say how long they run", _ours(replace(_ALL, durations=False))),
    "without queues": Entry("all jobs in one queue", _ours(replace(_ALL, queues=False))),
    "without preemption": Entry(
        "nobody is evicted, so what others deserve is not borrowed", _ours(replace(_ALL, preemption=False))
    ),
}
#: what users get wrong
WRONG: Mapping[str, Entry] = {
    "durations x 0.1": Entry("ten times too short", _ours(replace(_ALL, duration_factor=0.1))),
    "durations x 10": Entry("ten times too long", _ours(replace(_ALL, duration_factor=10.0))),
    "durations guessed": Entry("from ten times too short to ten times too long", _ours(replace(_ALL, guessed=True))),
    "deserved unset": Entry("queues do not say what they deserve", _ours(replace(_ALL, deserved="none"))),
    "deserved by one": Entry(
        "the first queue deserves all, the others do not say", _ours(replace(_ALL, deserved="first"))
    ),
}
EVERY: Mapping[str, Entry] = {**POLICIES, **ABLATIONS, **WRONG}
