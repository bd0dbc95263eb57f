"""When what makes a group's pods is let go, and when it is suspended again: the writes, each decided once.

Takes a group's record and the world, gives effects; must not decide who has a place. Of a group that is queued by
suspension its maker is let go when its planned pods have their places. Suspended again is one that waits with pods of
which none runs: it was evicted whole, or its places were lost before its pods were bound, or somebody let it go before
its turn. So what waits has no pods, whatever happened to it. But one whose plan kube-scheduler's own checks refused is
left as it is: what it lacks is seen on its pods, and it would be let go again. Who is put back without having run waits
a while longer each time, for the same would happen again.
"""

from __future__ import annotations

from collections.abc import Iterator

from extender.core.membership import Standing
from extender.core.messages import Suspend
from extender.core.planning import EXPECT_SECONDS, Entry
from extender.core.reasons import NOT_OURS, Reason
from extender.core.switches import Switch
from extender.core.world import World

#: a group that was let go in vain is not let go again before this time, each next time after twice as long
BACK_OFF_SECONDS = 5.0
_DOUBLINGS = 5


def let_go(entry: Entry, switch: Switch, now: float) -> Iterator[Suspend]:
    """The write by which the pods are made that are planned, once for each state of their maker."""
    if entry.switched != (switch, False):
        entry.switched = (switch, False)
        yield Suspend(entry.key, switch, False, now)


def put_back(world: World, entry: Entry, switch: Switch, now: float) -> Iterator[Suspend]:
    """The write by which a group that waits loses its pods, if it is to. It has members, and no plan."""
    if entry.switched == (switch, True):
        return
    evicted = _evicted(world, entry)
    if world.tallies[entry.key].count(Standing.BOUND) or not (evicted or _waits(world, entry, now)):
        return
    entry.switched = (switch, True)
    if not evicted:
        entry.retry_at = max(entry.retry_at, now + pause(entry))
    yield Suspend(entry.key, switch, True, now)


def pause(entry: Entry) -> float:
    """For how many seconds the group is not let go again, as that was in vain."""
    seconds = BACK_OFF_SECONDS * 2.0 ** min(entry.in_vain, _DOUBLINGS)
    entry.in_vain += 1
    return seconds


def _waits(world: World, entry: Entry, now: float) -> bool:
    """True when pods of the group wait, for something that others would wait for without pods."""
    if entry.refusal is None or not world.tallies[entry.key].count(Standing.WAITING):
        return False
    if entry.refusal.reason is Reason.MEMBERS:
        return now >= entry.changed_at + EXPECT_SECONDS
    return entry.refusal.reason is not Reason.SCHEDULER_REFUSED


def _evicted(world: World, entry: Entry) -> bool:
    """True when a pod of the group leaves because we evicted it."""
    if not world.tallies[entry.key].count(Standing.LEAVING):
        return False
    pods = world.members[entry.key].values()
    return any(pod.terminating and pod.evicted is not None and pod.evicted.ground not in NOT_OURS for pod in pods)
