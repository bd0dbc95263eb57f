"""`make demo`: two gangs want the same GPUs of 32 fake nodes; what happens, and why, as a live table.

Takes nothing (KEEP=1 leaves everything running and names the kubeconfig); gives pictures on the terminal and ends by
itself. Speaks Kubernetes and HTTP to the real programs only.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from e2e import kube, objects, waiting
from e2e.cluster import local, manifests, muster

NODES, RACKS, GPUS = 32, 4, 8
#: each gang takes 24 of the 32 nodes, so only one of them can run
GANG = 24 * GPUS
NAMESPACE = "demo"
SHOW_SECONDS = 4.0


class Screen:
    """The table, drawn again in place on a terminal, and printed when it changed elsewhere."""

    def __init__(self) -> None:
        self._drawn = 0
        self._last = ""
        self._live = sys.stdout.isatty()

    def draw(self, lines: list[str]) -> None:
        """Show these lines instead of those shown before."""
        text = "\n".join(lines)
        if text == self._last:
            return
        self._last = text
        if self._live and self._drawn:
            sys.stdout.write(f"\x1b[{self._drawn}F\x1b[J")
        self._drawn = len(lines)
        print(text, flush=True)
        if not self._live:
            print(flush=True)

    def say(self, text: str) -> None:
        """A line of the story, above the table from now on."""
        self._drawn = 0
        print(f"\n== {text}", flush=True)


class Story:
    """The two gangs and the cluster that they are in."""

    def __init__(self, api: kube.Kube, replica: muster.Replica, screen: Screen) -> None:
        self._api = api
        self._replica = replica
        self._screen = screen

    def submit(self, gang: str) -> None:
        """Create the group and its pods, as a job controller would."""
        self._api.create(objects.pod_group("muster", gang, NAMESPACE, GANG))
        for pod in objects.gang(gang, NAMESPACE, GANG, gpus=1, queue="default"):
            self._api.create(pod)

    def finish(self, gang: str) -> None:
        """Let all pods of a gang end well, as their containers would."""
        for pod in self._pods(gang):
            path = self._api.resource("pods").path(NAMESPACE, pod["metadata"]["name"], "status")
            self._api.request("PATCH", path, {"status": {"phase": "Succeeded"}}, content_type=kube.MERGE)

    def watch(self, seconds: float, until: tuple[str, int] | None = None) -> None:
        """Show the table for so long, or until so many pods of a gang are bound."""
        end = time.monotonic() + seconds

        def reached() -> bool:
            self._screen.draw(self._table())
            if until is None:
                return time.monotonic() >= end
            return sum(objects.is_bound(pod) for pod in self._pods(until[0])) >= until[1]

        waiting.wait_for(reached, seconds + 60, "the demo goes on")

    def _pods(self, gang: str) -> list[dict[str, Any]]:
        return self._api.list("pods", NAMESPACE, labels=f"muster.dev/pod-group={gang}")

    def _table(self) -> list[str]:
        held = {hold["uid"] for hold in self._replica.holds()["holds"]}
        lines = [f"{'GANG':8} {'NEED':>5} {'PODS':>5} {'GATED':>6} {'HELD':>5} {'BOUND':>6} {'DONE':>5}  WHY"]
        for gang in ("first", "second"):
            group = self._api.find("podgroups.muster.dev", gang, NAMESPACE)
            if group is not None:
                lines.append(_row(gang, self._pods(gang), held, group.get("status") or {}))
        return [*lines, "", *self._racks()]

    def _racks(self) -> list[str]:
        used: dict[str, int] = {}
        for pod in self._api.list("pods", NAMESPACE):
            if objects.is_bound(pod) and pod["status"].get("phase") != "Succeeded":
                used[pod["spec"]["nodeName"]] = used.get(pod["spec"]["nodeName"], 0) + 1
        lines = []
        for rack in range(RACKS):
            nodes = [f"node-{number:02}" for number in range(NODES) if number % RACKS == rack]
            lines.append(f"rack r{rack}  " + " ".join(_bar(used.get(name, 0)) for name in nodes))
        return [*lines, f"each [] is a node of {GPUS} GPUs; # = taken"]


def _row(gang: str, pods: list[dict[str, Any]], held: set[str], status: dict[str, Any]) -> str:
    gated = sum(bool(pod["spec"].get("schedulingGates")) for pod in pods)
    bound = sum(objects.is_bound(pod) and pod["status"].get("phase") != "Succeeded" for pod in pods)
    done = sum(pod["status"].get("phase") == "Succeeded" for pod in pods)
    holding = sum(pod["metadata"]["uid"] in held for pod in pods)
    why = f"{status.get('reason') or status.get('phase', 'Pending')}: {status.get('message', '-')}"
    return f"{gang:8} {GANG:5} {len(pods):5} {gated:6} {holding:5} {bound:6} {done:5}  {why}"


def _bar(taken: int) -> str:
    return "[" + "#" * taken + "." * (GPUS - taken) + "]"


@contextlib.contextmanager
def control_plane(keep: bool) -> Iterator[local.LocalCluster]:
    """A local control plane with raised client limits; left running with `keep`."""
    cluster = local.LocalCluster(local.Options(stay=keep))
    try:
        cluster.start()
        yield cluster
    finally:
        if not keep:
            cluster.stop()


def main() -> int:
    """Run the demo; gives the exit status."""
    keep = os.environ.get("KEEP", "") not in ("", "0")
    screen = Screen()
    screen.say("starting a control plane (the first time it is built: about 10 minutes)")
    with control_plane(keep) as cluster:
        rendered = manifests.Manifests.render(cluster)
        rendered.install(cluster)
        replica = muster.Replica(cluster, rendered, muster.ReplicaOptions(stay=keep))
        try:
            replica.start()
            replica.wait_ready()
            replica.wait_active()
            rendered.wait_gating(cluster)
            _play(Story(cluster.kube, replica, screen), cluster.kube, screen)
        finally:
            if not keep:
                replica.stop()
        if keep:
            screen.say(f"left running; to look around: export KUBECONFIG={cluster.kubeconfig}")
    return 0


def _play(story: Story, api: kube.Kube, screen: Screen) -> None:
    screen.say(f"{NODES} nodes of {GPUS} GPUs in {RACKS} racks")
    for number in range(NODES):
        api.create(objects.node(f"node-{number:02}", GPUS, rack=f"r{number % RACKS}"))
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    waiting.wait_for(lambda: api.find("serviceaccounts", "default", NAMESPACE), 20, "the namespace is usable")
    waiting.wait_for(
        lambda: [n for n in api.list("nodes") if not objects.is_ready(n)],
        30,
        "nodes are ready",
        until=lambda left: not left,
    )
    screen.say(f"gang 'first' needs {GANG} GPUs at once: it is planned whole and starts together")
    story.submit("first")
    story.watch(30, until=("first", GANG))
    screen.say(f"gang 'second' needs {GANG} too: {NODES * GPUS - GANG} are free, so none of it starts, and it says why")
    story.submit("second")
    story.watch(SHOW_SECONDS)
    screen.say("'first' is done: 'second' starts by itself")
    story.finish("first")
    story.watch(30, until=("second", GANG))
    story.watch(SHOW_SECONDS / 2)
    screen.say("done: at no moment did a part of a gang hold GPUs without the rest")


if __name__ == "__main__":
    sys.exit(main())
