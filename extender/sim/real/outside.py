"""What Muster on a real cluster says and does, as its objects show it.

Takes what watches have shown, gives answers in the reports' words; must not ask anybody. What no object shows is
`Unread`.
"""

from __future__ import annotations

from collections.abc import Iterable

from extender.sim.answers import Said, code_of
from extender.sim.api import Json, Request
from extender.sim.lives import Life
from extender.sim.real.cluster import RealCluster
from extender.sim.sight import Unread
from extender.wire.groups import WHY_ANNOTATION


class Outside:
    """Muster's word."""

    def __init__(self, cluster: RealCluster) -> None:
        self._cluster = cluster
        #: uids of the pods whose bind calls the permit gate holds; None when it is not asked
        self.holds: frozenset[str] | None = None

    def held(self, name: str, waiting: Iterable[Life]) -> set[str]:
        """Pods whose bind call is unanswered."""
        if self.holds is None:
            raise Unread("only the permit gate knows what it holds: name it with --gate")
        return {life.uid for life in waiting if life.uid in self.holds}

    def why_group(self, name: str) -> Said | None:
        """Why a group waits: what stands in its status."""
        group = self._cluster.get("PodGroup", name)
        status = group.get("status", {}) if group is not None else {}
        reason = status.get("reason")
        return Said(code_of(reason), str(status.get("message", ""))) if reason else None

    def why_pod(self, life: Life) -> Said | None:
        """Why a waiting pod waits: what its group says, or its own annotation if it is alone."""
        if life.making.group is not None:
            return self.why_group(life.making.group.name)
        pod = self._cluster.get("Pod", life.making.name)
        said = _annotated(pod) if pod is not None else None
        if said is None:
            raise Unread("why a pod without a group waits stands in no object")
        return said

    def answer(self, call: str) -> str | None:
        """Nobody here sees answers to kube-scheduler."""
        raise Unread("answers to kube-scheduler's calls are seen by kube-scheduler alone")

    def requests(self) -> Iterable[Request]:
        """Writes of Muster and of kube-scheduler, as far as they changed something."""
        return self._cluster.requests

    def longest(self) -> float:
        """How long calls take is not in the objects."""
        raise Unread("how long calls and cycles take stands in Muster's metrics alone")


def _annotated(pod: Json) -> Said | None:
    reason, colon, text = pod["metadata"].get("annotations", {}).get(WHY_ANNOTATION, "").partition(": ")
    return Said(code_of(reason), text) if colon else None
