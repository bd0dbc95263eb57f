"""The examples as Muster reads them: each object without a problem, each name it uses standing beside it.

Takes manifests/examples, gives verdicts without a cluster; e2e/test_manifests.py lets a real API server judge them.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from extender.core import quota
from extender.core.ids import DEFAULT_QUEUE, GroupKey, QueueName, Source
from extender.core.model import Group, Pod, Queue
from extender.wire import objects

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "manifests" / "examples"
FILES = sorted(EXAMPLES.glob("*.yaml"))
MODES = {"mode-evaluation", "mode-online", "mode-online-elsewhere", "mode-training"}
Object = dict[str, Any]


def documents(path: pathlib.Path) -> list[Object]:
    return [found for found in yaml.safe_load_all(path.read_text()) if found]


def of_kind(path: pathlib.Path, kind: str) -> list[Object]:
    return [obj for obj in documents(path) if obj["kind"] == kind]


def stored(obj: Object, **meta: Any) -> Object:
    """As the API server would give it back."""
    return {**obj, "metadata": {"uid": "u", **obj["metadata"], **meta}}


def queues(path: pathlib.Path) -> list[Queue]:
    return [objects.decode_queue(Source.MUSTER, stored(obj)) for obj in of_kind(path, "Queue")]


def groups(path: pathlib.Path) -> list[Group]:
    return [objects.decode_group(Source.MUSTER, stored(obj)) for obj in of_kind(path, "PodGroup")]


def pods(path: pathlib.Path) -> Iterator[tuple[Pod, int]]:
    """A pod of each kind that the example makes, and how many of them there are at a time."""
    for obj in documents(path):
        namespace = obj["metadata"].get("namespace", "")
        if obj["kind"] == "Pod":
            yield objects.decode_pod(stored(obj)), 1
        elif obj["kind"] in ("Job", "Deployment"):
            spec = obj["spec"]
            template = {"metadata": {}, **spec["template"]}
            number = spec.get("parallelism", spec.get("replicas", 1))
            yield objects.decode_pod(stored(template, name="p", namespace=namespace)), number


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_object_of_an_example_is_read_without_a_problem(path: pathlib.Path) -> None:
    assert path.read_text().startswith("# ")
    for queue in queues(path):
        assert queue.problems == (), queue.name
    for group in groups(path):
        assert group.problems == (), group.key
    for pod, _ in pods(path):
        assert pod.problems == ()
        assert dict(pod.shape.request).keys() >= {"cpu", "memory"}
    for obj in of_kind(path, "Topology"):
        assert objects.decode_topology(obj).levels
    assert {obj["kind"] for obj in documents(path)} <= {
        *("Queue", "PodGroup", "Topology", "Pod", "Job", "Deployment", "Namespace", "PriorityClass"),
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_queues_of_an_example_make_a_sound_tree(path: pathlib.Path) -> None:
    made = {queue.name: queue for queue in queues(path)}
    tree = quota.Tree(made)
    for name in made:
        at = tree.at(name)
        assert at is not None
        assert at.blame is None
    assert quota.grants(tree, {"nvidia.com/gpu": 10_000}).short == {}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_an_example_starts_finds_its_queue_and_its_group_there(path: pathlib.Path) -> None:
    made = {queue.name: queue for queue in queues(path)}
    tree, known = quota.Tree(made), {group.key: group for group in groups(path)}
    labels = {name: (queue, managed) for name, queue, managed in map(objects.decode_namespace, namespaces(path))}
    members: dict[GroupKey, int] = {}
    for pod, number in pods(path):
        there, managed = labels.get(pod.namespace, (None, False))
        assert pod.ours or managed, "it is nobody's business of ours"
        group = known.get(pod.group)
        assert pod.group.lone or group is not None, pod.group
        queue = pod.queue or (group.queue if group else None) or there or DEFAULT_QUEUE
        assert queue in made or queue == DEFAULT_QUEUE
        assert tree.refusal(QueueName(queue), pod.namespace) is None
        assert pod.task in dict(group.tasks) if group and group.tasks else not pod.task
        members[pod.group] = members.get(pod.group, 0) + number
    for key, group in known.items():
        assert members[key] >= group.min_member


def namespaces(path: pathlib.Path) -> list[Object]:
    return [stored(obj) for obj in of_kind(path, "Namespace")]


def test_every_mode_has_an_example_whose_queues_differ_in_what_the_mode_is_about() -> None:
    found = {path.stem: queues(path) for path in FILES if path.stem.startswith("mode-")}
    assert found.keys() == MODES
    (evaluation,) = found["mode-evaluation"]
    assert evaluation.min_runtime < min(q.min_runtime for q in found["mode-training"] if q.parent)
    for mode in ("mode-online", "mode-online-elsewhere"):
        service, batch = found[mode]
        assert service.guarantee
        assert not service.reclaimable
        assert service.priority > batch.priority
        assert not batch.guarantee


def test_the_service_of_another_scheduler_counts_by_its_namespace() -> None:
    path = EXAMPLES / "mode-online-elsewhere.yaml"
    (found,) = map(objects.decode_namespace, namespaces(path))
    assert found == ("shop", "shop", True)
    assert [pod.scheduler for pod, _ in pods(path) if pod.namespace == "shop"] == ["default-scheduler"]
