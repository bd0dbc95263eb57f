"""Admission by quota alone, placement left to kube-scheduler: the way of Kueue without topology (simulated).

Takes jobs and queues of equal quotas in one cohort, lets pods of admitted jobs be scheduled one by one, evicts; must
not know hosts. As Kueue is set up by who wants gangs and fairness: nominal quota of GPUs is an equal part of them all,
unused quota is borrowed without limit; `BestEffortFIFO`; of the queues' heads one that need not borrow goes first,
then by priority and age; a head within its nominal quota takes it back from borrowers, least important and youngest
first (`reclaimWithinCohort: Any`), or from lower priority in its queue (`withinClusterQueue: LowerPriority`);
`waitForPodsReady`: who is not whole after 30 min is evicted, and asks again after 60 s, twice as long each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from extender.sim.traces.common import Job
from extender.sim.trial.cluster import GPUS, Pod, State, Work
from extender.sim.trial.pod_by_pod import PodByPod
from extender.sim.trial.replay import Stage
from extender.sim.trial.scoring import Scores

READY_SECONDS = 1800.0
FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS = 60.0, 3600.0


@dataclass(slots=True, eq=False)
class Claim:
    """A job that asks for quota, or has it."""

    work: Work
    admitted_at: float | None = None
    #: asks again from then on
    not_before: float = 0.0
    failures: int = 0


class QuotaFirst:
    """The model."""

    def __init__(self, stage: Stage, jobs: Sequence[Job], scores: Scores, seed: int) -> None:
        self._stage = stage
        self._inner = PodByPod(stage, scores, seed)
        queues = sorted({job.queue for job in jobs})
        self._total = int(stage.cluster.total[:, GPUS].sum())
        self._nominal = self._total / len(queues)
        self._used = dict.fromkeys(queues, 0)
        self._waiting: dict[str, list[Claim]] = {queue: [] for queue in queues}
        self._admitted: dict[str, Claim] = {}
        #: something was freed since all heads were refused
        self._changed = True

    def submitted(self, pods: Sequence[Pod], now: float) -> None:
        """A job asks for quota."""
        self._line_up(Claim(pods[0].work))

    def _line_up(self, claim: Claim) -> None:
        line = self._waiting[claim.work.job.queue]
        line.append(claim)
        line.sort(key=lambda one: (-one.work.job.priority, one.work.job.submitted, one.work.job.name))
        self._changed = True

    def ended(self, pods: Sequence[Pod], now: float) -> None:
        """Its quota is free."""
        job = pods[0].work.job
        self._used[job.queue] -= job.gpus
        self._admitted.pop(job.name)
        self._changed = True
        self._inner.ended(pods, now)

    def decide(self, now: float) -> None:
        """Evict who is not whole in time, admit, then let pods be scheduled."""
        for claim in list(self._admitted.values()):
            if not claim.work.whole and claim.work.first_started is None and now >= self._due(claim):
                claim.failures += 1
                backoff = min(FIRST_BACKOFF_SECONDS * 2 ** (claim.failures - 1), LONGEST_BACKOFF_SECONDS)
                self._evict(claim, now)
                claim.not_before = now + backoff
        self._admit_all(now)
        self._inner.decide(now)

    @staticmethod
    def _due(claim: Claim) -> float:
        return (claim.admitted_at or 0.0) + READY_SECONDS

    def looks_at(self, now: float) -> float | None:
        """When a job is given up, asks again, or when pods are tried again."""
        times = [self._inner.looks_at(now)]
        times += [self._due(c) for c in self._admitted.values() if not c.work.whole and c.work.first_started is None]
        times += [claim.not_before for line in self._waiting.values() for claim in line if claim.not_before > now]
        return min((time for time in times if time is not None), default=None)

    # --- quota ----------------------------------------------------------------------------------

    def _admit_all(self, now: float) -> None:
        refused: set[Claim] = set()
        while True:
            lines = (
                next((c for c in line if c not in refused and c.not_before <= now), None)
                for line in self._waiting.values()
            )
            heads = [claim for claim in lines if claim is not None]
            if not heads:
                return
            head = min(heads, key=self._order)
            if self._fits(head) or self._take_back(head, now):
                self._admit(head, now)
            else:
                refused.add(head)

    def _order(self, claim: Claim) -> tuple[bool, int, float, str]:
        job = claim.work.job
        return self._borrows(job), -job.priority, job.submitted, job.name

    def _borrows(self, job: Job) -> bool:
        return self._used[job.queue] + job.gpus > self._nominal

    def _fits(self, claim: Claim) -> bool:
        return sum(self._used.values()) + claim.work.job.gpus <= self._total

    def _admit(self, claim: Claim, now: float) -> None:
        job = claim.work.job
        self._waiting[job.queue].remove(claim)
        self._used[job.queue] += job.gpus
        claim.admitted_at = now
        self._admitted[job.name] = claim
        self._inner.submitted([pod for pod in claim.work.pods if pod.state is State.WAITING], now)

    def _take_back(self, head: Claim, now: float) -> bool:
        """Evict who borrows, or is less important in the head's queue; False when that is not enough."""
        job = head.work.job
        lacks = sum(self._used.values()) + job.gpus - self._total
        used = dict(self._used)
        victims: list[Claim] = []
        for claim in sorted(self._admitted.values(), key=lambda c: (c.work.job.priority, -(c.admitted_at or 0.0))):
            other = claim.work.job
            if lacks <= 0:
                break
            if not other.gpus:
                continue
            same = other.queue == job.queue
            if (same and other.priority < job.priority) or (
                not same and not self._borrows(job) and used[other.queue] > self._nominal
            ):
                victims.append(claim)
                used[other.queue] -= other.gpus
                lacks -= other.gpus
        if lacks > 0:
            return False
        for victim in victims:
            self._evict(victim, now)
        return True

    def _evict(self, claim: Claim, now: float) -> None:
        """All its pods leave, and it asks again."""
        job = claim.work.job
        del self._admitted[job.name]
        self._used[job.queue] -= job.gpus
        for pod in list(claim.work.pods):
            if pod.state is State.ON_HOST:
                self._stage.evict(pod)
            else:
                self._inner.withdraw(pod)
        self._inner.freed(now)
        claim.admitted_at = None
        self._line_up(claim)
