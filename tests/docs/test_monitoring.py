"""Alert rules and dashboard name metrics and labels that there are; promtool reads every expression."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import prometheus_client
import pytest
import yaml

from docs import figures, generate
from extender.core.reasons import KIND_OF, Kind, Reason
from extender.telemetry.metrics import ExtenderMetrics, GateMetrics
from tests import promtool

FOLDER = generate.ROOT / "manifests"
RULES, TESTS = (FOLDER / "prometheus" / name for name in ("rules.yaml", "rules_test.yaml"))
IN_CI = os.environ.get("CI", "").lower() not in ("", "0", "false")
#: labels that Prometheus, or how it was told to scrape, puts on
SCRAPED = {"instance", "job", "pod", "namespace", "container"}
#: metrics of NVIDIA's DCGM exporter
FOREIGN = {"DCGM_FI_DEV_GPU_UTIL": SCRAPED}


@pytest.fixture(scope="module")
def tool() -> str:
    try:
        return promtool.path()
    except promtool.Missing as missing:
        if IN_CI:
            pytest.fail(f"{missing}; CI is set, so it must be there")
        pytest.skip(str(missing))


def run(tool: str, *words: str, given: str | None = None) -> str:
    done = subprocess.run([tool, *words], input=given, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    return dict(json.loads((FOLDER / "grafana" / "muster.json").read_text()))


def panels() -> Iterator[dict[str, Any]]:
    yield from (panel for panel in dashboard()["panels"] if panel["type"] != "row")


def expressions() -> dict[str, str]:
    """All of rules and dashboard, by where they stand, with Grafana's own variables filled in."""
    found = {f"alert {rule['alert']}": rule["expr"] for rule in rules()}
    for panel in panels():
        for target in panel["targets"]:
            expr = target["expr"]
            for name, value in (("__rate_interval", "5m"), ("queue", ".*"), ("pool", ".*"), ("before", "1d")):
                expr = expr.replace(f"${name}", value)
            found[f"panel {panel['title']} {target['refId']}"] = expr
    return found


def known() -> dict[str, set[str]]:
    """Labels of every series that both processes have."""
    series = {}
    for some in figures.metrics().values():
        for metric in some:
            series.update({name: set(labels) | SCRAPED for name, labels in metric.series.items()})
    return series | FOREIGN


