"""Messages recorded between the real kube-scheduler and Muster: the codecs read the calls and write the replies.

The files are written by `python -m e2e.record_golden`; each reply in them is one that kube-scheduler acted upon, and
`outcome` is what it did.
"""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import orjson
import pytest

from extender.core.explain import TEXT
from extender.core.reasons import Reason
from extender.wire import extender_v1, objects

FOLDER = pathlib.Path(__file__).parents[1] / "golden" / "messages"
#: file: names offered, scheduler, pod, its GPUs, its group
NODE_CALLS: dict[str, tuple[int, str, str, int, str]] = {
    "filter-gang-member": (3, "muster", "train-0", 8, "train"),
    "filter-refused": (1, "muster", "orphan", 1, "nowhere"),
    "filter-nominated": (1, "muster", "led-0", 8, "led"),
    "filter-foreign": (3, "muster-score", "scored", 0, ""),
    "prioritize": (3, "muster-score", "scored", 0, ""),
}
BINDINGS = {"bind-gang-member": "train-0", "bind-foreign": "scored", "bind-refused": "half-0"}


def recorded(name: str) -> dict[str, Any]:
    """One file."""
    return dict(json.loads((FOLDER / f"{name}.json").read_text()))


def call_of(name: str) -> bytes:
    """The body of its call."""
    return orjson.dumps(recorded(name)["request"])


def reply_of(name: str) -> bytes:
    """The body of its reply, byte for byte."""
    return str(recorded(name)["reply"]).encode()


def node_args(name: str) -> extender_v1.NodeArgs:
    """The call's arguments, decoded."""
    return extender_v1.decode_node_args(call_of(name))


def test_every_recorded_message_is_tested() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {*NODE_CALLS, *BINDINGS, "preempt"}


def test_nothing_of_one_run_is_left_in_the_files() -> None:
    for path in FOLDER.iterdir():
        text = path.read_text()
        assert "managedFields" not in text
        uids = re.findall(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{18,}", text)
        assert all(uid.startswith("00000000-0000-4000-8000-") for uid in uids), path
        assert set(re.findall(r"\d{4}-\d\d-\d\dT[\d:.]+Z", text)) <= {"2026-01-01T00:00:00Z"}, path


# --- calls -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NODE_CALLS)
def test_the_pod_and_the_names_of_a_call_are_read(name: str) -> None:
    offered, scheduler, pod_name, gpus, group = NODE_CALLS[name]
    args = node_args(name)
    assert args.items is None
    assert list(args.offered) == recorded(name)["request"]["NodeNames"]
    assert len(args.offered) == offered
    assert extender_v1.scheduler_of(args.pod) == scheduler
    pod = objects.decode_pod(args.pod)
    assert (pod.namespace, pod.name, pod.scheduler) == ("golden", pod_name, scheduler)
    assert dict(pod.shape.request).get("nvidia.com/gpu", 0) == gpus
    assert pod.group.name == (group or pod.uid)
    assert pod.group.lone is (group == "")
    assert pod.waiting
    assert not pod.queue_gated
    assert pod.problems == ()


def test_a_nominated_pod_is_offered_its_own_node_alone() -> None:
    args = node_args("filter-nominated")
    assert args.offered == (objects.decode_pod(args.pod).nominated,)


@pytest.mark.parametrize("name", BINDINGS)
def test_the_fields_of_a_binding_are_read(name: str) -> None:
    args = extender_v1.decode_bind_args(call_of(name))
    assert (args.namespace, args.name) == ("golden", BINDINGS[name])
    assert args.uid.startswith("00000000-")
    assert re.fullmatch(r"n\d", args.node)


def test_the_victims_of_a_preemption_are_read_by_uid() -> None:
    args = extender_v1.decode_preempt_args(call_of("preempt"))
    assert extender_v1.scheduler_of(args.pod) == "muster-score"
    assert objects.decode_pod(args.pod).priority == 1000
    assert args.victims
    assert all(len(victims.uids) == 1 and victims.pdb_violations == 0 for victims in args.victims.values())


# --- replies, byte for byte as kube-scheduler took them ----------------------------------------------


@pytest.mark.parametrize("name", ["filter-gang-member", "filter-nominated"])
def test_one_planned_node_is_passed(name: str) -> None:
    node = recorded(name)["outcome"]["node"]
    assert extender_v1.encode_passed(node_args(name), (node,)) == reply_of(name)


def test_a_foreign_pod_passes_with_all_names() -> None:
    args = node_args("filter-foreign")
    assert extender_v1.encode_passed(args, args.offered) == reply_of("filter-foreign")


def test_a_refusal_has_one_constant_text_that_kube_scheduler_shows() -> None:
    text = TEXT[Reason.GROUP_NOT_FOUND]
    assert extender_v1.encode_rejected(node_args("filter-refused"), text) == reply_of("filter-refused")
    assert text in recorded("filter-refused")["outcome"]["message"]


def test_scores_stand_in_the_order_of_the_names() -> None:
    scores = {entry["Host"]: entry["Score"] for entry in json.loads(reply_of("prioritize"))}
    assert len(set(scores.values())) > 1
    offered = node_args("prioritize").offered
    assert extender_v1.encode_scores((name, scores[name]) for name in offered) == reply_of("prioritize")
    assert scores[recorded("prioritize")["outcome"]["node"]] == max(scores.values())


@pytest.mark.parametrize("name", ["bind-gang-member", "bind-foreign"])
def test_a_binding_that_stands_is_answered_without_an_error(name: str) -> None:
    assert reply_of(name) == extender_v1.BOUND
    assert extender_v1.decode_bind_args(call_of(name)).node == recorded(name)["outcome"]["node"]


def test_a_refused_binding_is_shown_by_kube_scheduler() -> None:
    text = recorded("bind-refused")["outcome"]["message"]
    assert extender_v1.encode_error(text) == reply_of("bind-refused")


def test_accepted_victims_come_back_as_they_were_told() -> None:
    args = extender_v1.decode_preempt_args(call_of("preempt"))
    assert extender_v1.encode_candidates(args.victims) == reply_of("preempt")
    assert recorded("preempt")["outcome"]["node"] in args.victims
