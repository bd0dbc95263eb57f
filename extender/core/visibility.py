"""Who waits for room in sight of a cluster autoscaler: gates of whole groups come off though they have no place.

Takes the waiting groups and what their queues use, gives the writes that are due; must not place. Behind a gate a
pod is SchedulingGated, and no autoscaler looks at it. Without one kube-scheduler finds that it fits nowhere, by its
own checks or by our filter, and says Unschedulable. A queue asks for that by its setting; the others stay hidden.

Only room is shown, never quota: what is in sight fits into the capabilities together with what is used. A gate
cannot be put back, and a pod without one costs the scheduler something at every event: so a group has waited for
some time before, and of each queue only so many pods are in sight at once, in the queue's order; but one group, however
large, always can be. What of a group is in sight, the rest of it follows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from extender.core.allowance import over_capability
from extender.core.asking import Asking
from extender.core.ids import GroupKey, PodUid, QueueName
from extender.core.ledger import Ledger
from extender.core.membership import Standing, standing
from extender.core.messages import Ungate
from extender.core.model import Pod
from extender.core.planning import Entry
from extender.core.quota import Sums
from extender.core.reasons import Reason
from extender.core.resources import Amounts, add
from extender.core.usage import Usage
from extender.core.world import World

#: the waiting groups are looked at so often, if any queue asks for it
LOOK_SECONDS = 5.0
#: a group has waited so long for the same reason before it is shown
SHOWN_AFTER_SECONDS = 10.0
#: so many pods of a queue are in sight at once, or one group
SHOWN_PODS = 128
#: a gate that is still there after this time is asked to be removed again
_AGAIN_SECONDS = 10.0
#: what more nodes would end
_SHOWN = frozenset(
    {
        *(Reason.RESOURCES, Reason.FRAGMENTED, Reason.TOPOLOGY, Reason.CONSTRAINTS),
        *(Reason.DEVICE_NO_FIT, Reason.DEVICE_UNHEALTHY, Reason.NODE_UNAVAILABLE),
    }
)


class Visibility:
    """What was asked for lately. Nothing of it must survive a restart: what is in sight has no gate."""

    def __init__(self, world: World, usage: Usage, ledger: Ledger, asking: Asking) -> None:
        self._world = world
        self._usage = usage
        self._ledger = ledger
        self._asking = asking
        self._look_at = 0.0
        #: pods whose gates were asked to be removed, and when
        self._asked: dict[PodUid, float] = {}

    def restart(self) -> None:
        """Nothing of ours is under way any more."""
        self._look_at = 0.0
        self._asked.clear()

    def due(self, waiting: Iterable[Entry], strays: Mapping[QueueName, int], now: float) -> list[Ungate]:
        """The gates that are to be removed now. `strays`: how many pods of each queue wait without one."""
        if now < self._look_at:
            return []
        self._look_at = now + LOOK_SECONDS
        queues = {name for name, queue in self._world.queues.items() if queue.visible}
        if not queues:
            return []
        under_way = self._under_way(now)
        seen: list[Entry] = []
        others: dict[QueueName, list[Entry]] = {}
        shown, taken = Counter(strays), dict[QueueName, Sums]()
        for entry in filter(self._for_room, waiting):
            queue, tally = self._world.queue_of(entry.key), self._world.tallies[entry.key]
            if queue not in queues:
                continue
            if tally.ungated or entry.key in under_way:
                seen.append(entry)
                shown[queue] += tally.gated
                self._take(queue, self._asking.asked(entry), taken)
            else:
                others.setdefault(queue, []).append(entry)
        chosen = [entry for entry in seen if _due(entry, now)]
        for queue in sorted(others):
            chosen += self._next(queue, others[queue], shown[queue], taken, now)
        return [self._ungate(pod, now) for entry in chosen for pod in self._hidden(entry)]

    def _for_room(self, entry: Entry) -> bool:
        """True when a group as a whole waits for room; what is wanted beside a plan or a running gang is not shown."""
        waits = entry.refusal is not None and entry.refusal.reason in _SHOWN and entry.key in self._world.tallies
        if not waits or entry.running or self._ledger.of_group(entry.key):
            return False
        return all(pod.planned is None for pod in self._world.members[entry.key].values())

    def _under_way(self, now: float) -> set[GroupKey]:
        """Groups with members whose gates were asked to be removed a moment ago."""
        self._asked = {uid: at for uid, at in self._asked.items() if now < at + _AGAIN_SECONDS}
        return {pod.group for uid in self._asked if (pod := self._world.pods.get(uid)) is not None}

    def _next(
        self, queue: QueueName, entries: Iterable[Entry], shown: int, taken: dict[QueueName, Sums], now: float
    ) -> Iterator[Entry]:
        """In the queue's order; who must wait for a turn is not passed."""
        if shown >= SHOWN_PODS:
            return
        for entry in sorted((entry for entry in entries if _due(entry, now)), key=self._asking.order_key):
            asked, size = self._asking.asked(entry), self._world.tallies[entry.key].gated
            if (shown and shown + size > SHOWN_PODS) or not self._fits(queue, asked, taken):
                return
            self._take(queue, asked, taken)
            shown += size
            yield entry

    def _hidden(self, entry: Entry) -> Iterator[Pod]:
        for pod in self._world.members[entry.key].values():
            if pod.queue_gated and pod.uid not in self._asked and standing(pod) is Standing.WAITING:
                yield pod

    def _ungate(self, pod: Pod, now: float) -> Ungate:
        self._asked[pod.uid] = now
        return Ungate(pod.uid, pod.namespace, pod.name)

    def _fits(self, queue: QueueName, asked: Amounts, taken: Mapping[QueueName, Sums]) -> bool:
        """Whether no capability is exceeded by what is used, what is in sight, and this."""
        path, sums = self._usage.tree.path(queue), dict(asked)
        return all(over_capability(self._usage, name, sums, taken.get(name, {})) is None for name in path)

    def _take(self, queue: QueueName, asked: Amounts, taken: dict[QueueName, Sums]) -> None:
        for name in self._usage.tree.path(queue):
            add(taken.setdefault(name, {}), asked)


def _due(entry: Entry, now: float) -> bool:
    return now >= entry.refused_at + SHOWN_AFTER_SECONDS
