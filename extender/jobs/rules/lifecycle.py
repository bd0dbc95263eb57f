"""The life of a job: one call judges it whole and says what follows.

Takes a job, its pods as they are seen, Commands and the time; gives a Step. Must not remember anything: what must
survive stands in the job's status.
"""

from __future__ import annotations

from collections.abc import Sequence

from extender.jobs.rules.model import Command, Job, PodState, Step


def reconcile(job: Job, pods: Sequence[PodState], commands: Sequence[Command], now: float) -> Step:
    """What follows for a job that can be read; `model.Step` says in which order to carry it out.

    `pods` are all pods whose label `volcano.sh/job-name` names the job (also those of an earlier Job of that name:
    they hold the names). `job` must bear the newest status that the caller knows, the answer to its own last write
    included; older pods than there are do no harm. `now` is seconds since the epoch and may step.
    The same state gives the same step, and once that is carried out an empty one.
    """
    raise NotImplementedError
