"""`env`: each container learns its member's index in its task.

Arguments: none.
"""

from __future__ import annotations

from extender.jobs.rules.model import Job, JobSpec, Wanted
from extender.jobs.rules.plugins.container import Pod, variable


def check(spec: JobSpec, arguments: tuple[str, ...]) -> str:
    """Nothing can be wrong."""
    return ""


def mend(job: Job, arguments: tuple[str, ...], pod: Pod) -> None:
    """Add the index under the old and the new name."""
    pod.set_env(variable("VK_TASK_INDEX", pod.index), variable("VC_TASK_INDEX", pod.index))


def objects(job: Job, arguments: tuple[str, ...]) -> tuple[Wanted, ...]:
    """None."""
    return ()
