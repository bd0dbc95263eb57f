"""Does the model of kube-scheduler decide as a real one did? Its decisions on a trace's jobs, judged one by one.

Takes jobs, hosts and what a real kube-scheduler did with them, in order; gives how far the model agrees; must not read
files. Equals are chosen among by chance, so pods are not compared host by host. The rule, for each decision given
all real ones before it: a host is agreed with when the model finds that the pod fits there and that no host which
fits scores higher, but for as many as the search may have left out (none below 100 hosts); that none was found, when
by the model none fits; a host on which room is made, when by the model its victims' leaving is enough and those of no
other host are less important or fewer. How strict that is, is told beside it: the part of the placements that a host
drawn by chance, among those that fit, would have been agreed with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from extender.sim.traces.common import Host, Job
from extender.sim.trial.cluster import Broken, Cluster, Pod, State, Work
from extender.sim.trial.hosts import Hosts, scored_of
from extender.sim.trial.pod_by_pod import choice_on, free_for, possible
from extender.sim.trial.scoring import Scores

#: what must hold at least: the part of all decisions that is agreed with
ENOUGH = 0.95


class Kind(Enum):
    """What a kube-scheduler did, or was told."""

    PLACED = "placed"
    REFUSED = "refused"
    MADE_ROOM = "made room"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Decision:
    """One of a job's pods was placed on a host, was refused, had room made for it there, or left it."""

    kind: Kind
    job: str
    host: str = ""


@dataclass(slots=True)
class Agreement:
    """How many decisions of each kind there were, and with how many the model agrees."""

    made: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(Kind, 0))
    agreed: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(Kind, 0))
    #: of the placements: how many would be agreed with by chance, among the hosts that fit
    by_chance: float = 0.0
    #: what the model says of the others
    apart: list[str] = field(default_factory=list)

    def share(self, kind: Kind) -> float:
        """The part that is agreed with; 1 of none."""
        return self.agreed[kind] / self.made[kind] if self.made[kind] else 1.0

    @property
    def enough(self) -> bool:
        """True when of each kind the model agrees with nearly all."""
        return all(self.share(kind) >= ENOUGH for kind in (Kind.PLACED, Kind.REFUSED, Kind.MADE_ROOM))


class Judge:
    """Goes through the decisions; `cluster` is as they have left it."""

    def __init__(self, jobs: Sequence[Job], hosts: Sequence[Host], scores: Scores) -> None:
        self.cluster = Cluster(hosts)
        self.found = Agreement()
        self._hosts = Hosts(self.cluster, scores, 0)
        self._jobs = {job.name: Work(job) for job in jobs}
        self._rows = {host.name: row for row, host in enumerate(hosts)}
        self._numbers = 0
        #: room that was made, by who it is for
        self._nominated: dict[Pod, int] = {}

    def judge(self, decisions: Iterable[Decision]) -> Agreement:
        """All of them."""
        for decision in decisions:
            row = self._rows.get(decision.host, -1)
            work = self._jobs.get(decision.job)
            if work is None or (row < 0) != (decision.kind is Kind.REFUSED):
                raise Broken(f"{decision.job!r} or {decision.host!r} is not in the trace")
            self._numbers += 1
            self.found.made[decision.kind] += 1
            if decision.kind is Kind.LEFT:
                self._left(work, row)
                continue
            says = self._says(decision.kind, work, row)
            if says:
                what = " ".join(filter(None, (decision.kind.value, decision.job, decision.host)))
                self.found.apart.append(f"{what}: {says}")
            else:
                self.found.agreed[decision.kind] += 1
        return self.found

    def _says(self, kind: Kind, work: Work, row: int) -> str:
        """What the model says against it; nothing when it agrees."""
        pod = next((one for one in self._nominated if one.work is work), None)
        if pod is None:
            pod = self.cluster.submit(work, 0, f"{work.job.name}-{self._numbers}", float(self._numbers))
        if kind is Kind.REFUSED:
            return self._refused(pod)
        if kind is Kind.MADE_ROOM:
            says = self._made_room(pod, row)
            self._nominated[pod] = row
            return says
        says = self._placed(pod, row)
        self._nominated.pop(pod, None)
        self.cluster.put(pod, row, float(self._numbers))  # it is a fact, whatever the model says of it
        return says

    def _placed(self, pod: Pod, row: int) -> str:
        if self._nominated.get(pod) == row:
            return ""  # it is tried first, and taken when it fits
        free = free_for(self.cluster, self._nominated, pod)
        fitting = np.flatnonzero(self.cluster.fitting(pod.ask, free))
        if row not in fitting:
            return "it does not fit there"
        scores = self._hosts.scores(pod.ask, self.cluster.free, fitting)  # it knows nothing of room that is kept
        left_out = max(len(fitting) - scored_of(len(self._rows)), 0)
        own = int(scores[fitting == row][0])
        higher = (scores[:, None] < scores[None, :]).sum(axis=1)
        self.found.by_chance += float((higher <= left_out).mean())
        better = int((scores > own).sum())
        if better <= left_out:
            return ""
        return f"it scores {own} there, and higher on {better} of {len(fitting)}, up to {int(scores.max())}"

    def _refused(self, pod: Pod) -> str:
        free = free_for(self.cluster, self._nominated, pod)
        fitting = int(self.cluster.fitting(pod.ask, free).sum())
        return f"it fits on {fitting}" if fitting else ""

    def _made_room(self, pod: Pod, row: int) -> str:
        free = free_for(self.cluster, self._nominated, pod)
        choices = {at: choice_on(self.cluster, pod, at, free) for at in possible(self.cluster, pod)}
        # how long victims have run is told in whole seconds on real pods, so it is not compared
        costs = {at: choice.cost[:3] for at, choice in choices.items() if choice is not None}
        if row not in costs:
            return "no victims there make room"
        least = min(costs.values())
        return "" if costs[row] == least else f"victims cost {costs[row]} there, and {least} elsewhere"

    def _left(self, work: Work, row: int) -> None:
        pod = next((one for one in self.cluster.on[row].values() if one.work is work), None)
        if pod is None:
            raise Broken(f"no pod of {work.job.name} is on {self.cluster.hosts[row].name}, and one left it")
        self.cluster.leave(pod, State.ENDED)
