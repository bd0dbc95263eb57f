"""The web page in headless Chromium, on the real control plane, with a live workload. Pictures are kept (pages.py)."""

from __future__ import annotations

import asyncio
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e import browser, kubeconfig, objects, pages, scenes, waiting
from e2e import kube as kube_module
from e2e.cluster import base
from e2e.scenes import SOON, Scene

IN_CI = os.environ.get("CI", "").lower() not in ("", "0", "false")
MANY = 1000
MakeNodes = Callable[..., list[str]]
Object = dict[str, Any]


@pytest.fixture(scope="module")
def chromium() -> Iterator[browser.Browser]:
    program = browser.find()
    if program is None:
        missing = "there is no Chromium: install Debian's package chromium, or name one with CHROMIUM"
        if IN_CI:
            pytest.fail(missing)
        pytest.skip(missing)
    with browser.started(program) as running:
        yield running


@pytest.fixture
def network(kube: kube_module.Kube, namespace: str) -> Iterator[None]:
    """Blocks of racks."""
    kube.create(objects.topology(namespace, [objects.BLOCK, objects.RACK]))
    yield
    kube.delete("topologies.muster.dev", namespace)


@pytest.fixture
def admin(cluster: base.Cluster) -> str:
    """A token that may do anything."""
    return kubeconfig.read(cluster.admin_with_token).token


@pytest.fixture
def look(chromium: browser.Browser, scene: Scene) -> Iterator[Callable[..., pages.Screen]]:
    """A function that opens the page, and signs in when it is given a token. Pages must have nothing to complain of."""
    opened: list[pages.Screen] = []

    def look(token: str = "", namespaces: str = "") -> pages.Screen:
        screen = pages.Screen(chromium.page(), f"{scene.replica.page_url}/")
        opened.append(screen)
        if token:
            screen.sign_in(token, namespaces)
        return screen

    yield look
    for screen in opened:
        assert [said for said in screen.page.problems if "status of 40" not in said] == []
        assert {url for url in screen.page.requested if not url.startswith(screen.url)} <= {"about:blank"}
        assert not [url for url in screen.page.requested if "eyJ" in url], "a token stands in an address"


def account_token(cluster: base.Cluster, api: kube_module.Kube, namespace: str, name: str, role: str = "") -> str:
    """A token of a new service account, perhaps with a role in its namespace."""
    meta = {"name": name, "namespace": namespace}
    api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
    if role:
        subject = {"kind": "ServiceAccount", **meta}
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        api.create(
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": meta, "roleRef": ref,
             "subjects": [subject]}
        )  # fmt: skip
    path: pathlib.Path = cluster.kubeconfig_for_service_account(namespace, name)
    return kubeconfig.read(path).token


def test_a_gang_is_seen_waiting_starting_and_running_in_the_words_of_its_status(
    scene: Scene, make_nodes: MakeNodes, queue: str, network: None, look: Callable[..., pages.Screen], admin: str
) -> None:
    first, second = make_nodes(2, 4, racks=2)
    for node in (first, second):
        scene.fill(node, 4, f"filler-{node}")
    scene.kube.patch(
        "queues.muster.dev", queue, {"spec": {"deserved": {objects.GPU: 2}, "capability": {objects.GPU: 8}}}
    )
    screen = look(admin)
    screen.wait_live()
    waiting.wait_for(
        lambda: screen.page.evaluate("document.querySelector('#charts figure svg')?.ariaLabel ?? ''"),
        SOON,
        "what the extender remembers of the GPUs is drawn",
        until=lambda label: label.startswith("GPUs over two days: now allocated "),
    )
    scene.group("train", 6, queue=queue)
    scene.gang("train", 6)
    title = f"{scene.namespace}/train"
    scene.wait_says("train", "InsufficientResources")
    cells = screen.wait_row("waiting", title, queue, "1", "InsufficientResources", "0/6")
    assert scene.message("train") in cells
    assert (screen.cells(first, "other"), screen.cells(first, "free")) == (4, 0)
    assert f"{first}: 4 GPUs, 0 free; others has 4" == screen.node(first)
    screen.page.evaluate(
        f"[...document.querySelectorAll('#waiting .link')].find((one) => one.innerText === '{title}').click()"
    )
    told = waiting.wait_for(
        screen.details, SOON, "the history is told", until=lambda text: "History" in text and "starts when" in text
    )
    assert scene.message("train") in told
    screen.photograph("waiting")
    screen.page.key("Escape")
    assert screen.details() == ""
    scene.delete(f"filler-{first}", f"filler-{second}")
    scene.wait_whole("train", 6)
    screen.wait_no_row("waiting", title)
    waiting.wait_for(
        lambda: [screen.cells(node, "free") for node in (first, second)],
        SOON,
        "the map shows the gang",
        until=lambda free: sum(free) == 2,
    )
    assert f"{title} has" in screen.node(first)
    row = screen.wait_row("queues", queue, "6", "4")  # used, and borrowed of it
    assert "Open" in row
    # by the keyboard alone: from node to node, and what is there
    screen.page.evaluate(f"document.querySelector('.node[data-node=\"{first}\"]').focus()")
    screen.page.key("ArrowDown")
    assert screen.page.evaluate("document.activeElement.dataset.node") == second
    screen.page.key("ArrowUp")
    screen.page.key("Enter")
    assert title in screen.details()
    screen.page.key("Escape")
    screen.page.evaluate("document.getElementById('search').focus()")
    screen.page.type(title)
    assert screen.page.texts("#hits li") == [f"group\n{title}"]
    screen.page.key("Enter")
    assert "Running" in screen.details()
    assert screen.unnamed() == []
    screen.photograph("running")


