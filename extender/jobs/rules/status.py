"""A job's status as JSON and back.

Takes a status, gives the object that is written under `status` (Volcano's fields); takes that object, gives a status.
Must not raise for what it reads: what is not sound counts as absent.
"""

from __future__ import annotations

from extender.jobs.rules.model import JobStatus, Object


def encode_status(status: JobStatus) -> Object:
    """The whole object under `status`; write it whole (PUT or a merge patch of the status subresource)."""
    raise NotImplementedError


def decode_status(found: object) -> JobStatus:
    """The status that was last written."""
    raise NotImplementedError
