"""Scenarios played on the real cluster by the command that users have: given reports hold, and nothing is left.

The reports of ../shared are played all at once: each has nodes and queues of its own.
"""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from e2e import kube as kube_module
from e2e import waiting
from e2e.cluster import base, manifests, muster

SHARED = pathlib.Path(__file__).resolve().parents[2] / "shared"
IN_CI = os.environ.get("CI", "").lower() not in ("", "0", "false")
RUN = "scenario.muster.dev/run"
#: given reports that hold today, and how many of their checks cannot be read from outside
HOLD = {
    "TR-001": 0,
    "TR-002": 0,
    "TR-004": 0,
    "TR-005": 0,
    "TR-007": 0,
    "TR-008": 0,
    "TR-009": 0,
    "TR-011": 0,
    "TR-012": 0,
    "TR-013": 0,
    "TR-015": 0,
    "TR-018": 0,
    "TR-020": 0,
    "TR-023": 0,
    "TR-025": 0,
    "TR-026": 0,
    "TR-030": 0,
    "TR-035": 1,
}
#: scenario seconds in a real one: many at once make each other slower than one is alone
SCALE = 3
PLAYED_SECONDS = 240
#: cluster-wide kinds that a run makes objects of
LEFT = ("nodes", "queues.muster.dev", "topologies.muster.dev", "priorityclasses.scheduling.k8s.io",
        "runtimeclasses.node.k8s.io", "namespaces")  # fmt: skip

#: what the given reports have none of: graces, failing kubelets, owners, foreign schedulers, another one's evictions
OWN: list[dict[str, Any]] = yaml.safe_load("""
- id: WHOLE
  area: own
  scenario:
    settings: {end: 80}
    nodes:
      - {name: n1, labels: {rack: a}, allocatable: {cpu: 4}}
      - {name: n2, labels: {rack: b}, allocatable: {cpu: 4}}
    queues:
      - {name: top, capability: {cpu: 100}}
      - {name: q, parent: top, capability: {cpu: 6}}
    groups:
      - {name: slow, queue: q, minMember: 1, grace: 15, priority: -3,
         tasks: [{name: w, replicas: 1, requests: {cpu: 2}, placed: {n1: 1}}]}
      - {name: owned, queue: q, minMember: 1, recreate: true, at: 2,
         tasks: [{name: w, replicas: 1, requests: {cpu: 1}, node_selector: {rack: b}}]}
      - {name: short, queue: q, minMember: 1, priority: 7, at: 2, runtime: 20,
         tasks: [{name: w, replicas: 1, requests: {cpu: 1}, overhead: {cpu: 500m}}]}
      - {name: unlucky, queue: q, minMember: 1, at: 65,
         tasks: [{name: w, replicas: 1, requests: {cpu: 1}, node_selector: {rack: b}}]}
    pods:
      - {name: other, node: n2, requests: {cpu: 1}}
      - {name: foreign, at: 5, requests: {cpu: 1}, node_selector: {rack: b}}
    budgets: [{name: keep, group: owned, min_available: 0}]
    events:
      - {at: 20, kind: delete_pod, pods: [slow-w-0]}
      - {at: 30, kind: finish_pods, pods: [owned-w-0], phase: Failed}
      - {at: 45, kind: label_node, node: n1, labels: {rack: null}}
      - {at: 50, kind: set_queue, queue: q, set: {parent: q}}
      - {at: 60, kind: kubelet_reject, node: n2, until: 79}
  want:
    - {check: bound, group: slow, count: 1, until: 34}
    - {check: bound, group: slow, count: 0, by: 41}
    - {check: queue_used, queue: top, resources: {cpu: 4500m}, at: 15}
    - {check: finished, groups: [short], by: 35}
    - {check: bound, pod: "owned-w-0 (second UID)", count: 1, by: 42}
    - {check: bound, pod: foreign, count: 1, by: 15}
    - {check: same_domain, group: owned, key: rack, value: b}
    - {check: rejected, object: "set_queue q parent q", code: QueueInvalid}
    - {check: failed, group: unlucky, max: 1}
    - {check: bound, group: unlucky, count: 0, by: 75}
    - {check: binding_posts, pod: unlucky-w-0, max: 1}
    - {check: group_phase, group: owned, is: Running, at: 25}
    - {check: evicted_total, max: 0}
- id: SHORT
  area: own
  scenario:
    settings: {end: 80}
    nodes: [{name: n1, allocatable: {cpu: 4}}]
    groups: [{name: g, minMember: 1, tasks: [{name: w, replicas: 1, requests: {cpu: 1}}]}]
    events: [{at: 60, kind: kubelet_reject, node: n1, until: 79}]
  want:
    - {check: evicted, group: g, max: 0}
    - {check: binding_posts, pod: g-w-0, max: 0}
    - {check: failed, group: g, max: 0}
- id: NEVER
  area: own
  scenario: {nodes: [], events: [{at: 1, kind: freeze_budget_status}]}
  want: [{check: evicted_total, max: 0}]
""")


