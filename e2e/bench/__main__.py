"""`python -m e2e.bench`: Muster beside kube-scheduler and its native gangs, runs interleaved.

Takes --runs, --nodes, --shapes, --systems; prints progress with the time left, a table and ratios, and writes
e2e/bench/results/latest.json. Speed is printed, never asserted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import pathlib
import sys
import time

from e2e import kube, objects
from e2e.bench import measure, report, shapes, systems
from e2e.cluster import local, manifests

RESULTS = pathlib.Path(__file__).parent / "results" / "latest.json"


def main(argv: list[str]) -> int:
    """Run the benchmark; gives the exit status."""
    told = _arguments(argv)
    runs: dict[report.Key, list[measure.Run]] = {}
    plan = [
        (nodes, shape, system, number)
        for nodes in told.nodes
        for number in range(told.runs)
        for shape in (told.shapes if nodes == min(told.nodes) else told.shapes[:1])
        for system in told.systems
    ]
    started = time.monotonic()
    for nodes in told.nodes:
        steps = [step for step in plan if step[0] == nodes]
        with _control_plane(nodes) as cluster:
            rendered = manifests.Manifests.render(cluster)
            rendered.install(cluster)
            for _, shape, system, number in steps:
                done = asyncio.run(_one(cluster, rendered, shape, system, number))
                runs.setdefault((nodes, shape, system), []).append(done)
                _progress(plan, runs, started, f"{nodes} nodes, {shape}, {system}: {done.total_s:.2f} s")
    found = report.rows(runs)
    told.output.parent.mkdir(parents=True, exist_ok=True)
    told.output.write_text(json.dumps({"flags": systems.FLAGS, "rows": found}, indent=1) + "\n")
    print(report.table(found))
    print(f"\nflags: {json.dumps(systems.FLAGS)}\nwritten to {told.output.name}")
    return 0


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m e2e.bench", description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--nodes", type=int, nargs="+", default=[500, 3000])
    parser.add_argument("--shapes", nargs="+", choices=list(shapes.BY_NAME), default=list(shapes.BY_NAME),
                        help="with several node counts, the larger ones run the first shape only")  # fmt: skip
    parser.add_argument("--systems", nargs="+", choices=shapes.SYSTEMS, default=list(shapes.SYSTEMS))
    parser.add_argument("--output", type=pathlib.Path, default=RESULTS)
    return parser.parse_args(argv)


def _control_plane(nodes: int) -> _Plane:
    return _Plane(nodes)


class _Plane:
    """A control plane with bare Ready nodes; nothing but the system under test works on it."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._cluster = local.LocalCluster(local.Options(controller_manager=False, kwok=False, default_scheduler=False))

    def __enter__(self) -> local.LocalCluster:
        cluster = self._cluster.__enter__()
        asyncio.run(_populate(cluster.kube, self._nodes))
        return cluster

    def __exit__(self, *exception: object) -> None:
        self._cluster.__exit__(*exception)


async def _populate(api: kube.Kube, count: int) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": shapes.NAMESPACE}}
    api.create(namespace)
    made = [
        objects.node(f"n{i:05}", rack=f"r{i % 20}", cpu="128", memory="2Ti", pods=250, kwok=False) for i in range(count)
    ]
    async with kube.AsyncKube(api) as many:
        await many.create_all(made)
        # admission taints every new node as not ready, and no controller runs that would see that it is
        await asyncio.gather(
            *(many.patch("nodes", node["metadata"]["name"], {"spec": {"taints": None}}) for node in made)
        )


async def _one(
    cluster: local.LocalCluster, rendered: manifests.Manifests, shape: str, system: str, number: int
) -> measure.Run:
    with systems.running(cluster, rendered, system):
        async with kube.AsyncKube(cluster.kube, measure.CONNECTIONS) as api:
            return await measure.run(api, shapes.BY_NAME[shape], system, f"{system[0]}{number}-")


def _progress(
    plan: list[tuple[int, str, str, int]], runs: dict[report.Key, list[measure.Run]], started: float, text: str
) -> None:
    done = sum(len(some) for some in runs.values())
    spent = time.monotonic() - started
    left = spent / done * (len(plan) - done)
    print(f"[{done}/{len(plan)}, {left / 60:.0f} min left] {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
