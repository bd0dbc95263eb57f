"""`python -m e2e.record_golden`: what the real kube-scheduler says to Muster, and what it accepts, as files for tests.

Takes a local control plane of its own and the example with the profile `muster-score`; gives small files without
uids, times or versions of one run in tests/golden/messages. Must not be run by CI: its files are reviewed as code is.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any

import yaml

from e2e import objects, waiting
from e2e.cluster import local, manifests, muster
from e2e.recorder import Exchange, Recorder

Object = dict[str, Any]
FOLDER = manifests.ROOT / "tests" / "golden" / "messages"
NAMESPACE = "golden"
#: with more nodes than this the scheduler is led by nomination
NOMINATE_ABOVE = 3

_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"), "2026-01-01T00:00:00Z"),
    (re.compile(r'("resourceVersion":\s*)"\d+"'), r'\1"1"'),
    (re.compile(r"kube-api-access-[a-z0-9]+"), "kube-api-access-token"),
)


class Stage:
    """The running parts, and what the scenarios do with them."""

    def __init__(self, cluster: local.LocalCluster, extender: Recorder, gate: Recorder) -> None:
        self.kube = cluster.kube
        self._extender = extender
        self._gate = gate
        self._uids: dict[str, str] = {}

    def nodes(self, first: int, count: int) -> None:
        """Create Ready nodes n<first>, ... of 8 GPUs."""
        names = [f"n{number}" for number in range(first, first + count)]
        for name in names:
            self.kube.create(objects.node(name))
        waiting.wait_for(
            lambda: [node for node in self.kube.list("nodes") if not objects.is_ready(node)],
            30,
            "the nodes are ready",
            until=lambda left: not left,
        )

    def pod(self, name: str, gpus: int = 1, **options: Any) -> None:
        """Create one pod."""
        self.kube.create(objects.pod(name, NAMESPACE, gpus, **options))

    def bound(self, name: str) -> Object:
        """Wait until the scheduler's outcome for a pod is its binding, and give that."""
        pod = waiting.wait_for(lambda: self.kube.get("pods", name, NAMESPACE), 30, f"{name} is bound",
                               until=objects.is_bound)  # fmt: skip
        return {"node": pod["spec"]["nodeName"]}

    def says(self, name: str, text: str) -> Object:
        """Wait until a pod's condition says this, and give the whole sentence."""

        def message() -> str:
            conditions = self.kube.get("pods", name, NAMESPACE)["status"].get("conditions") or []
            return next((entry.get("message", "") for entry in conditions if entry["type"] == "PodScheduled"), "")

        return {"message": waiting.wait_for(message, 30, f"{name} says {text}", until=lambda said: text in said)}

    def call(self, verb: str, pod: str) -> Exchange:
        """The newest call of a verb about a pod."""
        recorder = self._gate if verb == "bind" else self._extender

        def newest() -> Exchange | None:
            return next((one for one in reversed(recorder.exchanges) if one.verb == verb and _about(one) == pod), None)

        found = waiting.wait_for(newest, 30, f"{verb} is called for {pod}")
        assert found is not None
        return found

    def write(self, name: str, exchange: Exchange, outcome: Object) -> None:
        """Write one file."""
        content = {
            "verb": exchange.verb,
            "request": _without_fields(json.loads(self._anonymous(exchange.request.decode()))),
            "status": exchange.status,
            "reply": self._anonymous(exchange.reply.decode()),
            "outcome": outcome,
        }
        path = FOLDER / f"{name}.json"
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
        print(f"{path.relative_to(manifests.ROOT)}: {path.stat().st_size} bytes", file=sys.stderr)

    def _anonymous(self, text: str) -> str:
        for pattern, instead in _VARYING:
            text = pattern.sub(instead, text)
        return _UID.sub(lambda found: self._uids.setdefault(found[0], _uid(len(self._uids) + 1)), text)


def gang(stage: Stage) -> None:
    """Two members, led by the full list: filter, and binds that were held and released."""
    stage.kube.create(objects.pod_group("muster", "train", NAMESPACE, 2))
    for pod in objects.gang("train", NAMESPACE, 2, 8, queue="default"):
        stage.kube.create(pod)
    for number in range(2):
        stage.bound(f"train-{number}")
    outcome = stage.bound("train-0")
    stage.write("filter-gang-member", stage.call("filter", "train-0"), outcome)
    stage.write("bind-gang-member", stage.call("bind", "train-0"), outcome)


