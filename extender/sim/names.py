"""The names in a report: how pods are named, and that every name means one thing.

Takes a report whose fields are sound, raises a Fault for a name that means nothing; must not read files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from extender.core.ids import DEFAULT_QUEUE
from extender.sim.fields import Fault, one_of
from extender.sim.report import Event, Report, Task, single

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_POD = re.compile(r"(?P<name>\S+)(?: \((?P<ordinal>\w+) UID\))?")
_ON_NODE = re.compile(r"on (?P<node>\S+)")


@dataclass(frozen=True, slots=True)
class PodName:
    """How a file names a pod: by its name, perhaps the how manyth of it, or by its node."""

    name: str = ""
    #: from 0; None is the pod that has the name then
    ordinal: int | None = None
    node: str = ""


def pod_name(written: str) -> PodName | None:
    """What a name of a pod means; None when it means nothing."""
    found = _ON_NODE.fullmatch(written)
    if found is not None:
        return PodName(node=found["node"])
    found = _POD.fullmatch(written)
    if found is None or found["ordinal"] not in (None, *_ORDINALS):
        return None
    return PodName(found["name"], None if found["ordinal"] is None else _ORDINALS.index(found["ordinal"]))


#: how a report calls the kinds of objects
_KINDS = {"pod": "Pod", "node": "Node", "podgroup": "PodGroup", "group": "PodGroup", "queue": "Queue"}
_EVENTS_OF = re.compile(r"events (and conditions )?of (?P<object>.*)")
#: a user's write is named as its event is
_WRITES = ("set_queue ", "set_min_member ", "close_queue ")
_FORMS = "write KIND/NAME, such as podgroup/train status, or pod train-w-0"


def object_named(written: str) -> tuple[str, str, str]:
    """Kind, name and subresource of an object as a report names it: `podgroup/train status`, `node n1`."""
    words = written.replace("/", " ", 1).split()
    kind = _KINDS.get(words[0].lower(), "") if words else ""
    return kind, words[1] if len(words) > 1 else "", words[2] if len(words) > 2 else ""


class Names:
    """What a report's events and checks may name."""

    def __init__(self, told: Report) -> None:
        self._told = told
        scenario = told.scenario
        added = [event.fields["node"] for event in scenario.events if event.kind == "add_node"]
        self._nodes = [node.name for node in (*scenario.nodes, *added)]
        added = [event.fields["queue"] for event in scenario.events if event.kind == "add_queue"]
        self._queues = [DEFAULT_QUEUE, *(queue.name for queue in (*scenario.queues, *added))]
        self._groups = [group.name for group in scenario.groups]
        self._pods = [pod.name for pod in scenario.pods] + list(dict.fromkeys(self._members()))
        self._of_key = {
            **dict.fromkeys(("group", "groups", "first", "then"), self._groups),
            **dict.fromkeys(("node", "in", "not_in"), self._nodes),
            "queue": self._queues,
        }

    def _members(self) -> Iterator[str]:
        for group in self._told.scenario.groups:
            for task in group.tasks:
                yield from _pods_of(group.name, task.name, 0, task.replicas)
        later: dict[tuple[str, str], int] = {}
        for event in self._told.scenario.events:
            added = _added(event)
            if added is not None:
                of = (event.fields["group"], added.name)
                first = later.get(of, self._replicas(*of))
                later[of] = first + added.replicas
                yield from _pods_of(*of, first, later[of])

    def _replicas(self, group: str, task: str) -> int:
        tasks = (one for told in self._told.scenario.groups if told.name == group for one in told.tasks)
        return sum(one.replicas for one in tasks if one.name == task)

    def check(self, path: str) -> None:
        """Raise a Fault for the first name that means nothing, or two things."""
        self._each_once(path)
        self._groups_and_pods(path)
        for number, event in enumerate(self._told.scenario.events):
            self._fields(event.fields, f"{path}.scenario.events[{number}]", event.kind)
        for check in single(self._told.want):
            self._fields(check.fields, f"{path}.want[{check.kind}]", check.kind)

    def _each_once(self, path: str) -> None:
        scenario = self._told.scenario
        nodes, queues = [node.name for node in scenario.nodes], [queue.name for queue in scenario.queues]
        for what, names in (("nodes", nodes), ("queues", queues), ("groups", self._groups), ("pods", self._pods)):
            for name in names:
                if names.count(name) > 1:
                    raise Fault(f"{path}.scenario.{what}", f"two are called {name!r}", "rename one")

    def _groups_and_pods(self, path: str) -> None:
        scenario = self._told.scenario
        for group in scenario.groups:
            for task in group.tasks:
                where = f"{path}.scenario.groups[{group.name}].tasks[{task.name}].placed"
                for node in task.placed:
                    _known(node, self._nodes, where)
                if sum(task.placed.values()) > task.replicas:
                    raise Fault(where, "more are placed than there are replicas", "raise `replicas`")
        for pod in scenario.pods:
            if pod.node is not None:
                _known(pod.node, self._nodes, f"{path}.scenario.pods[{pod.name}].node")
        for budget in scenario.budgets:
            _known(budget.group, self._groups, f"{path}.scenario.budgets[{budget.name}].group")

    def _fields(self, fields: Mapping[str, Any], path: str, kind: str) -> None:
        for key, value in fields.items():
            where = f"{path}.{key}"
            names = value if isinstance(value, tuple) else (value,)
            if key in ("pod", "pods"):
                for name in names:
                    self._pod(name, where)
            elif key == "object":
                self._object(value, where)
            elif (kind, key) != ("repeat_bind", "node"):
                for name in names if key in self._of_key else ():
                    if isinstance(name, str):  # what is added is no name
                        _known(name, self._of_key[key], where)

    def _object(self, written: str, path: str) -> None:
        if written.startswith(_WRITES):
            return
        of_events = _EVENTS_OF.fullmatch(written)
        kind, name, _ = object_named(written if of_events is None else of_events["object"])
        known = {"Pod": self._pods, "Node": self._nodes, "PodGroup": self._groups, "Queue": self._queues}.get(kind)
        if known is None:
            raise Fault(path, f"{written!r} names no object", _FORMS)
        _known(name, known, path)

    def _pod(self, written: str, path: str) -> None:
        meant = pod_name(written)
        if meant is None:
            raise Fault(path, f"{written!r} names no pod", "write a name, `NAME (second UID)` or `on NODE`")
        if meant.node:
            _known(meant.node, self._nodes, path)
        else:
            _known(meant.name, self._pods, path)


def _added(event: Event) -> Task | None:
    task = event.fields.get("task") if event.kind == "add_pods" else None
    return task if isinstance(task, Task) else None


def _pods_of(group: str, task: str, first: int, end: int) -> Iterable[str]:
    return (f"{group}-{task}-{index}" for index in range(first, end))


def _known(name: str, names: list[str], path: str) -> None:
    one_of(*names)(name, path)
