"""Nodes of which something cannot be read are counted, and each is named once."""

from __future__ import annotations

import pytest

from extender.core import messages
from extender.core.model import Node
from extender.runtime import census
from tests.builders import gpu_node
from tests.core.engine_driver import Driver


class Told:
    """The metrics that are told here, and what is logged."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.lines: list[tuple[str, str]] = []

    def unreadable(self, number: int) -> None:
        self.counts.append(number)

    def warning(self, _message: str, *, node: str, problem: str) -> None:
        self.lines.append((node, problem))


def bad(name: str, problem: str = "annotation: no JSON") -> Node:
    return gpu_node(name, problems=(problem,))


def test_nodes_that_cannot_be_read_are_counted_and_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    monkeypatch.setattr(census, "LOG", told)
    engine = Driver(gpu_node("sound"), bad("a"), bad("b"))
    known = census._tell_unread(engine.engine, told, {})
    assert (told.counts, sorted(told.lines)) == ([2], [("a", "annotation: no JSON"), ("b", "annotation: no JSON")])
    engine.send(messages.NodeSeen(gpu_node("a")), messages.NodeSeen(bad("b", "other")))
    known = census._tell_unread(engine.engine, told, known)
    assert told.counts == [2, 1]
    assert told.lines[2:] == [("b", "other")]
    census._tell_unread(engine.engine, told, known)
    assert told.lines[3:] == []
