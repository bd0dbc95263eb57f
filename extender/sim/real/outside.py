"""What Muster on a real cluster says and does, as its live answers and its objects show it.

Takes what watches have shown and the newest answers, gives them in the reports' words; must not ask anybody. What
cannot be seen is `Unread`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from extender.core.ids import Source
from extender.sim.answers import Said, code_of
from extender.sim.api import Json, Request
from extender.sim.lives import Life
from extender.sim.real.cluster import RealCluster
from extender.sim.sight import Unread
from extender.wire.answers import name_of

_NO_ANSWERS = "only live answers tell: install them (manifests/answers)"


class Outside:
    """Muster's word."""

    def __init__(self, cluster: RealCluster) -> None:
        self._cluster = cluster
        #: the status of each workload as the live answer has it, by its name there; None where none are served
        self.answers: Mapping[str, Json] | None = None

    def held(self, name: str, waiting: Iterable[Life]) -> set[str]:
        """As many of the waiting pods as have a planned place; a live answer does not say which."""
        planned = self._answer(Source.MUSTER, name).get("members", {}).get("planned", 0)
        return {life.uid for _, life in zip(range(planned), waiting, strict=False)}

    def why_group(self, name: str) -> Said | None:
        """Why a group waits: what stands in its object where there are no live answers, which may lag."""
        if self.answers is not None:
            return _said(self._answer(Source.MUSTER, name))
        group = self._cluster.get("PodGroup", name)
        return _said(group.get("status", {})) if group is not None else None

    def why_pod(self, life: Life) -> Said | None:
        """Why a waiting pod waits: what its group says, if it has one."""
        if life.making.group is not None:
            return self.why_group(life.making.group.name)
        return _said(self._answer(Source.POD, life.making.name))

    def _answer(self, source: Source, name: str) -> Json:
        if self.answers is None:
            raise Unread(_NO_ANSWERS)
        return self.answers.get(name_of(source, name), {})

    def answer(self, call: str) -> str | None:
        """Nobody here sees answers to kube-scheduler."""
        raise Unread("answers to kube-scheduler's calls are seen by kube-scheduler alone")

    def requests(self) -> Iterable[Request]:
        """Writes of Muster and of kube-scheduler, as far as they changed something."""
        return self._cluster.requests

    def longest(self) -> float:
        """How long calls take is not in the objects."""
        raise Unread("how long calls and cycles take stands in Muster's metrics alone")


def _said(status: Json) -> Said | None:
    reason = status.get("reason")
    if not reason:
        return None
    detail = tuple((str(one["name"]), one["value"]) for one in status.get("detail", ()))
    return Said(code_of(reason), str(status.get("message", "")), detail)
