"""Files that cannot be read: which report, which field, and the mend; and what a sound one means."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml

from extender.sim import reading
from extender.sim.fields import Fault
from extender.sim.names import PodName, pod_name
from extender.sim.report import Check, Settings, Task

SOUND = """
id: T-1
area: gang
scenario:
  nodes: [{name: n1, allocatable: {cpu: 4}}]
  queues: [{name: q}]
  groups: [{name: g, queue: q, minMember: 1, tasks: [{name: w, replicas: 2, requests: {cpu: 500m}, placed: {n1: 1}}]}]
  pods: [{name: p, node: n1, requests: {}}]
  budgets: [{name: b, group: g, min_available: 1}]
  events: [{at: 9, kind: delete_pod, pods: [g-w-0], note: for people}]
want: [{check: bound, group: g, count: 2, by: 5}]
"""

#: path of a field and its value (None removes it), and what the fault says
FAULTS: list[tuple[str, Any, str]] = [
    ("id", None, "r: report.id: is missing; add `id`"),
    ("id", 7, "7 is not a text"),
    ("surprise", 1, "surprise: there is no such field"),
    ("want", [], "not a list; write a list that is not empty"),
    ("scenario.node", [], "scenario.node: there is no such field; did you mean nodes?"),
    ("scenario.nodes", {}, "scenario.nodes: {} is not a list"),
    ("scenario.nodes.0.allocatable", {"cpu": "four"}, "nodes[n1].allocatable.cpu: 'four' is not a quantity"),
    ("scenario.nodes.0.allocatable", {"cpu": -1}, "is negative"),
    ("scenario.nodes.0.allocatable", {"cpu": True}, "True is not a quantity"),
    ("scenario.nodes.0.labels", {"a": 1}, "nodes[n1].labels.a: 1 is not a text; write a name, in quotes"),
    ("scenario.nodes.0.devices", [{"id": "c0"}], "nodes[n1].devices[0].memory_mib: is missing"),
    ("scenario.nodes.1", {"name": "n1", "allocatable": {}}, "scenario.nodes: two are called 'n1'; rename one"),
    ("scenario.queues.0.weigth", 1, "queues[q].weigth: there is no such field; did you mean weight?"),
    ("scenario.queues.0.state", "Shut", "'Shut' is not known"),
    ("scenario.groups.0.tasks", [], "groups[g].tasks: [] is not a list"),
    ("scenario.groups.0.minMember", "2", "groups[g].minMember: '2' is not a whole number"),
    ("scenario.groups.0.at", -1, "groups[g].at: -1 is not a number of seconds"),
    ("scenario.groups.0.at", float("nan"), "nan is not a number of seconds"),
    ("scenario.groups.0.recreate", "yes", "'yes' is not true or false"),
    ("scenario.groups.0.tasks.0.replicas", 0, "tasks[w].placed: more are placed than there are replicas"),
    ("scenario.groups.0.tasks.0.placed", {"n7": 1}, "tasks[w].placed: 'n7' is not known; there are n1"),
    ("scenario.pods.0.node", "n7", "pods[p].node: 'n7' is not known"),
    ("scenario.pods.0.name", "g-w-1", "scenario.pods: two are called 'g-w-1'"),
    ("scenario.budgets.0.group", "h", "budgets[b].group: 'h' is not known"),
    ("scenario.settings", {"http_timeout": "30s"}, "settings.http_timeout: '30s' is not a number of seconds"),
    ("scenario.events.0.kind", "delete_pods", "events[0].kind: 'delete_pods' is not known; did you mean delete_pod?"),
    ("scenario.events.0.kind", None, "events[0].kind: None is not known"),
    ("scenario.events.0.at", None, "events[0].at: is missing"),
    ("scenario.events.0.when", 3, "events[0].when: there is no such field"),
    ("scenario.events.0.pods", None, "events[0]: has not exactly one of pods, pod; name one of them"),
    ("scenario.events.0.pods", ["g-w-7"], "events[0].pods: 'g-w-7' is not known"),
    ("scenario.events.0.pods", ["g-w-0 (last UID)"], "names no pod; write a name"),
    ("scenario.events.0.pods", ["on n7"], "'n7' is not known"),
    ("scenario.events.0", "boom", "events[0]: 'boom' is not a mapping"),
    (
        "scenario.events.0",
        {"at": 1, "kind": "api_conflict", "object": "g status", "times": 1},
        "events[0].object: 'g status' names no object; write KIND/NAME",
    ),
    (
        "scenario.events.0",
        {"at": 1, "kind": "delay_watch", "object": "podgroup/h", "seconds": 1},
        "events[0].object: 'h' is not known",
    ),
    (
        "want.0",
        {"check": "writes", "object": "events and conditions of pod x", "max": 1},
        "want[writes].object: 'x' is not known",
    ),
    ("want.0.check", "bnd", "want[0].check: 'bnd' is not known"),
    ("want.0.count", None, "want[0].count: is missing"),
    ("want.0.pod", "p", "has not exactly one of group, pod"),
    ("want.0.at", 3, "want[0].at: stands beside `by` or `until`; leave one of them out"),
    ("want.0.group", "h", "want[bound].group: 'h' is not known; there are g"),
    ("want.0", {"check": "reason", "group": "g", "code": "Tired"}, "want[0].code: 'Tired' is not known"),
    ("want.0", {"check": "nodes", "group": "g", "in": ["n1", "n7"]}, "want[nodes].in: 'n7' is not known"),
    ("want.0", {"check": "any_of", "options": []}, "want[0].options: [] is not a list"),
    ("want.0", {"check": "any_of", "options": [[{"check": "bound"}]]}, "options[0][0].count: is missing"),
    ("want.0", {"check": "queue_state", "queue": "r", "state": "Open"}, "want[queue_state].queue: 'r' is not known"),
]


def changed(path: str, value: Any) -> Any:
    loaded = yaml.safe_load(SOUND)
    *way, last = path.split(".")
    there = loaded
    for step in way:
        there = there[int(step) if step.isdigit() else step]
    if last.isdigit():
        there[int(last) :] = [value]
    elif value is None:
        del there[last]
    else:
        there[last] = value
    return loaded


def test_the_report_that_the_faults_are_made_of_is_sound() -> None:
    found = reading.read_report(yaml.safe_load(SOUND))
    assert (found.id, found.area, found.end) == ("T-1", "gang", 309.0)
    assert found.scenario.settings == Settings()
    assert found.scenario.groups[0].tasks == (Task("w", 2, {"cpu": "500m"}, placed={"n1": 1}),)
    assert found.want == (Check("bound", {"group": "g", "count": 2}, by=5.0),)
    assert str(found.want[0]) == "bound group g count 2 by 5"


@pytest.mark.parametrize(("path", "value", "text"), FAULTS, ids=lambda value: str(value)[:60])
def test_a_fault_says_what_is_wrong_and_where(path: str, value: Any, text: str) -> None:
    with pytest.raises(Fault) as caught:
        reading.read_report(changed(path, value), "r: report")
    assert text in str(caught.value)
    assert str(caught.value).startswith("r: report")
    assert str(caught.value).count("; ") == 1, "what is wrong, and one mend"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", "is not a list of reports; begin each report with `- id: NAME`"),
        ("a: [", "is not YAML"),
        ("- 7", "report 1: 7 is not a mapping"),
        ("[{id: x}]", "x.area: is missing"),
        (b"\xff\xfe\x00", "is not YAML"),
        ("- " * 5000 + "1", "is not YAML"),
    ],
    ids=["empty", "syntax", "no mapping", "named by its id", "no text", "deep"],
)
def test_a_file_that_holds_no_reports(tmp_path: pathlib.Path, text: str | bytes, wanted: str) -> None:
    path = tmp_path / "reports.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(Fault) as caught:
        reading.read_files([str(path)])
    assert wanted in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(Fault, match=r"nowhere\.yaml: cannot be read .*; name a file that is there"):
        reading.read_files(["nowhere.yaml"])


def test_an_id_stands_once_in_all_files(tmp_path: pathlib.Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(yaml.safe_dump([yaml.safe_load(SOUND)]))
    assert [found.id for found in reading.read_files([str(tmp_path / "a")])] == ["T-1"]
    with pytest.raises(Fault, match="b: T-1: this id was used before"):
        reading.read_files([str(tmp_path / "a"), str(tmp_path / "b")])


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("g-w-0", PodName("g-w-0")),
        ("g-w-0 (first UID)", PodName("g-w-0", 0)),
        ("g-w-0 (third UID)", PodName("g-w-0", 2)),
        ("on n1", PodName(node="n1")),
        ("g-w-0 (last UID)", None),
        ("g-w-0 (second)", None),
        ("on  n1", None),
        ("", None),
    ],
)
def test_a_pod_is_named(written: str, meant: PodName | None) -> None:
    assert pod_name(written) == meant
