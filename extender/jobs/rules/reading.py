"""Jobs, pods and Commands from their JSON objects.

Takes decoded JSON, gives values; must not raise for a bad field: a job that cannot be run is a Refusal that names why,
only an object without an identity is a DecodeError.
"""

from __future__ import annotations

from dataclasses import dataclass

from extender.jobs.rules.model import Command, Job, JobStatus, PodState, Step


@dataclass(frozen=True, slots=True)
class Refusal:
    """A Job that cannot be run as it is."""

    namespace: str
    name: str
    uid: str
    #: one of the closed set `refusals.Reason`
    reason: str
    message: str
    status: JobStatus
    deleting: bool


def decode_job(obj: object) -> Job | Refusal:
    """The job that the object describes, defaults filled in, or why it is refused (as Volcano's webhook refuses)."""
    raise NotImplementedError


def decode_pod(obj: object) -> PodState:
    """What is seen of a pod; DecodeError when it has no name or no uid."""
    raise NotImplementedError


def decode_command(obj: object) -> tuple[str, Command]:
    """Name of the job that is meant (in the Command's namespace; empty when it means none) and the Command."""
    raise NotImplementedError


def refuse(refusal: Refusal, now: float) -> Step:
    """The step of a job that is refused: its status says why, its pods are left as they are.

    One that never started is Failed at once, so that who waits for its end learns of it; one that was edited while it
    ran keeps its phase, and goes on when it is mended.
    """
    raise NotImplementedError
