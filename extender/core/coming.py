"""Pods that are leaving their nodes, or are asked to: room that comes to whoever has the first turn.

Takes the world, the evictions that are under way, and which groups changed; gives the absence of those pods. Must not
know for whom they leave. Who has not left after a long time is not waited for any more.
"""

from __future__ import annotations

from collections.abc import Iterable

from extender.core.absence import Absence
from extender.core.ids import GroupKey, PodUid
from extender.core.model import Pod
from extender.core.wholes import Wholes
from extender.core.world import World

#: who has not left after so long is not waited for any more
STUCK_SECONDS = 900.0


class Coming:
    """Those that leave, as they were when this was made or last told of their group."""

    def __init__(
        self, world: World, wholes: Wholes, since: dict[PodUid, float], shape: tuple[int, ...], now: float
    ) -> None:
        """`shape` is that of the room's array. `since`: since when those that are leaving are known to; kept up."""
        self._world = world
        self._wholes = wholes
        self._since = since
        self.absence = Absence(world, shape)
        #: somebody is not waited for any more from then on, so that this must be made anew
        self.until = float("inf")
        #: by group, those that leave, whether or not they are waited for
        self._of: dict[GroupKey, list[PodUid]] = {}
        for uid in since.keys() - world.leaving.keys():
            del since[uid]
        asked = (pod for uid in wholes.asked if (pod := world.pods.get(uid)) is not None and pod.bound)
        self.add((*world.leaving.values(), *asked), now)

    def renew(self, key: GroupKey, now: float) -> None:
        """Something of the group has changed, or evictions of its members are under way."""
        before = self._of.pop(key, ())
        self.absence.remove(uid for uid in before if uid in self.absence.pods)
        leaving, asked = self._world.leaving, self._wholes.asked
        for uid in before:
            if uid not in leaving:
                self._since.pop(uid, None)
        members = self._world.members.get(key, {}).values()
        self.add([pod for pod in members if pod.uid in leaving or (pod.bound and pod.uid in asked)], now)

    def add(self, pods: Iterable[Pod], now: float) -> None:
        """These, who were not known to, leave or are asked to."""
        waited_for = []
        for pod in pods:
            self._of.setdefault(pod.group, []).append(pod.uid)
            since = self._since.setdefault(pod.uid, now) if pod.uid in self._world.leaving else now
            if now < since + STUCK_SECONDS:
                waited_for.append(pod)
                self.until = min(self.until, since + STUCK_SECONDS)
        self.absence.add(waited_for)
