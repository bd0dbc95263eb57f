"""What a group's object should say: its phase, and why it waits. Written rarely (design section 7).

Takes a group's record and counts, gives the statement or None when the object already says it; must not
decide when to write.
"""

from __future__ import annotations

from extender.core.membership import Standing, Tally
from extender.core.messages import StateGroup
from extender.core.model import Group
from extender.core.planning import Entry

#: a wait is written into the group's object when it has lasted this long
STATE_AFTER_SECONDS = 1.0
#: a statement that could not be written is tried again after this time
RETRY_SECONDS = 10.0
PENDING, RUNNING = "Pending", "Running"


def state(entry: Entry, group: Group, tally: Tally) -> StateGroup | None:
    """The statement to write; None while the group is starting up, or when nothing new is to be said."""
    if not entry.running and entry.refusal is None:
        return None
    if entry.running and entry.refusal is None and group.initially_scheduled and not entry.stated[0]:
        return None  # it said so before we were started
    phase = RUNNING if entry.running else PENDING
    statement = StateGroup(
        group.key,
        group.uid,
        phase,
        entry.refusal,
        group.generation,
        initially_scheduled=entry.running or group.initially_scheduled,
        counts=(
            tally.count(*Standing) - tally.count(Standing.LEAVING),
            tally.count(Standing.BOUND),
            tally.count(Standing.SUCCEEDED),
            tally.count(Standing.FAILED),
        ),
    )
    # what we have asked to write may not stand in the object yet, so it comes before what does
    known = entry.stated if entry.stated[0] else (group.phase, group.stated_reason, group.generation)
    return None if said(statement) == known else statement


def said(statement: StateGroup) -> tuple[str, str, int]:
    """What makes two statements the same for their readers."""
    reason = "" if statement.refusal is None else statement.refusal.reason.value
    return (statement.phase, reason, statement.generation)