def command(*arguments: str | pathlib.Path) -> list[str]:
    """The command that plays scenarios for real."""
    return [sys.executable, "-m", "extender.sim", "scenario", "--real", "--quiet", *map(str, arguments)]


@pytest.fixture
def shared() -> pathlib.Path:
    """The folder of given material. In CI it must be there."""
    if not SHARED.is_dir():
        missing = "the folder `shared` is not beside the repository"
        if IN_CI:
            pytest.fail(f"{missing}, and CI is set: it must be there in CI")
        pytest.skip(missing)
    return SHARED


@pytest.fixture
def own(tmp_path: pathlib.Path) -> pathlib.Path:
    """A file with the reports of this test."""
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(OWN))
    return path


@pytest.fixture
def nothing_left(kube: kube_module.Kube) -> Iterator[None]:
    """What a run made is gone when the command has ended, its namespace too."""
    yield
    assert {kind: found for kind in LEFT if (found := made(kube, kind))} == {}


def made(kube: kube_module.Kube, kind: str) -> list[str]:
    """Names of what runs have made of a kind."""
    return [thing["metadata"]["name"] for thing in kube.list(kind, labels=RUN)]


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_left")
def test_given_reports_hold_on_a_real_cluster(
    cluster: base.Cluster, answering: muster.Replica, shared: pathlib.Path
) -> None:
    chosen = [argument for name in HOLD for argument in ("--id", name)]
    done = subprocess.run(
        command(shared / "cases" / "trouble_reports.yaml", "--kubeconfig", cluster.kubeconfig,
                "--at-once", str(len(HOLD)), "--scale", str(SCALE), *chosen),
        cwd=manifests.ROOT, capture_output=True, text=True, timeout=PLAYED_SECONDS, check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert "fell short" not in done.stdout, said
    assert "cannot be played" not in done.stdout, said
    unread = {line.split()[0]: _unread(line) for line in done.stdout.splitlines() if line.startswith("TR-")}
    assert unread == HOLD, said
    assert done.returncode == 3, said


def _unread(summary: str) -> int:
    """How many checks could not be read: `TR-012  queue  10 checks held, 1 cannot be read`."""
    _, comma, rest = summary.partition(", ")
    return int(rest.split()[0]) if comma else 0


@pytest.mark.usefixtures("nothing_left")
def test_what_falls_short_for_real_is_told(
    cluster: base.Cluster, kube: kube_module.Kube, answering: muster.Replica, own: pathlib.Path
) -> None:
    arguments = command(own, "--kubeconfig", cluster.kubeconfig, "--at-once", "3")
    with subprocess.Popen(arguments, cwd=manifests.ROOT, stdout=subprocess.PIPE, text=True) as running:
        _evict(kube, "g-w-0")
        out, _ = running.communicate(timeout=120)
    assert out.splitlines() == [
        "WHOLE  own  13 checks held",
        "SHORT  own  2 of 3 checks fell short",
        "  fell short  evicted group g max 0  (1 at 80)",
        "  fell short  binding_posts pod g-w-0 max 0  (1 at 80)",
        "NEVER  own  cannot be played for real",
        "  not played  freeze_budget_status at 1: the cluster's disruption controller keeps budgets up to date",
        "2 reports: 1 fell short, with 2 of 16 checks",
    ]
    assert running.returncode == 1


def _evict(kube: kube_module.Kube, name: str) -> None:
    """Evict a bound pod of a run, as Muster would."""

    def bound() -> list[dict[str, Any]]:
        pods = kube.list("pods", labels=RUN)
        return [pod for pod in pods if pod["metadata"]["name"] == name and pod["spec"].get("nodeName")]

    [pod] = waiting.wait_for(bound, 60, f"{name} is bound")
    namespace = pod["metadata"]["namespace"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    kube.request("POST", kube.resource("pods").path(namespace, name, "eviction"), body)


@pytest.mark.usefixtures("nothing_left")
def test_a_run_that_is_stopped_leaves_nothing(
    cluster: base.Cluster, kube: kube_module.Kube, answering: muster.Replica, own: pathlib.Path
) -> None:
    arguments = command(own, "--kubeconfig", cluster.kubeconfig, "--id", "WHOLE")
    with subprocess.Popen(arguments, cwd=manifests.ROOT, stderr=subprocess.PIPE, text=True) as running:
        waiting.wait_for(lambda: kube.list("pods", labels=RUN), 60, "the run has made pods")
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
    assert (running.returncode, said) == (130, "stopping: what was made is removed\n")
