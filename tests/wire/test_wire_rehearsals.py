"""What is asked about a node or queues, and what cannot be, by name."""

from __future__ import annotations

from typing import Any

import pytest

from extender.core.ids import QueueName, Source
from extender.core.model import QueueStatus
from extender.wire import rehearsals
from extender.wire.fields import DecodeError
from tests.builders import make_queue


def queue(name: str = "q", version: str = "muster.dev/v1alpha1", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def asked(*queues: object) -> dict[str, Any]:
    return {"spec": {"queues": list(queues)}}


def test_queues_of_both_kinds_are_read_without_a_status() -> None:
    told = queue(deserved={"cpu": "2"}) | {"status": {"state": "Closed"}}
    ours, theirs = rehearsals.decode_queues(asked(told, queue("v", "scheduling.volcano.sh/v1beta1", weight=3)))
    assert (ours.name, ours.source, ours.deserved) == ("q", Source.MUSTER, (("cpu", 2000),))
    assert ours.status == QueueStatus()
    assert (theirs.source, theirs.weight) == (Source.VOLCANO, 3)


def test_a_queue_takes_the_place_of_the_one_of_its_name() -> None:
    there = make_queue("q", uid="u", status=QueueStatus(pending=3))
    changed, new = rehearsals.in_place(rehearsals.decode_queues(asked(queue("q"), queue("n"))), [there])
    assert (changed.uid, changed.status.pending, new.name) == ("u", 3, QueueName("n"))


WRONG: dict[str, tuple[object, str]] = {
    "nothing": (None, "spec.queues: 0 queues"),
    "no list": ({"spec": {"queues": 3}}, "spec.queues: 3 is not"),
    "what is no queue": (asked({"kind": "Pod"}), r"spec.queues\[0\]: no Queue of a kind that is known"),
    "a queue without a name": (asked(queue("")), "name"),
    "a field that cannot be read": (asked(queue(weight="many")), r"spec.queues\[0\].spec.weight: 'many' is not"),
    "too many": (asked(*(queue(f"q{n}") for n in range(501))), "501 queues, and 1 to 500"),
}


@pytest.mark.parametrize(("content", "says"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_asked_about_queues_is_named(content: object, says: str) -> None:
    with pytest.raises(DecodeError, match=says):
        rehearsals.decode_queues(content)


@pytest.mark.parametrize("content", [None, [], {}, {"spec": {}}, {"spec": {"node": ""}}, {"spec": {"node": 3}}])
def test_a_drain_names_a_node(content: object) -> None:
    with pytest.raises(DecodeError, match=r"spec\.node"):
        rehearsals.decode_drain(content)
