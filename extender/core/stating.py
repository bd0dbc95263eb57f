"""What a group's object should say: its phase, and why it waits. Written rarely (design section 7).

Takes a group's record and counts, gives the statement or None when the object already says it; must not
decide when to write.
"""

from __future__ import annotations

from extender.core.ids import Source
from extender.core.membership import Standing, Tally
from extender.core.messages import StateGroup
from extender.core.model import Group
from extender.core.planning import Entry

#: a wait is written into the group's object when it has lasted this long
STATE_AFTER_SECONDS = 1.0
#: a statement that could not be written is tried again after this time
RETRY_SECONDS = 10.0
#: so long after one reason of a wait was written the next one may be, the last pause for ever. A statement is two
#: writes, status and Event, so that in no hour there are more than ten of them
PAUSES = (0.0, 0.0, 60.0, 1200.0, 2400.0)
#: the same where the reason is an annotation, and so a third write
PAUSES_OF_THREE = (0.0, 60.0, 3600.0)
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
    return None if said(statement) == known(entry, group) else statement


def known(entry: Entry, group: Group) -> tuple[str, str, int]:
    """What was said last: what we have asked to write may not stand in the object yet, so it comes before what does."""
    return entry.stated if entry.stated[0] else (group.phase, group.stated_reason, group.generation)


def pause_until(entry: Entry) -> float:
    """No further reason of the same wait is written before this time."""
    pauses = PAUSES_OF_THREE if entry.key.source is Source.SCHEDULER_PLUGINS else PAUSES
    return entry.told_at + pauses[min(entry.told, len(pauses)) - 1] if entry.told else 0.0


def only_a_reason(statement: StateGroup, before: tuple[str, str, int]) -> bool:
    """True when it says nothing new but why the group waits, for the same object in the same phase."""
    return statement.refusal is not None and (statement.phase, statement.generation) == (before[0], before[2])


def said(statement: StateGroup) -> tuple[str, str, int]:
    """What makes two statements the same for their readers."""
    reason = "" if statement.refusal is None else statement.refusal.reason.value
    return (statement.phase, reason, statement.generation)
