"""The truth of a replay: what is free on each host, and where each pod is.

Takes bindings and ends, gives room; must not decide. Nothing can be taken that is not there, and each pod that was
submitted is in exactly one place: anything else is a Broken replay, never a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from extender.sim.traces.common import HOST_PODS, Ask, Host, Job

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

CPU, MEMORY, GPUS, PODS = range(4)


class Broken(Exception):
    """The replay is at fault, or a policy did what no cluster allows."""


class State(IntEnum):
    """Where a pod is. Every pod goes down this list, and may leave out what it does not come to."""

    WAITING = 0
    ON_HOST = 1
    ENDED = 2
    EVICTED = 3


@dataclass(slots=True, eq=False)
class Pod:
    """One pod of a job; one that was evicted has an heir, which waits in its place."""

    uid: str
    work: Work
    number: int
    created: float
    state: State = State.WAITING
    row: int = -1
    bound_at: float = 0.0

    @property
    def ask(self) -> Ask:
        """What it asks for."""
        return self.work.job.ask


@dataclass(slots=True, eq=False)
class Work:
    """A job on its way. It works while all its pods are on hosts."""

    job: Job
    pods: list[Pod] = field(default_factory=list)
    on_hosts: int = 0
    #: when all were on hosts, the newest time and the first one
    started: float | None = None
    first_started: float | None = None
    ended: float | None = None
    #: seconds of work that are left
    left: float = 0.0
    #: grows with each start and stop, so that an end that was foreseen before counts no more
    turn: int = 0

    @property
    def whole(self) -> bool:
        """True when no pod waits."""
        return self.on_hosts == self.job.pods


class Cluster:
    """Hosts by row, in the order of the trace."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self.hosts = tuple(hosts)
        self.total: Ints = np.array(
            [(host.cpu, host.memory, host.gpus, HOST_PODS) for host in hosts], dtype=np.int64
        ).reshape(-1, 4)
        self.free = self.total.copy()
        self.count = dict.fromkeys(State, 0)
        #: pods on hosts, by host
        self.on: list[dict[str, Pod]] = [{} for _ in hosts]
        self._accepted: dict[tuple[str, ...], Mask] = {}
        self._rows: dict[Ask, Ints] = {}
        self._racks = {rack: number for number, rack in enumerate(sorted({host.rack for host in hosts}))}
        self.rack_of = np.array([self._racks[host.rack] for host in hosts], dtype=np.int64)

    def row_of(self, ask: Ask) -> Ints:
        """What a pod takes, by column."""
        found = self._rows.get(ask)
        if found is None:
            found = self._rows[ask] = np.array((ask.cpu, ask.memory, ask.gpus, 1), dtype=np.int64)
        return found

    def accepted(self, ask: Ask) -> Mask:
        """Hosts of the models that the pod takes."""
        found = self._accepted.get(ask.models)
        if found is None:
            fit = [not ask.models or host.model in ask.models for host in self.hosts]
            found = self._accepted[ask.models] = np.array(fit, dtype=np.bool_)
        return found

    def fitting(self, ask: Ask, free: Ints | None = None) -> Mask:
        """Hosts on which such a pod fits, as things are or with this free."""
        room = self.free if free is None else free
        fits: Mask = np.all(room >= self.row_of(ask), axis=1)
        fits &= self.accepted(ask)
        return fits

    def submit(self, work: Work, number: int, uid: str, now: float) -> Pod:
        """A pod comes."""
        self.count[State.WAITING] += 1
        return Pod(uid, work, number, now)

    def bind(self, pod: Pod, row: int, now: float) -> None:
        """A pod that waits gets its host."""
        if pod.state is not State.WAITING:
            raise Broken(f"{pod.uid} is bound though it is {pod.state.name}")
        if not self.accepted(pod.ask)[row]:
            raise Broken(f"{pod.uid} is bound to a host of a model that it does not take")
        if (self.free[row] < self.row_of(pod.ask)).any():
            raise Broken(f"{pod.uid} is bound to {self.hosts[row].name}, which has no room for it")
        self.put(pod, row, now)

    def put(self, pod: Pod, row: int, now: float) -> None:
        """The same without a look at what is free."""
        self.free[row] -= self.row_of(pod.ask)
        pod.row, pod.bound_at = row, now
        self.on[row][pod.uid] = pod
        self._move(pod, State.ON_HOST)

    def leave(self, pod: Pod, state: State) -> None:
        """A pod leaves its host: it has ended, or was evicted."""
        if pod.state is not State.ON_HOST:
            raise Broken(f"{pod.uid} leaves its host though it is {pod.state.name}")
        self.free[pod.row] += self.row_of(pod.ask)
        del self.on[pod.row][pod.uid]
        self._move(pod, state)

    def _move(self, pod: Pod, state: State) -> None:
        self.count[pod.state] -= 1
        self.count[state] += 1
        pod.state = state

    def check(self, submitted: int) -> None:
        """Each pod that was submitted is somewhere, and those on hosts are those that were counted."""
        if sum(self.count.values()) != submitted:
            raise Broken(f"{submitted} pods were submitted, and {dict(self.count)} are accounted for")
        there = sum(map(len, self.on))
        if there != self.count[State.ON_HOST]:
            raise Broken(f"{self.count[State.ON_HOST]} pods are on hosts, and {there} are found there")

    def check_room(self) -> None:
        """What is free is what the pods on each host leave. Slow."""
        for row, pods in enumerate(self.on):
            taken = sum((self.row_of(pod.ask) for pod in pods.values()), np.zeros(4, dtype=np.int64))
            if (self.free[row] + taken != self.total[row]).any():
                raise Broken(f"what is free on {self.hosts[row].name} is not what its pods leave")
