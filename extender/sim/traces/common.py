"""The one form in which all traces come: jobs of equal pods, and the hosts that they ran on.

Takes nothing, gives frozen data; must not know any file format. Times in seconds from the trace's own zero, CPU in
millicores, memory in MiB, GPUs whole.
"""

from __future__ import annotations

from dataclasses import dataclass

#: the queues that traces without queues get: each deserves the same, and they ask for this much of all work (percent)
QUEUES = (("q0", 50), ("q1", 25), ("q2", 15), ("q3", 10))
#: pods on a host, as kubelets have it
HOST_PODS = 110


@dataclass(frozen=True, slots=True)
class Ask:
    """What one pod asks for. `models` are the kinds of GPU that it takes; () takes any."""

    cpu: int
    memory: int
    gpus: int
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """So many equal pods that work together: all of them, or none, get anything done."""

    name: str
    submitted: float
    #: seconds of work, once all pods run
    duration: float
    pods: int
    ask: Ask
    queue: str = "q0"
    priority: int = 0

    @property
    def gpus(self) -> int:
        """GPUs of all its pods."""
        return self.pods * self.ask.gpus

    @property
    def work(self) -> float:
        """Seconds times GPUs."""
        return self.gpus * self.duration


@dataclass(frozen=True, slots=True)
class Host:
    """A node, and the rack in which it stands."""

    name: str
    cpu: int
    memory: int
    gpus: int
    model: str = ""
    rack: str = "rack-0"

    def room(self, ask: Ask) -> int:
        """How many such pods fit when it is empty."""
        if ask.models and self.model not in ask.models:
            return 0
        each = ((self.cpu, ask.cpu), (self.memory, ask.memory), (self.gpus, ask.gpus), (HOST_PODS, 1))
        return min(there // asked for there, asked in each if asked)


@dataclass(frozen=True, slots=True)
class Bad:
    """A row that is left out: of which file, its line, and what is wrong with it."""

    path: str
    line: int
    what: str


@dataclass(frozen=True, slots=True)
class Source:
    """One file: what it is, what is taken from it, and what is made up because it does not say."""

    path: str
    format: str
    rows: int
    takes: str
    makes: str


@dataclass(frozen=True, slots=True)
class Trace:
    """What was read of all files together. Jobs are in order of submission, their names are unique."""

    sources: tuple[Source, ...]
    jobs: tuple[Job, ...]
    hosts: tuple[Host, ...]
    bad: tuple[Bad, ...]
    #: the seed of all that is made up
    seed: int
    #: rules of what was made up for the trace as a whole
    made: tuple[str, ...] = ()

    @property
    def gpus(self) -> int:
        """GPUs of all hosts."""
        return sum(host.gpus for host in self.hosts)

    @property
    def span(self) -> float:
        """Seconds from the first submission to the last."""
        return self.jobs[-1].submitted - self.jobs[0].submitted if self.jobs else 0.0
