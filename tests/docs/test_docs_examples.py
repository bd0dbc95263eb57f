"""What pages for users claim: their YAML is read without a problem, links lead somewhere, tables leave no field out."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from docs import generate
from extender.core import quota
from extender.core.ids import Source
from extender.sim import manifests, reading
from extender.telemetry.job_metrics import JobMetrics
from extender.telemetry.metrics import ExtenderMetrics, GateMetrics
from extender.wire import marks, objects

ROOT = generate.ROOT
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
#: not objects of a cluster
FOREIGN_KINDS = {"Kustomization"}
Object = dict[str, Any]


def blocks(page: pathlib.Path) -> Iterator[tuple[str, str]]:
    """YAML of a page, with the number of its first line."""
    text = page.read_text()
    for found in re.finditer(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield f"{page.name}:{text[: found.start()].count(chr(10)) + 1}", found[1]


BLOCKS = dict(one for page in PAGES for one in blocks(page))


def loaded(text: str) -> list[Any]:
    return [one for one in yaml.safe_load_all(text) if one is not None]


@pytest.mark.parametrize("where", BLOCKS)
def test_every_yaml_of_a_page_is_read_without_a_problem(where: str) -> None:
    found = loaded(BLOCKS[where])
    for one in (item for part in found for item in (part if isinstance(part, list) else [part])):
        if "scenario" in one:
            assert reading.read_report(one).want
        elif "kind" not in one:
            assert one.keys() in ({"spec"}, {"job_name", "kubernetes_sd_configs", "relabel_configs"}), where
        elif one["kind"] not in FOREIGN_KINDS:
            assert "apiVersion" in one
            assert one["metadata"]["name"]
    whole = [one for one in found if isinstance(one, dict) and "kind" in one and one["kind"] not in FOREIGN_KINDS]
    queues = [one for one in whole if one["kind"] == "Queue"]
    made = {queue.name: queue for queue in (objects.decode_queue(Source.MUSTER, stored(one)) for one in queues)}
    tree = quota.Tree(made)
    for name, queue in made.items():
        assert queue.problems == ()
        at = tree.at(name)
        assert at is not None
        assert at.blame is None
    for one in whole:
        if one["kind"] == "Topology":
            assert objects.decode_topology(one).levels
    rest = [stored(one) for one in whole if one["kind"] not in ("Queue", "Topology")]
    assert manifests.sound(manifests.read(rest)), manifests.read(rest)


def stored(one: Object) -> Object:
    """As the API server would give it back."""
    return one | {"metadata": {"uid": "u", "namespace": "default", **one["metadata"]}}


def test_what_a_page_s_example_says_is_what_muster_reads() -> None:
    """The examples of moving: a Volcano Job and a Kueue gang are whole groups with queue and level."""
    (volcano,) = manifests.read([stored(one) for one in loaded(first("from-volcano.md"))])
    assert (volcano["minimum"], volcano["queue"]) == (3, "research")
    assert {task["name"]: task["minimum"] for task in volcano["tasks"]} == {"master": 1, "worker": 2}
    (kueue,) = manifests.read([stored(one) for one in loaded(first("from-kueue.md"))])
    assert (kueue["minimum"], kueue["queue"]) == (4, "research")
    assert "topology.kubernetes.io/rack" in str(kueue)


def first(page: str) -> str:
    return next(text for where, text in BLOCKS.items() if where.startswith(f"{page}:"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings_that_there_are(page: pathlib.Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        if anchor:
            assert anchor in set(map(anchored, re.findall(r"^#+ (.*)$", there.read_text(), re.MULTILINE))), target


def anchored(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_every_page_is_in_the_list_of_pages() -> None:
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs" / "README.md").read_text()))
    assert listed == {page.name for page in PAGES} - {"README.md"}


def test_every_field_of_a_queue_is_told() -> None:
    definition = yaml.safe_load((ROOT / "manifests" / "base" / "crds" / "queues.yaml").read_text())
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    table = re.findall(r"^\| `(\w+)", (ROOT / "docs" / "queues.md").read_text(), re.MULTILINE)
    assert sorted(table) == sorted(spec)


def test_every_mark_of_others_that_is_read_is_told_where_users_come_from() -> None:
    """The pages name the marks by their ends, as their authors do."""
    kueue, volcano = ((ROOT / "docs" / f"from-{name}.md").read_text() for name in ("kueue", "volcano"))
    for mark in (marks.KUEUE_GROUP_LABEL, marks.KUEUE_COUNT_ANNOTATION, marks.KUEUE_FAST_ANNOTATION):
        assert mark.rpartition("/")[2] in kueue
    for mark in (
        *(marks.VOLCANO_GROUP_ANNOTATION, marks.VOLCANO_GROUP_ANNOTATION_2),
        *(marks.VOLCANO_TASK_ANNOTATION, marks.VOLCANO_QUEUE_ANNOTATION),
    ):
        assert mark in volcano


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_metrics_that_a_page_names_exist(page: pathlib.Path) -> None:
    from extender.cli import arguments

    text = page.read_text()
    told = set(re.findall(r"kubectl muster ([a-z]+)", text)) - {"NAME"}
    assert told <= {command.name for command in arguments.COMMANDS} | {arguments.COMPLETION}
    known = {
        name for made in (ExtenderMetrics(), GateMetrics(), JobMetrics()) for name in made.registry._names_to_collectors
    }
    named = set(re.findall(r"`(muster_[a-z_]+)`", text))
    assert named <= known
    for path in re.findall(r"`(?:kubectl apply -k )?(manifests/[\w./-]+)`", text):
        assert (ROOT / path).exists(), path


def test_the_module_that_generates_pages_runs_as_it_is_told() -> None:
    code = "from docs import generate; print(len(generate.PAGES))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.strip() == str(len(generate.PAGES))
