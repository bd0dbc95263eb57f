"""How the phase in a status changes: time, reason and history change with it.

Takes a status, gives the next one; must not decide when.
"""

from __future__ import annotations

from dataclasses import replace

from extender.jobs.rules.model import JobStatus, Phase
from extender.jobs.rules.status import MAX_HISTORY


def enter(status: JobStatus, phase: Phase, now: float, reason: str = "", message: str = "") -> JobStatus:
    """The status in another phase; the same when it is in it already. Times are whole seconds, as they are written."""
    if status.phase is phase:
        return status
    at = float(int(now))
    history = (*status.history, (phase, at))[-MAX_HISTORY:]
    return replace(status, phase=phase, since=at, history=history, reason=reason, message=message)