def used(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Metrics of an expression, each with the labels by which it is selected."""
    for name, selector in re.findall(r"\b((?:muster|process|DCGM)_\w+)(\{[^}]*\})?", expression):
        yield name, set(re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"', selector))


@pytest.mark.parametrize("where", expressions())
def test_every_metric_that_is_named_exists_with_these_labels(where: str) -> None:
    expression, series = expressions()[where], known()
    named = list(used(expression))
    assert named, "it looks at nothing of ours"
    joint = set.intersection(*(series[name] for name, _ in named))
    for name, labels in named:
        assert labels <= series[name], name
    for grouped in re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", expression):
        assert {one.strip() for one in grouped.split(",")} <= joint


def test_legends_and_annotations_show_labels_that_are_left() -> None:
    for panel in panels():
        for target in panel["targets"]:
            grouped = {
                label.strip() for some in re.findall(r"by \(([^)]*)\)", target["expr"]) for label in some.split(",")
            }
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= grouped, panel["title"]
    for rule in rules():
        told = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        kept = set.union(*(known()[name] for name, _ in used(rule["expr"])))
        grouped = re.match(r"(?:sum|max) by \(([^)]*)\)", rule["expr"])
        assert told <= ({one.strip() for one in grouped[1].split(",")} if grouped else kept), rule["alert"]


def test_promtool_accepts_the_rules_and_every_expression_of_the_dashboard(tool: str, tmp_path: pathlib.Path) -> None:
    assert "SUCCESS" in run(tool, "check", "rules", str(RULES))
    made = [{"record": f"x:{n}", "expr": expr} for n, expr in enumerate(expressions().values())]
    path = tmp_path / "expressions.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": made}]}))
    assert f"{len(made)} rules found" in run(tool, "check", "rules", str(path))


def test_alerts_fire_when_something_is_wrong_and_only_then(tool: str) -> None:
    assert "SUCCESS" in run(tool, "test", "rules", str(TESTS))
    firing = TESTS.read_text().split("name: all that can be wrong is")[1]
    assert {rule["alert"] for rule in rules()} <= set(re.findall(r'alertname="(\w+)"', firing))


def test_the_alert_of_waits_that_need_a_person_knows_all_reasons_that_do() -> None:
    (expr,) = [rule["expr"] for rule in rules() if rule["alert"] == "MusterWaitsForAPerson"]
    (words,) = re.findall(r'reason=~"([^"]*)"', expr)
    assert set(words.split("|")) == {reason.value for reason in Reason if KIND_OF[reason] is Kind.NEVER}


def test_promtool_finds_no_fault_with_the_names_of_metrics(tool: str) -> None:
    for made in (ExtenderMetrics(), GateMetrics()):
        run(tool, "check", "metrics", given=prometheus_client.generate_latest(made.registry).decode())


def test_a_missing_promtool_is_said_with_its_mend(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setattr(promtool.shutil, "which", lambda _: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(promtool.Missing, match="put it on PATH"):
        promtool.path()


def test_every_metric_of_the_page_has_text_and_only_labels_whose_words_are_bounded() -> None:
    for some in figures.metrics().values():
        for metric in some:
            assert metric.text
            assert set(metric.labels) <= figures.LABELS.keys(), metric.name
            assert metric.kind in ("gauge", "counter", "histogram")
    assert {label for some in figures.metrics().values() for m in some for label in m.labels} == figures.LABELS.keys()


def test_the_object_for_the_operator_holds_the_same_rules() -> None:
    found = yaml.safe_load((FOLDER / "prometheus" / "prometheusrule.yaml").read_text())
    assert (found["kind"], found["spec"]) == ("PrometheusRule", yaml.safe_load(RULES.read_text()))


def test_the_dashboard_has_its_three_questions_variables_and_links_to_pages_that_there_are() -> None:
    made = dashboard()
    rows = [panel["title"] for panel in made["panels"] if panel["type"] == "row"]
    assert [title for title in rows if title.endswith("?")] == [
        *("Why is it still waiting?", "Why was it preempted?", "Is the cluster better used?"),
    ]
    assert {one["name"] for one in made["templating"]["list"]} == {"source", "queue", "pool", "before", "docs"}
    pages = re.findall(r"\$\{docs\}/([\w-]+\.md)", json.dumps(made))
    assert {"troubleshooting.md", "metrics.md"} <= set(pages)
    assert [page for page in set(pages) if not (generate.ROOT / "docs" / page).is_file()] == []
    assert len({panel["id"] for panel in made["panels"]}) == len(made["panels"])


def test_panels_and_links_have_every_field_that_the_schema_of_grafana_requires() -> None:
    """As its foundation SDK reads a dashboard strictly, of the kinds that are used here."""
    for panel in panels():
        assert panel["type"] == "timeseries"
        assert set(panel["options"]["legend"]) == {"displayMode", "placement", "showLegend", "calcs"}
        assert set(panel["options"]["tooltip"]) == {"mode", "sort"}
    wanted = {"title", "type", "icon", "tooltip", "url", "tags", "asDropdown", "targetBlank", "includeVars", "keepTime"}
    assert all(set(link) == wanted for link in dashboard()["links"])


def test_the_ports_that_are_scraped_are_those_that_the_component_opens() -> None:
    patch = yaml.safe_load((FOLDER / "components" / "metrics" / "kustomization.yaml").read_text())["patches"][0][
        "patch"
    ]
    steps = yaml.safe_load(patch)
    opened = [step["value"] for step in steps if step["op"] == "add" and step["path"].endswith(("ports/-", "ports"))]
    ports = {
        one["name"]: one["containerPort"] for some in opened for one in (some if isinstance(some, list) else [some])
    }
    listened = [step["value"].rpartition(":")[2] for step in steps if "metrics-listen" in str(step.get("value"))]
    assert sorted(map(str, ports.values())) == sorted(listened)
    monitor = yaml.safe_load((FOLDER / "prometheus" / "podmonitor.yaml").read_text())
    assert {one["port"] for one in monitor["spec"]["podMetricsEndpoints"]} == set(ports)
