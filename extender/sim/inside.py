"""What the sidecar of the virtual cluster says and does: read off its engine and its gate.

Takes the played scheduler, gives answers; must not change anything.
"""

from __future__ import annotations

from collections.abc import Iterable

from extender.core.ids import GroupKey, PodUid, Source
from extender.core.membership import Need, satisfied
from extender.core.reasons import Refusal
from extender.sim.answers import Said, of_refusal
from extender.sim.api import NAMESPACE, Request
from extender.sim.lives import Life
from extender.sim.scheduler import Scheduler


class Inside:
    """The sidecar's word."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def held(self, name: str, waiting: Iterable[Life]) -> set[str]:
        """Pods whose bind call is unanswered, or whose group's plan stands."""
        return {life.uid for life in self._scheduler.waiting_calls()} | self._planned(name, waiting)

    def _planned(self, name: str, waiting: Iterable[Life]) -> set[str]:
        """Members with a reservation, when those are enough for the group to start."""
        engine, key = self._scheduler.sidecar.engine, GroupKey(Source.MUSTER, NAMESPACE, name)
        found = {life.uid for life in waiting if engine.view.planned(PodUid(life.uid)) is not None}
        need, tally = engine.world.need(key), engine.world.tallies.get(key)
        if not found or not isinstance(need, Need) or tally is None:
            return set()
        tasks = [engine.world.pods[PodUid(uid)].task for uid in found if PodUid(uid) in engine.world.pods]
        return found if satisfied(need, tally, tasks) else set()

    def why_group(self, name: str) -> Said | None:
        """Why a group waits."""
        return _said(self._scheduler.sidecar.engine.view.why(GroupKey(Source.MUSTER, NAMESPACE, name)))

    def why_pod(self, life: Life) -> Said | None:
        """Why a waiting pod waits; one that has a place is just about to be bound."""
        view, uid = self._scheduler.sidecar.engine.view, PodUid(life.uid)
        return None if view.planned(uid) is not None else _said(view.refusal(uid))

    def answer(self, call: str) -> str | None:
        """The answer to a named call: an error, or an empty text; None when there was none."""
        return self._scheduler.answers.get(call)

    def requests(self) -> Iterable[Request]:
        """All writes of the sidecar."""
        return self._scheduler.sidecar.writes.requests

    def longest(self) -> float:
        """The longest call or cycle in real seconds."""
        return self._scheduler.sidecar.longest


def _said(refusal: Refusal | None) -> Said | None:
    return None if refusal is None else of_refusal(refusal)
