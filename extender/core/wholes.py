"""Evictions that are under way, and gangs that go as wholes: every member, or as few tries as possible to that end.

Takes the world and who is to go, gives evictions; must not decide that anybody goes, nor look at nodes.

An eviction is under way from when it was asked for until the watch shows the pod leaving, or it was refused. A gang
that goes as a whole is asked for at once (design invariant 1). Who of it is refused, by a disruption budget for one,
is asked again after a while, each time twice as long, and only while nothing else of the gang is left.

    going ──all have left, it is whole again, a new member is bound, or TRIES──> forgotten
      ^  └──the last of those asked for have left, and some were refused──> waits ──AGAIN_SECONDS * 2^n──┐
      └──────────────────────────────────────────────────────────────────────────────────────────────────┘

What was asked for is kept when the engine's other records are reset: it is under way all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass

from extender.core.ids import GroupKey, PodUid
from extender.core.membership import Need, Standing, satisfied, standing
from extender.core.messages import Evict
from extender.core.model import Pod
from extender.core.reasons import Detail, Ground
from extender.core.world import World

#: what is under way is looked at so often
LOOK_SECONDS = 1.0
#: after a refusal it is tried again; each next time after twice as long, so many times in all
AGAIN_SECONDS = 10.0
TRIES = 5


@dataclass(slots=True)
class _Whole:
    """A gang that goes as a whole: who is refused is asked again, until none is left or the gang is whole again."""

    ground: Ground
    detail: Detail
    members: frozenset[PodUid]
    not_before: float = 0.0
    tries: int = 1


class Wholes:
    """All evictions that are under way. `under_way` tells whether members of a group may be bound at any moment."""

    def __init__(self, world: World, under_way: Callable[[GroupKey], bool]) -> None:
        self._world = world
        self._under_way = under_way
        #: in the order in which they were asked for
        self._asked: dict[PodUid, None] = {}
        self._wholes: dict[GroupKey, _Whole] = {}
        self._look_at = float("-inf")
        #: told of each group of which an eviction is under way from now on, or is not any more, and of wholes too
        self.changed: Callable[[GroupKey], None] = lambda _: None

    @property
    def asked(self) -> Set[PodUid]:
        """Pods whose eviction was asked for; of those that are bound, exactly the ones that are to leave."""
        return self._asked.keys()

    def evicting(self, key: GroupKey) -> bool:
        """True while members of a gang that goes as a whole are still to go: a new one would be left alone."""
        return key in self._wholes and any(pod.uid in self._asked for pod in self.bound(key))

    def going(self, key: GroupKey) -> bool:
        """True while the gang is known to go as a whole, members that were refused included."""
        return key in self._wholes

    def bound(self, key: GroupKey) -> list[Pod]:
        """Members of the group that are on nodes and stay there as far as the watch shows."""
        return [pod for pod in self._world.members.get(key, {}).values() if is_bound(pod)]

    def ask(self, pods: Iterable[Pod], ground: Ground, detail: Detail) -> list[Evict]:
        """Evictions of these pods. Groups of which then nobody stays go as wholes."""
        pods = list(pods)
        self._asked |= dict.fromkeys(pod.uid for pod in pods)
        for key in {pod.group: None for pod in pods}:
            self.changed(key)
            bound = [] if key.lone else self.bound(key)
            if bound and all(pod.uid in self._asked for pod in bound):
                self._wholes[key] = _Whole(ground, detail, frozenset(pod.uid for pod in bound))
        return [self._eviction(pod, ground, detail) for pod in pods]

    def refused(self, effect: Evict, now: float) -> bool:
        """An eviction could not be carried out; False when it is not known to be under way."""
        if effect.uid not in self._asked:
            return False
        del self._asked[effect.uid]
        pod = self._world.pods.get(effect.uid)
        if pod is not None:
            self.changed(pod.group)
        whole = self._wholes.get(pod.group) if pod is not None else None
        if whole is not None:
            whole.not_before = max(whole.not_before, now + pause(whole.tries))
        return True

    def look(self, now: float) -> list[Evict]:
        """When it is time: note who has left; the evictions to write again."""
        if now < self._look_at:
            return []
        self._look_at = now + LOOK_SECONDS
        self._asked = {uid: None for uid in self._asked if is_bound(self._world.pods.get(uid))}
        return [effect for key in list(self._wholes) for effect in self._finish(key, now)]

    def _finish(self, key: GroupKey, now: float) -> list[Evict]:
        """Ask again for members of a whole that were refused, as long as they alone are left of it."""
        whole = self._wholes[key]
        bound, need = self.bound(key), self._world.need(key)
        if any(pod.uid in self._asked for pod in bound):
            return []
        whole_again = isinstance(need, Need) and satisfied(need, self._world.tallies[key]) if bound else True
        if whole_again or whole.tries >= TRIES or any(pod.uid not in whole.members for pod in bound):
            del self._wholes[key]
            self.changed(key)
            return []
        if now < whole.not_before or self._under_way(key):
            return []
        whole.tries += 1
        self.changed(key)
        self._asked |= dict.fromkeys(pod.uid for pod in bound)
        return [self._eviction(pod, whole.ground, whole.detail) for pod in bound]

    def _eviction(self, pod: Pod, ground: Ground, detail: Detail) -> Evict:
        """What makes the pods of a whole is stopped first, if it can be: none of them is to come again now."""
        group = self._world.groups.get(pod.group) if pod.group in self._wholes else None
        stop = None if group is None else group.switch
        return Evict(pod.uid, pod.namespace, pod.name, ground, detail, stop)


def is_bound(pod: Pod | None) -> bool:
    """True for a pod that is on a node and not known to be leaving it."""
    return pod is not None and standing(pod) is Standing.BOUND


def pause(tries: int) -> float:
    """How long to wait after so many tries in a row were refused."""
    return AGAIN_SECONDS * 2.0 ** max(tries - 1, 0)