def refused(stage: Stage) -> None:
    """A mark whose object is missing: no node, and the constant text in the pod's condition."""
    stage.pod("orphan", group="nowhere", queue="default")
    outcome = stage.says("orphan", "does not exist")
    stage.write("filter-refused", stage.call("filter", "orphan"), outcome)
    stage.kube.delete("pods", "orphan", NAMESPACE, grace=0)


def withdrawn(stage: Stage) -> None:
    """The other member never comes: the held call is answered with an error."""
    stage.kube.create(objects.pod_group("muster", "half", NAMESPACE, 2))
    for pod in objects.gang("half", NAMESPACE, 1, 1, queue="default"):
        stage.kube.create(pod)
    exchange = stage.call("bind", "half-0")
    stage.write("bind-refused", exchange, stage.says("half-0", json.loads(exchange.reply)["Error"]))
    stage.kube.delete("pods", "half-0", NAMESPACE, grace=0)


def scored(stage: Stage) -> None:
    """A pod of the profile without queues and gangs: all nodes pass, and each has a score."""
    stage.pod("filler", 0, scheduler="muster-score", cpu="20")
    stage.bound("filler")
    stage.pod("scored", 0, scheduler="muster-score", cpu="10")
    outcome = stage.bound("scored")
    stage.write("filter-foreign", stage.call("filter", "scored"), outcome)
    stage.write("prioritize", stage.call("prioritize", "scored"), outcome)
    stage.write("bind-foreign", stage.call("bind", "scored"), outcome)
    for name in ("filler", "scored"):
        stage.kube.delete("pods", name, NAMESPACE, grace=0)


def preempted(stage: Stage) -> None:
    """That profile evicts for a pod of higher priority, and we let it."""
    meta = {"name": "golden-high"}
    stage.kube.create({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": 1000})
    for number in range(3):
        stage.pod(f"low-{number}", 0, scheduler="muster-score", cpu="40")
        stage.bound(f"low-{number}")
    stage.pod("urgent", 0, scheduler="muster-score", cpu="40", spec={"priorityClassName": "golden-high"})
    outcome = stage.bound("urgent")
    stage.write("preempt", stage.call("preempt", "urgent"), outcome)


def nominated(stage: Stage) -> None:
    """With more nodes a pod is led by nomination: the scheduler asks for that node alone."""
    stage.nodes(3, 2)
    stage.kube.create(objects.pod_group("muster", "led", NAMESPACE, 2))
    for pod in objects.gang("led", NAMESPACE, 2, 8):
        stage.kube.create(pod)
    outcome = stage.bound("led-0")
    stage.write("filter-nominated", stage.call("filter", "led-0"), outcome)


@contextlib.contextmanager
def stage() -> Iterator[Stage]:
    """A control plane with Muster, and a recorder before the extender and before the gate."""
    with local.LocalCluster(local.Options(default_scheduler=False)) as cluster:
        manifests.Manifests.render(cluster).install(cluster)
        example = manifests.Manifests.render(cluster, manifests.ROOT / "manifests" / "examples" / "muster-score")
        arguments = {"extender": ["--nominate-above-nodes", str(NOMINATE_ABOVE)]}
        replica = muster.Replica(cluster, example, muster.ReplicaOptions(arguments=arguments))
        with Recorder(replica.extender_url) as extender, Recorder(replica.gate_url) as gate:
            _lead_through(replica.config_path, {replica.extender_url: extender.url, replica.gate_url: gate.url})
            with replica:
                replica.wait_active()
                example.wait_gating(cluster)
                cluster.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
                waiting.wait_for(lambda: cluster.kube.find("serviceaccounts", "default", NAMESPACE), 20, "its account")
                yield Stage(cluster, extender, gate)


def main() -> int:
    """Record all scenarios."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with stage() as running:
        running.nodes(0, 3)
        for scenario in (gang, refused, withdrawn, scored, preempted, nominated):
            scenario(running)
    return 0


def _lead_through(config: pathlib.Path, instead: dict[str, str]) -> None:
    content = yaml.safe_load(config.read_text())
    for entry in content["extenders"]:
        entry["urlPrefix"] = instead[entry["urlPrefix"]]
    config.write_text(yaml.safe_dump(content))


def _about(exchange: Exchange) -> str:
    """The name of the pod that a call is about."""
    message = json.loads(exchange.request)
    return str(message["PodName"] if exchange.verb == "bind" else message["Pod"]["metadata"]["name"])


def _without_fields(message: Object) -> Object:
    """The message without managedFields: large, and nobody reads them."""
    pod = message.get("Pod")
    if pod is not None:
        pod["metadata"].pop("managedFields", None)
    return message


def _uid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


if __name__ == "__main__":
    sys.exit(main())
