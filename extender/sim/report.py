"""A trouble report as values: a scenario and what is wanted of it.

Takes what `reading` found sound, gives frozen values with their defaults; must not hold behaviour. Times are
virtual seconds from the start, amounts are quantities as written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Amounts = Mapping[str, str]
#: a run goes on so long after the last time that its report names
AFTER_LAST_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Card:
    """One device of a node, as the node publishes it."""

    id: str
    memory_mib: int
    cores: int
    slots: int
    healthy: bool = True


@dataclass(frozen=True, slots=True)
class Node:
    """A node."""

    name: str
    allocatable: Amounts
    labels: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[Card, ...] = ()


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue; None is a field that is not written."""

    name: str
    parent: str | None = None
    weight: int | None = None
    capability: Amounts | None = None
    deserved: Amounts | None = None
    guarantee: Amounts | None = None
    reclaimable: bool | None = None
    priority: int | None = None
    state: str | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """Equal pods of a group. `at` None: with the group."""

    name: str
    replicas: int
    requests: Amounts
    min: int | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    at: float | None = None
    placed: Mapping[str, int] = field(default_factory=dict)
    init_requests: Amounts | None = None
    sidecar_requests: Amounts | None = None
    overhead: Amounts | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """A pod group and its pods."""

    name: str
    minMember: int
    tasks: tuple[Task, ...]
    queue: str | None = None
    priority: int = 0
    at: float = 0.0
    topology: Mapping[str, str] = field(default_factory=dict)
    preemptible: bool = True
    recreate: bool = False
    runtime: float | None = None
    declared_runtime: int | None = None
    grace: float = 0.0


@dataclass(frozen=True, slots=True)
class Pod:
    """A loose pod: a group of one, or without a queue another scheduler's."""

    name: str
    requests: Amounts
    queue: str | None = None
    priority: int = 0
    at: float = 0.0
    node: str | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Budget:
    """A disruption budget over a group."""

    name: str
    group: str
    min_available: int


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens; `fields` are those of its kind."""

    at: float
    kind: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Check:
    """Something that is wanted: at one moment, from a time on, until a time, or all along.

    `fields` are those of its kind; an `any_of` has `options` instead, of which one must hold whole.
    """

    kind: str
    fields: Mapping[str, Any]
    at: float | None = None
    by: float | None = None
    until: float | None = None
    options: tuple[tuple[Check, ...], ...] = ()

    def __str__(self) -> str:
        if self.options:
            return "any_of: " + " | ".join(" and ".join(map(str, option)) for option in self.options)
        said = [f"{name} {_plain(value)}" for name, value in self.fields.items()]
        said += [f"{name} {time:g}" for name in ("at", "by", "until") if (time := getattr(self, name)) is not None]
        return " ".join([self.kind, *said])


@dataclass(frozen=True, slots=True)
class Settings:
    """Numbers that a scenario sets."""

    end: float | None = None
    bind_window: float = 5.0
    hold_seconds: float | None = None
    http_timeout: float = 600.0
    stale_gang_seconds: int | None = None
    max_rejections_per_node: int | None = None
    gpu_charge: str = "gpus"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster, and what happens to it."""

    nodes: tuple[Node, ...]
    queues: tuple[Queue, ...] = ()
    groups: tuple[Group, ...] = ()
    pods: tuple[Pod, ...] = ()
    budgets: tuple[Budget, ...] = ()
    events: tuple[Event, ...] = ()
    settings: Settings = Settings()


@dataclass(frozen=True, slots=True)
class Report:
    """One report."""

    id: str
    area: str
    scenario: Scenario
    want: tuple[Check, ...]

    @property
    def end(self) -> float:
        """When the run ends."""
        end = self.scenario.settings.end
        return end if end is not None else max(self._times(), default=0.0) + AFTER_LAST_SECONDS

    def check_times(self) -> set[float]:
        """The moments at which something is read."""
        return {time for check in single(self.want) for time in (check.at, check.by, check.until) if time is not None}

    def _times(self) -> Iterator[float]:
        scenario = self.scenario
        yield from self.check_times()
        for event in scenario.events:
            yield event.at
            if "until" in event.fields:
                yield event.fields["until"]
        for group in scenario.groups:
            yield group.at
            yield from (task.at for task in group.tasks if task.at is not None)
        yield from (pod.at for pod in scenario.pods)


def single(checks: tuple[Check, ...]) -> Iterator[Check]:
    """The checks, with the options of each `any_of` in its place."""
    for check in checks:
        if check.options:
            for option in check.options:
                yield from single(option)
        else:
            yield check


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {one}" for key, one in value.items()) + "}"
    return f"{value:g}" if isinstance(value, float) else str(value)
