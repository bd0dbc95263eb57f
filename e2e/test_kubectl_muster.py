"""`kubectl muster` as its users run it: kubectl finds the plugin on the PATH, and the API server decides who may ask.

The live answers are installed, on a replica of this file's own.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from e2e import answers, objects, waiting
from e2e import kube as kube_module
from e2e.cluster import base, muster
from e2e.scenes import SOON, Scene, priority_classes

ROOT = pathlib.Path(__file__).resolve().parents[1]
MakeNodes = Callable[..., list[str]]
Object = dict[str, Any]


@pytest.fixture
def scene(kube: kube_module.Kube, answering: muster.Replica, namespace: str) -> Scene:
    answering.heal()
    return Scene(kube, answering, namespace)


class Plugin:
    """Runs `kubectl muster ...` in a namespace, with a PATH that has the plugin."""

    def __init__(self, cluster: base.Cluster, folder: pathlib.Path, namespace: str) -> None:
        self._kubectl = cluster.binaries.path("kubectl")
        self.kubeconfig = str(cluster.kubeconfig)
        self._namespace = namespace
        program = folder / "kubectl-muster"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m extender.cli "$@"\n')
        program.chmod(0o755)
        self._path = f"{folder}:{os.environ['PATH']}"

    def run(self, *words: str, kubeconfig: str = "") -> subprocess.CompletedProcess[str]:
        """Standard output and error apart, and the exit status."""
        environment = os.environ | {"PATH": self._path, "KUBECONFIG": kubeconfig or self.kubeconfig}
        argv = [self._kubectl, "muster", *words, "-n", self._namespace]
        return subprocess.run(argv, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)

    def shows(self, *words: str) -> str:
        """What a command that succeeds, and has nothing to say beside it, shows."""
        done = self.run(*words)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    def tells(self, *words: str) -> Object:
        """The same as data."""
        return dict(json.loads(self.shows(*words, "-o", "json")))


@pytest.fixture
def plugin(cluster: base.Cluster, tmp_path: pathlib.Path, namespace: str) -> Plugin:
    return Plugin(cluster, tmp_path, namespace)


def cells(shown: str, name: str) -> list[str]:
    """The row of a table that begins with this cell, or has it second."""
    return next(row for row in map(str.split, shown.splitlines()) if name in row[:2])


def test_a_waiting_gang_is_told_with_what_would_start_it_as_everywhere_else(
    scene: Scene, make_nodes: MakeNodes, plugin: Plugin, queue: str
) -> None:
    first, second = make_nodes(2, racks=2)
    scene.fill(first, 4)
    scene.group("train", 3, queue=queue, spec={"topology": {"required": objects.RACK}})
    scene.gang("train", 3, gpus=4)
    scene.wait_says("train", "TopologyUnsatisfied")
    told = plugin.tells("why", "train")
    assert (told["name"], told["phase"], told["live"]) == ("muster:train", "Pending", True)
    assert (told["queue"], told["position"], told["message"]) == (queue, 1, scene.message("train"))
    (change,) = told["startsWhen"]
    assert {one["name"]: one["value"] for one in change["detail"]} == {
        **{"pods": 1, "resource": objects.GPU, "each": 4, "level": objects.RACK, "domain": "r1"},
    }
    assert told["history"][-1]["reason"] == "TopologyUnsatisfied"
    shown = plugin.shows("why", "pod/train-0")
    assert f"muster:train in namespace {scene.namespace}: Pending" in shown
    assert change["message"] in shown
    assert "train-0 has no node yet" in shown
    assert cells(plugin.shows("gangs"), "muster:train")[2:6] == ["Pending", "0/3", queue, "1"]
    assert cells(plugin.shows("queues"), queue)[1] == "Open"
    tree = plugin.shows("nodes", "--level", objects.RACK)
    assert cells(tree, first) == [first, "8", "4", "0", "4", "4"]
    assert cells(tree, second) == [second, "8", "0", "0", "8", "8"]
    assert cells(tree, "r0")[0] == "r0"


def test_a_preempted_gang_is_told_for_whom_by_which_rule_and_at_what_cost(
    scene: Scene, make_nodes: MakeNodes, plugin: Plugin, queue: str
) -> None:
    make_nodes(1)
    classes = {f"{scene.namespace}-{name}": value for name, value in (("low", 10), ("high", 20))}
    with priority_classes(scene.kube, **classes):
        for name, priority in zip(("victim", "urgent"), classes, strict=True):
            scene.group(name, 2, queue=queue)
            scene.gang(name, 2, gpus=4, spec={"priorityClassName": priority})
            scene.wait_bound(name, 2)
    waiting.wait_for(
        lambda: scene.get_group("victim").get("status", {}).get("lastEviction"), SOON, "the eviction is on record"
    )
    evicted = plugin.tells("why", "victim")["evicted"]
    assert evicted["rule"] == "Preempted"
    assert f"for urgent, namespace {scene.namespace}, queue {queue}" in evicted["message"]
    assert "lost-seconds" in evicted["message"]
    assert "considered 1" in evicted["message"]
    waiting.wait_for(lambda: not scene.bound("victim"), SOON, "the victims are gone")
    shown = plugin.shows("why", "pod/victim-0")
    assert "victim-0 in namespace" in shown
    assert evicted["message"] in shown
    assert "Preempted" in plugin.shows("events")


def test_evictions_by_others_are_told_of_groups_and_of_pods_that_are_gone(
    scene: Scene, make_nodes: MakeNodes, plugin: Plugin, queue: str
) -> None:
    first, second = make_nodes(2)
    for name, gpus in (("tainted", 4), ("drained", 2)):  # the one fills a node, so that the others stand together
        scene.group(name, 2, queue=queue)
        scene.gang(name, 2, gpus=gpus)
        scene.wait_bound(name, 2)
    scene.pod("solo", 4, queue=queue)
    waiting.wait_for(lambda: scene.bound().get("solo"), SOON, "solo is bound")
    (node,) = set(scene.bound("tainted").values())
    with priority_classes(scene.kube, **{f"{scene.namespace}-high": 20}):
        taint = {"key": "broken", "value": "", "effect": "NoExecute"}
        scene.kube.patch("nodes", node, {"spec": {"taints": [taint]}})
        for number in range(2):
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": f"drained-{number}"}}
            scene.kube.request("POST", f"/api/v1/namespaces/{scene.namespace}/pods/drained-{number}/eviction", body)
        priority = {"priorityClassName": f"{scene.namespace}-high"}
        scene.pod("theirs", 8, scheduler="default-scheduler", spec=priority)
        waiting.wait_for(lambda: scene.bound(), SOON, "they are gone", until=lambda left: set(left) == {"theirs"})
    (rest,) = {first, second} - {node}
    wanted = {
        "tainted": (
            "DeletionByTaintManager",
            f"its node got a taint that it does not tolerate (node {node}, evicted 2",
        ),
        "drained": (
            "EvictionByEvictionAPI",
            f"somebody evicted it, as a drain of its node does (node {rest}, evicted 2",
        ),
    }
    for name, (rule, words) in wanted.items():
        last = waiting.wait_for(
            lambda name=name: scene.get_group(name).get("status", {}).get("lastEviction"),
            SOON,
            f"the eviction of {name} is on record",
            until=lambda last: last is not None and "evicted 2" in last["message"],
        )
        told = plugin.tells("why", name)
        assert told["evicted"] == last
        assert (last["rule"], last["message"].startswith(f"not by Muster: {words}, lost-seconds ")) == (rule, True)
        assert [(one["rule"], one["pods"]) for one in told["evictions"]] == [(rule, 2)]
        assert [one["message"] for one in told["history"] if one["reason"] == rule] == [last["message"]]
        assert plugin.tells("why", f"pod/{name}-1")["evicted"] == last
    told = plugin.tells("why", "pod/solo")
    assert (told["name"], told["phase"], told["queue"]) == ("pod:solo", "Gone", queue)
    assert told["evicted"]["rule"] == "PreemptionByScheduler"
    assert f"(node {rest}, evicted 1, lost-seconds " in told["evicted"]["message"]
    assert [one["reason"] for one in told["history"]] == ["PreemptionByScheduler"]
    rules = {"PreemptionByScheduler", *(rule for rule, _ in wanted.values())}
    waiting.wait_for(
        lambda: plugin.shows("events"), SOON, "Events of all", until=lambda text: rules <= set(text.split())
    )


def test_a_plan_tells_what_becomes_of_a_job_and_creates_nothing(
    scene: Scene, make_nodes: MakeNodes, plugin: Plugin, queue: str, tmp_path: pathlib.Path
) -> None:
    (node,) = make_nodes(1)
    group = objects.pod_group("muster", "train", scene.namespace, 2, queue=queue)
    (pod, _) = objects.gang("train", scene.namespace, 2, gpus=4, queue=queue)
    template = {"metadata": pod["metadata"], "spec": pod["spec"] | {"restartPolicy": "Never"}}
    spec = {"parallelism": 2, "completions": 2, "template": template}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": spec}
    path = tmp_path / "job.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [group, job]}))
    (told,) = plugin.tells("plan", "-f", str(path))["items"]
    assert (told["name"], told["starts"], told["queue"]) == ("muster:train", True, queue)
    assert [(where["name"], where["members"]) for where in told["nodes"]] == [(node, 2)]
    scene.fill(node, 6)
    shown = waiting.wait_for(
        lambda: plugin.shows("plan", "-f", str(path)), SOON, "it would wait", until=lambda text: "would wait" in text
    )
    assert "InsufficientResources" in shown
    assert f"pods 2, resource {objects.GPU}, each 4" in shown
    assert [one["metadata"]["name"] for one in scene.pods()] == ["filler"]
    assert scene.kube.list("podgroups.muster.dev", scene.namespace) == []


def test_what_became_of_the_gpus_is_told_with_the_starts_of_groups(
    scene: Scene, make_nodes: MakeNodes, plugin: Plugin, queue: str
) -> None:
    make_nodes(1)
    scene.group("train", 2, queue=queue)
    scene.gang("train", 2, gpus=4, queue=queue)
    scene.wait_bound("train", 2)

    def started() -> list[Object]:
        done = plugin.run("usage", "--since", "1h", "-o", "json")  # it says beside it since when it knows
        assert done.returncode == 0, done
        (window,) = json.loads(done.stdout)["windows"]
        return [one for one in window["starts"] if one["queue"] == queue] if window["points"] else []

    (line,) = waiting.wait_for(started, SOON, "the start is counted")
    assert (line["size"], line["count"]) == ("2-8", 1)
    assert 0 < line["startingSeconds"]["p50"] < 120
    shown = plugin.run("usage", "--since", "30m", "--compare", "10m")
    assert shown.returncode == 0, shown
    assert cells(shown.stdout, "after:")[-1] == "points"
    assert cells(shown.stdout, "all")[0] == "all"


def test_a_drained_node_and_other_queues_are_rehearsed_and_nothing_is_touched(
    scene: Scene, cluster: base.Cluster, make_nodes: MakeNodes, plugin: Plugin, queue: str, tmp_path: pathlib.Path
) -> None:
    (node,) = make_nodes(1)
    scene.group("run", 2, queue=queue)
    scene.gang("run", 2, gpus=4)
    scene.wait_bound("run", 2)
    scene.group("wait", 1, queue=queue)
    scene.gang("wait", 1, gpus=4)
    scene.wait_says("wait", "InsufficientResources")
    (other,) = make_nodes(1, gpus=4)
    scene.wait_bound("wait", 1)
    (fate,) = plugin.tells("drain", node, "--plan")["groups"]
    assert (fate["name"], fate["left"], fate["minimum"], fate["belowMinimum"]) == ("muster:run", 0, 2, True)
    assert (len(fate["pods"]), fate["replaced"]) == (2, 0)
    shown = plugin.shows("drain", other, "--plan")
    assert f"{other}: 1 pod of 1 group would be evicted, 1 group would fall below the minimum" in shown
    assert "1 pod would not come back" in shown
    path = tmp_path / "queue.json"
    capped = objects.queue(queue, capability={objects.GPU: "4"})
    path.write_text(json.dumps(capped))
    told = plugin.tells("plan", "-f", str(path))
    assert [(one["queue"], one["reason"]) for one in told["warnings"]] == [(queue, "CapabilityBelowUse")]
    (row,) = [one for one in told["queues"] if one["asked"]]
    assert [row[when]["allocated"][objects.GPU] for when in ("before", "after")] == ["12", "12"]
    assert "in use and 4 allowed" in plugin.shows("plan", "-f", str(path))
    assert len(scene.bound("run")) == 2
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "none", "namespace": scene.namespace}}
    scene.kube.create(account)
    tenant = str(cluster.kubeconfig_for_service_account(scene.namespace, "none"))
    done = plugin.run("drain", node, "--plan", kubeconfig=tenant)
    assert (done.returncode, done.stdout) == (1, "")
    assert 'cannot create resource "drainplans"' in done.stderr


def test_what_may_not_be_read_or_is_not_there_is_said_with_its_mend(
    scene: Scene, cluster: base.Cluster, plugin: Plugin
) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "none", "namespace": scene.namespace}}
    scene.kube.create(account)
    tenant = str(cluster.kubeconfig_for_service_account(scene.namespace, "none"))
    done = plugin.run("gangs", kubeconfig=tenant)
    assert (done.returncode, done.stdout) == (1, "")
    assert "forbidden" in done.stderr
    assert "ask for the ClusterRole" in done.stderr
    done = plugin.run("usage", kubeconfig=tenant)
    assert (done.returncode, done.stdout, "forbidden" in done.stderr) == (1, "", True)
    missing = plugin.run("why", "nothing")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert f'no group or pod "nothing" in namespace {scene.namespace}' in missing.stderr


def test_what_was_decided_for_this_file_is_decided_again_from_its_decision_log(
    scene: Scene, make_nodes: MakeNodes, server: answers.Server, plugin: Plugin, queue: str, tmp_path: pathlib.Path
) -> None:
    make_nodes(1)
    scene.group("last", 2, queue=queue)
    scene.gang("last", 2, gpus=1)
    scene.wait_bound("last", 2)

    def replay() -> str:
        argv = [sys.executable, "-m", "extender.sim", "replay", str(server.decisions)]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    # the newest second is not written yet
    shown = waiting.wait_for(replay, SOON, "something is on record", until=lambda text: " 0 decisions" not in text)
    assert "the same is decided" in shown
    path = tmp_path / "queue.json"
    path.write_text(json.dumps(objects.queue(queue, capability={objects.GPU: "1"})))
    day = plugin.shows("plan", "-f", str(path), "--log", str(server.decisions))
    assert cells(day, queue)[:5] == [queue, "1", "0", "0", "1"]
