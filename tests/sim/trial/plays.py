"""Short ways to replay a few jobs. Takes texts and numbers, gives replays; must not hold expectations."""

from __future__ import annotations

from collections.abc import Sequence

from extender.sim.traces.common import Ask, Host, Job
from extender.sim.trial import policies
from extender.sim.trial.measures import Figures, Measures
from extender.sim.trial.replay import Replay

GIB = 1024


def host(name: str, gpus: int = 8, rack: str = "rack-0", cpu: int = 64_000, model: str = "") -> Host:
    return Host(name, cpu, 512 * GIB, gpus, model, rack)


def hosts(number: int, gpus: int = 8) -> list[Host]:
    return [host(f"h{row}", gpus, f"rack-{row // 4}") for row in range(number)]


def job(name: str, at: float, runs: float, pods: int = 1, gpus: int = 1, **fields) -> Job:
    ask = Ask(fields.pop("cpu", 1000), fields.pop("memory", GIB), gpus, fields.pop("models", ()))
    return Job(name, at, runs, pods, ask, **fields)


def replay(policy: str, jobs: Sequence[Job], there: Sequence[Host], seed: int = 1) -> Replay:
    """A replay that is not played yet."""
    ordered = sorted(jobs, key=lambda one: (one.submitted, one.name))
    made = Replay(ordered, there, lambda stage, all_jobs: policies.EVERY[policy].make(stage, all_jobs, seed))
    made.watcher = Measures(made.cluster, ordered)
    return made


def play(policy: str, jobs: Sequence[Job], there: Sequence[Host], seed: int = 1) -> tuple[Replay, Figures]:
    """A replay and what came of it."""
    made = replay(policy, jobs, there, seed)
    made.run()
    assert isinstance(made.watcher, Measures)
    return made, made.watcher.figures(made.works, made.now)


def starts(made: Replay) -> dict[str, float | None]:
    """When each job first worked."""
    return {work.job.name: work.first_started for work in made.works}


def ends(made: Replay) -> dict[str, float | None]:
    """When each job was done."""
    return {work.job.name: work.ended for work in made.works}