def wait_evicted(screen: pages.Screen, name: str, pods: str) -> str:
    """Wait until the list of evictions has so many pods of this group; what it says. Members leave one by one."""
    told = waiting.wait_for(
        lambda: [one for one in screen.page.texts("#evictions .events li") if name in one],
        SOON,
        f"{pods} of {name} are told of",
        until=lambda rows: any(pods in row for row in rows),
    )
    assert len(told) == 1
    return told[0]


def test_an_eviction_is_on_the_timeline_with_its_cause_whoever_did_it(
    scene: Scene, make_nodes: MakeNodes, queue: str, look: Callable[..., pages.Screen], admin: str
) -> None:
    make_nodes(1)
    screen = look(admin)
    classes = {f"{scene.namespace}-{name}": value for name, value in (("low", 10), ("high", 20))}
    low, high = ({"priorityClassName": name} for name in classes)
    with scenes.priority_classes(scene.kube, **classes):
        scene.group("low", 2, queue=queue)
        scene.gang("low", 2, 4, queue=queue, spec=low)
        scene.wait_running("low")
        scene.group("high", 1, queue=queue)
        scene.gang("high", 1, 8, queue=queue, spec=high)
        scene.wait_running("high")
        ours = wait_evicted(screen, f"{scene.namespace}/low", "2 pods")
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "high-0"}}
        scene.kube.request("POST", f"/api/v1/namespaces/{scene.namespace}/pods/high-0/eviction", body)
        theirs = wait_evicted(screen, f"{scene.namespace}/high", "1 pod")
    assert "Preempted" in ours
    assert scene.get_group("low")["status"]["lastEviction"]["message"] in ours
    assert "EvictionByEvictionAPI" in theirs
    assert "not by Muster: somebody evicted it" in theirs
    read = "[...document.querySelectorAll('#evictions .strip circle title')].map((one) => one.textContent)"
    titles = screen.page.evaluate(read)
    assert sorted(one.partition(":")[0] for one in titles if scene.namespace in one) == [
        f"{scene.namespace}/{name}" for name in ("high", "low")
    ]
    assert screen.unnamed() == []
    screen.photograph("evicted")


def test_hostile_texts_are_shown_as_they_are_and_do_nothing(
    scene: Scene, make_nodes: MakeNodes, look: Callable[..., pages.Screen], admin: str
) -> None:
    (node,) = make_nodes(1)
    screen = look(admin)
    scene.group("evil", 1, "volcano", queue=pages.HOSTILE)
    scene.gang("evil", 1, source="volcano")
    cells = screen.wait_row("waiting", f"{scene.namespace}/evil")
    assert [cell for cell in cells if "<img src=x onerror=" in cell]
    screen.page.evaluate("document.querySelector('#waiting .link').click()")
    waiting.wait_for(screen.details, SOON, "the details are told", until=lambda text: "onerror" in text)
    assert screen.page.evaluate("window.hacked ?? document.querySelector('main img, aside img') ?? 0") == 0
    # and were a script of ours ever to make HTML of text, the browser would refuse
    refused = "(() => { try { document.body.innerHTML = '<b>'; return 'done' } catch (error) { return error.name } })()"
    assert screen.page.evaluate(refused) == "TypeError"
    # a new extender has other numbers for everything: the page takes it all in anew, by itself
    scene.replica.extender.restart()
    scene.replica.wait_ready()
    waiting.wait_for(
        lambda: screen.page.text("#live-text"), SOON, "it is live again", until=lambda said: "live" in said
    )
    screen.wait_row("waiting", f"{scene.namespace}/evil")
    assert screen.node(node).startswith(f"{node}: 8 GPUs")
    screen.page.problems.clear()  # it says what was refused, and that it could not connect


