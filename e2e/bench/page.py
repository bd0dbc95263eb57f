"""The web page with many nodes and pods: when it is there, and how long a change takes to be on screen.

Takes the arguments of the command; gives the result `page`, in milliseconds measured in headless Chromium, and what
filter calls take with and without a reader. Must not assert anything.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import statistics
import time
from typing import Any

from e2e import browser, kube, kubeconfig, objects, pages, waiting
from e2e.bench import histogram, measure, plane, progress, shapes, systems
from e2e.cluster import local, manifests, muster

NODES = 1000
SIZE, GANGS, WAITING = 16, 470, 155
#: pages opened, and changes made
OPENED, CHANGES = 5, 20
FILTERED = 100
WANTED = {"first_paint": 1000, "update": 200}
STEP = ("page",)
_GPUS_WAITING = 9


def steps(told: argparse.Namespace) -> list[tuple[str]]:
    """One run, whatever is told."""
    return [STEP]


def run(told: argparse.Namespace, done: progress.Progress) -> dict[str, Any]:
    """The one run on a control plane of its own."""
    program = browser.find()
    if program is None:
        raise SystemExit("there is no Chromium: install Debian's package chromium, or leave out the part page")
    with plane.running(NODES) as cluster:
        rendered = manifests.Manifests.render(cluster)
        rendered.install(cluster)
        with systems.replica(cluster, rendered) as replica, browser.started(program) as chromium:
            asyncio.run(_populate(cluster.kube))
            token = kubeconfig.read(cluster.admin_with_token).token
            screen = pages.Screen(chromium.page(), f"{replica.page_url}/")
            screen.sign_in(token)
            waiting.wait_for(lambda: screen.number("waiting"), 300, "all wait", until=lambda n: n >= WAITING)
            found = {"alone_filter_p99": _filter(cluster, replica, screen, looked_at=False)}
            found |= _opened(screen) | _changes(cluster, screen)
            found["read_filter_p99"] = _filter(cluster, replica, screen, looked_at=True)
            screen.photograph("ten-thousand-pods")
    done.done(STEP, f"first paint {found['first_paint'][1]} ms, update {found['update'][1]} ms")
    pods = SIZE * (GANGS + WAITING)
    return {"page": {"nodes": NODES, "pods": pods, "groups": GANGS + WAITING, "wanted_ms": WANTED, **found}}


def table(found: dict[str, Any]) -> str:
    """For people."""
    part = found["page"]
    names = {
        "first_paint": f"first paint (at most {WANTED['first_paint']} wanted)",
        "data": "all data on screen, from the start of loading",
        "update": f"a change, from its arrival to the screen (at most {WANTED['update']} wanted)",
        "whole": "a change, from the API server's answer to the screen",
    }
    lines = [f"the page, {part['nodes']} nodes, {part['pods']} pods; ms, least, median and most:"]
    lines += [f"  {text:<66} {part[name][0]:>6} {part[name][1]:>6} {part[name][2]:>6}" for name, text in names.items()]
    filters = (part["alone_filter_p99"], part["read_filter_p99"])
    return "\n".join([*lines, f"  p99 of filter calls: {filters[0]} ms with no reader, {filters[1]} ms with one"])


async def _populate(api: kube.Kube) -> None:
    api.create(objects.topology("network", [objects.RACK]))
    async with kube.AsyncKube(api, measure.CONNECTIONS) as many:
        await many.create_all([objects.queue(f"q{number}", deserved={objects.GPU: 700}) for number in range(8)])
        gangs = [(f"run-{number}", 1, number) for number in range(GANGS)]
        gangs += [(f"wait-{number}", _GPUS_WAITING, number) for number in range(WAITING)]
        await many.create_all(
            [objects.pod_group("muster", name, shapes.NAMESPACE, SIZE, queue=f"q{of % 8}") for name, _, of in gangs]
        )
        for name, gpus, of in gangs:
            nodes = [{"nodeName": f"n{(of * SIZE + place) // 8:05}"} for place in range(SIZE)]
            await many.create_all(
                objects.pod(
                    f"{name}-{place}", shapes.NAMESPACE, gpus, group=name, spec=nodes[place] if gpus == 1 else {}
                )
                for place in range(SIZE)
            )


def _opened(screen: pages.Screen) -> dict[str, Any]:
    """Load it again and again, as one who has signed in."""
    painted, shown = [], []
    for _ in range(OPENED):
        screen.page.evaluate("delete document.documentElement.dataset.shown")
        screen.page.call("Page.reload", ignoreCache=True)
        waiting.wait_for(
            lambda: screen.page.evaluate("document.documentElement.dataset.shown ?? ''"), 60, "its data are shown"
        )
        painted.append(screen.timings()["paint"])
        script = "(one => one.startTime + one.duration)(performance.getEntriesByName('muster-first')[0])"
        shown.append(screen.page.evaluate(script))
    return {"first_paint": _spread(painted), "data": _spread(shown)}


def _changes(cluster: local.LocalCluster, screen: pages.Screen) -> dict[str, Any]:
    """Pods are bound one by one, each to a node with room; the page says when each is seen."""
    arrived, whole = [], []
    for number in range(CHANGES):
        name, node = f"change-{number}", f"n{NODES - 1 - number:05}"
        words = json.dumps(f"{shapes.NAMESPACE}/{name}")
        screen.page.evaluate(
            f"""(() => {{
              const node = document.querySelector('.node[data-node="{node}"]');
              window.seen = new Promise((done) => {{
                const look = () => {{
                  if (node.ariaLabel.includes({words})) setTimeout(() => done(Date.now()));
                  else requestAnimationFrame(look);
                }};
                look();
              }});
            }})()"""
        )
        cluster.kube.create(objects.pod(name, shapes.NAMESPACE, 1, spec={"nodeName": node}))
        created = time.time()
        whole.append(1000 * (screen.page.evaluate("window.seen") / 1000 - created))
        arrived.append(screen.timings()["update"])
    return {"update": _spread(arrived), "whole": _spread(whole)}


def _filter(cluster: local.LocalCluster, replica: muster.Replica, screen: pages.Screen, *, looked_at: bool) -> float:
    """The p99 of filter calls for single pods, in milliseconds, with or without a reader."""
    if not looked_at:
        screen.page.open("about:blank")
    prefix = "read" if looked_at else "alone"
    before = _verbs(replica)
    for number in range(FILTERED):
        cluster.kube.create(objects.pod(f"{prefix}-{number}", shapes.NAMESPACE, 0))
    names = {f"{prefix}-{number}" for number in range(FILTERED)}
    waiting.wait_for(
        lambda: {
            one["metadata"]["name"] for one in cluster.kube.list("pods", shapes.NAMESPACE) if objects.is_bound(one)
        },
        120,
        "all are bound",
        until=lambda bound: names <= bound,
    )
    between = histogram.difference(_verbs(replica), before)
    if not looked_at:
        screen.page.open(screen.url)
        screen.wait_live()
    p99 = histogram.percentile(between, 0.99)
    return -1.0 if math.isinf(p99) else round(1000 * p99, 2)


def _verbs(replica: muster.Replica) -> histogram.Histogram:
    return histogram.read(replica.metrics("extender"), "muster_extender_verb_seconds", verb="filter")


def _spread(values: list[float]) -> list[int]:
    return [round(one) for one in (min(values), statistics.median(values), max(values))]
