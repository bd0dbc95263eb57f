"""Which policy answers an event: those of the task go before those of the job, and the first in the list counts.

Takes a job and what happened, gives a policy; must not act.
"""

from __future__ import annotations

from collections.abc import Iterable

from extender.jobs.rules.model import Action, Event, Job, Policy
from extender.jobs.rules.occurrences import Occurrence

#: actions about the whole job
WHOLE = frozenset({Action.ABORT_JOB, Action.RESTART_JOB, Action.TERMINATE_JOB, Action.COMPLETE_JOB, Action.RESUME_JOB})

#: states of a pod that has done nothing: `*` does not mean them
_HEALTHY = (Event.POD_PENDING, Event.POD_RUNNING)


def answer(job: Job, occurrence: Occurrence) -> Policy | None:
    """The policy that answers; None when nothing but the usual is to be done."""
    task = job.spec.task(occurrence.task) if occurrence.task else None
    for event in occurrence.events:
        for policies in (task.policies if task is not None else (), job.spec.policies):
            if (found := _first(policies, event, occurrence.exit_codes)) is not None:
                return found
    return None


def _first(policies: Iterable[Policy], event: Event, codes: Iterable[int]) -> Policy | None:
    for policy in policies:
        if event in policy.events or (Event.ANY in policy.events and event not in _HEALTHY):
            return policy
        if policy.exit_code is not None and event is Event.POD_FAILED and policy.exit_code in codes:
            return policy
    return None