def test_each_reader_sees_what_its_rights_allow_and_who_has_none_sees_nothing(
    scene: Scene, cluster: base.Cluster, make_nodes: MakeNodes, look: Callable[..., pages.Screen]
) -> None:
    (node,) = make_nodes(1)
    scene.pod("mine", 16)
    nobody, tenant = (
        account_token(cluster, scene.kube, scene.namespace, name, role)
        for name, role in (("none", ""), ("own", "view"))
    )
    for token, words in ((nobody, "may see nothing"), ("no-token-at-all", "does not accept")):
        screen = look(token)
        screen.wait_refused(words)
        shown = screen.everything()
        assert node not in shown
        assert f"{scene.namespace}/" not in shown
    screen = look(tenant)
    waiting.wait_for(
        lambda: screen.rows("waiting"), SOON, "its own", until=lambda rows: set(rows) == {f"{scene.namespace}/mine"}
    )
    assert f"groups of {scene.namespace} only" in screen.page.text("#notice")
    assert node not in screen.everything()
    assert "may not list queues" in screen.page.text("#queues")
    assert "may not list nodes" in screen.page.text("#map")
    scene.kube.delete("rolebindings.rbac.authorization.k8s.io", "own", scene.namespace)
    screen.wait_refused("may see nothing")
    assert "mine" not in screen.everything()


def test_a_thousand_nodes_are_on_screen_and_stay_live(
    scene: Scene, network: None, look: Callable[..., pages.Screen], admin: str
) -> None:
    prefix = f"{scene.namespace}-n"
    nodes = [
        objects.node(f"{prefix}{n:04}", rack=f"r{n // 25:02}", block=f"b{n // 250}", kwok=False) for n in range(MANY)
    ]
    gangs = [f"gang-{number}" for number in range(12)]
    screen = look(admin)
    screen.wait_live()
    before = screen.number("nodes")

    async def create() -> None:
        async with kube_module.AsyncKube(scene.kube) as many:
            await many.create_all(nodes)
            for place, name in enumerate(gangs):
                await many.create(objects.pod_group("muster", name, scene.namespace, 8))
                spots = [{"nodeName": f"{prefix}{place * 9 + n:04}"} for n in range(8)]
                members = objects.gang(name, scene.namespace, 8, 8)
                await many.create_all({**one, "spec": one["spec"] | at} for one, at in zip(members, spots, strict=True))

    async def delete() -> None:
        async with kube_module.AsyncKube(scene.kube) as many:
            await asyncio.gather(*(many.delete("nodes", node["metadata"]["name"]) for node in nodes))

    try:
        asyncio.run(create())
        waiting.wait_for(lambda: screen.number("nodes"), SOON, "all are there", until=lambda n: n == before + MANY)
        waiting.wait_for(lambda: screen.number("used"), SOON, "so are the gangs", until=lambda n: n >= 12 * 64)
        assert screen.page.evaluate("document.querySelectorAll('.node').length") >= MANY
        assert screen.node(f"{prefix}0000") == f"{prefix}0000: 8 GPUs, 0 free; {scene.namespace}/gang-0 has 8"
        assert screen.page.texts("#map h3")[:2] == ["b0", "b1"]
        colours = screen.page.evaluate(
            "new Set([...document.querySelectorAll('.node .gpu')].map((i) => i.className)).size"
        )
        assert colours == 12 + 1, "each gang has a colour of its own, and what is free has none"
        scene.fill(f"{prefix}{MANY - 1:04}", 3)
        waiting.wait_for(
            lambda: screen.cells(f"{prefix}{MANY - 1:04}", "other"), SOON, "it is live", until=lambda n: n == 3
        )
        screen.photograph("thousand-nodes")
    finally:
        asyncio.run(delete())
