"""Who is evicted in vain: `python -m tests.perf.bench_evictions [--seeds 10] [--jobs 40] [--story SEED]`.

Random small gangs of three priorities in two queues that deserve half of 24 GPUs each, twice as many as there is room
for, under Muster's engine and under models of others, all under a virtual clock (simulated). Prints for each policy how
many pods were evicted, how often a job stopped, how often at the very instant at which it had begun, and the most stops
of one job; with `--story` what became of the jobs of one seed under Muster, in order. Never asserts.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from dataclasses import dataclass, field

from extender.sim.traces.common import Job
from extender.sim.trial import policies
from extender.sim.trial.cluster import Pod, Work
from tests.sim.trial.plays import hosts, job, replay

HOSTS = 3


@dataclass
class Evictions:
    """Watches one replay."""

    pods: int = 0
    stops: Counter[str] = field(default_factory=Counter)
    in_vain: int = 0
    story: list[str] = field(default_factory=list)
    _begun: dict[str, float] = field(default_factory=dict)

    def passed(self, since: float, until: float) -> None:
        """Nothing has changed."""

    def bound(self, pod: Pod, now: float) -> None:
        """Told when all of its job are."""

    def evicted(self, pod: Pod, now: float) -> None:
        self.pods += 1

    def started(self, work: Work, now: float) -> None:
        self._begun[work.job.name] = now
        self._tell("starts", work, now)

    def stopped(self, work: Work, lost: float, now: float) -> None:
        self.stops[work.job.name] += 1
        self.in_vain += self._begun[work.job.name] == now
        self._tell("is evicted", work, now)

    def ended(self, work: Work, now: float) -> None:
        self._tell("ends", work, now)

    def _tell(self, what: str, work: Work, now: float) -> None:
        one = work.job
        size = f"{one.pods} x {one.ask.gpus} GPUs"
        self.story.append(f"{now:7.0f} s  {one.name} ({size}, queue {one.queue}, priority {one.priority}) {what}")


def jobs_of(seed: int, number: int) -> list[Job]:
    """The same for the same seed."""
    chance = random.Random(seed)
    return [
        job(
            f"j{n:02}",
            chance.randint(0, 600),
            chance.randint(100, 900),
            pods=chance.randint(1, 5),
            gpus=chance.randint(1, 4),
            queue=chance.choice("ab"),
            priority=chance.choice((0, 5, 10)),
        )
        for n in range(number)
    ]


def watch(policy: str, jobs: list[Job]) -> Evictions:
    """What one replay comes to."""
    made = replay(policy, jobs, hosts(HOSTS))
    made.watcher = seen = Evictions()
    made.run()
    return seen


def main() -> None:
    """Print the table, or one story."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--story", type=int, metavar="SEED", help="tell what becomes of the jobs of this seed")
    told = parser.parse_args()
    if told.story is not None:
        print("\n".join(watch(policies.OURS, jobs_of(told.story, told.jobs)).story))
        return
    print(f"seeds 0 to {told.seeds - 1}, {told.jobs} jobs on {HOSTS} nodes of 8 GPUs (simulated)")
    print(f"{'policy':22} {'pods evicted':>12} {'jobs stopped':>12} {'as they began':>13} {'most of one':>11}")
    for policy in policies.POLICIES:
        seen = [watch(policy, jobs_of(seed, told.jobs)) for seed in range(told.seeds)]
        most = max((max(one.stops.values(), default=0) for one in seen), default=0)
        sums = (sum(one.pods for one in seen), sum(one.stops.total() for one in seen), sum(one.in_vain for one in seen))
        print(f"{policy:22} {sums[0]:12} {sums[1]:12} {sums[2]:13} {most:11}", flush=True)


if __name__ == "__main__":
    main()
