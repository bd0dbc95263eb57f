# ruff: noqa: ASYNC240 - the file is tiny, and nobody else is on the loop
"""Whether a kube-scheduler fits: what its metrics say, what is refused with which mend, and that silence is awaited."""

import asyncio
import pathlib
from collections.abc import AsyncIterator
from typing import Any

import kube_stub
import pytest
from aiohttp import web
from kube_stub import fail, ok, reset

from extender import settings
from extender.kube import client, errors, scheduler

METRICS = "/metrics"
BUILD = (
    'kubernetes_build_info{build_date="2026-07-21T13:20:16Z",compiler="gc",git_commit="",git_tree_state="",'
    'git_version="%s",go_version="go1.26.0",major="1",minor="37",platform="linux/amd64"} 1\n'
)
GATE = 'kubernetes_feature_enabled{name="%s",stage="%s"} %s\n'
OTHERS = (
    "# HELP kubernetes_build_info A metric with a constant '1' value\n# TYPE kubernetes_build_info gauge\n"
    'go_info{version="go1.26.0"} 1\nscheduler_pending_pods{queue="gated"} 0\n'
)


def metrics_of(version: str, *gates: tuple[str, str, str]) -> str:
    return OTHERS + BUILD % version + "".join(GATE % gate for gate in gates)


SAID: dict[str, tuple[str, scheduler.Scheduler | None]] = {
    "a release": (metrics_of("v1.37.2"), scheduler.Scheduler((1, 37), False)),
    "a vendor's build": (metrics_of("v1.34.4-gke.100+k3s1"), scheduler.Scheduler((1, 34), False)),
    "a build without a stamp": (metrics_of("v0.0.0-master+$Format:%H$"), scheduler.Scheduler((0, 0), False)),
    "the gate is off": (
        metrics_of("v1.37.2", ("GenericWorkload", "BETA", "0")),
        scheduler.Scheduler((1, 37), False),
    ),
    "the gate is on": (metrics_of("v1.37.2", ("GenericWorkload", "BETA", "1")), scheduler.Scheduler((1, 37), True)),
    "the gate is on and stable": (
        metrics_of("v1.40.0", ("GenericWorkload", "", "1")),
        scheduler.Scheduler((1, 40), True),
    ),
    "gates whose names hold the name": (
        metrics_of("v1.37.2", ("NotGenericWorkload", "BETA", "1"), ("GenericWorkloads", "BETA", "1")),
        scheduler.Scheduler((1, 37), False),
    ),
    "another gate is on": (
        metrics_of("v1.37.2", ("GenericWorkload", "BETA", "0"), ("PodLevelResources", "BETA", "1")),
        scheduler.Scheduler((1, 37), False),
    ),
    "no version": (OTHERS, None),
    "a version that is no number": (metrics_of("main"), None),
    "a version in other digits": (metrics_of("v١.٢"), None),
    "a version of endless digits": (metrics_of("v" + "9" * 5000 + ".1"), None),
    "a comment about the version": (f"# {BUILD % 'v1.37.2'}", None),
    "nothing": ("", None),
}


@pytest.mark.parametrize(("text", "want"), SAID.values(), ids=SAID.keys())
def test_what_the_metrics_say(text: str, want: scheduler.Scheduler | None) -> None:
    if want is None:
        with pytest.raises(errors.Unreadable):
            scheduler.decode_metrics(text)
    else:
        assert scheduler.decode_metrics(text) == want


NEWER = "newer than the API server, which is 1.37; run a kube-scheduler of 1.37 (apply manifests/overlays/1.37)"
NATIVE = "the feature gate GenericWorkload on, and would wait for pod groups that Muster holds; start it with "
FITS: dict[str, tuple[tuple[int, int], bool, str]] = {
    "of the same minor": ((1, 37), False, ""),
    "older": ((1, 34), False, ""),
    "older, where a text comparison would say newer": ((1, 9), False, ""),
    "one minor newer": ((1, 38), False, f"the kube-scheduler at https://x is 1.38, {NEWER}"),
    "a major newer": ((2, 0), False, f"is 2.0, {NEWER}"),
    "with native gangs": ((1, 37), True, f"at https://x has {NATIVE}--feature-gates=GenericWorkload=false"),
    "newer and with native gangs": ((1, 38), True, NEWER),
}


@pytest.mark.parametrize(("version", "native", "want"), FITS.values(), ids=FITS.keys())
def test_which_scheduler_fits(version: tuple[int, int], native: bool, want: str) -> None:
    found = scheduler.Scheduler(version, native)
    if not want:
        scheduler.check(found, (1, 37), "https://x")
        return
    with pytest.raises(settings.Unusable) as refused:
        scheduler.check(found, (1, 37), "https://x")
    assert want in str(refused.value)
    assert str(refused.value).startswith("--scheduler: ")


VERSIONS: dict[str, tuple[dict[str, Any], tuple[int, int] | None]] = {
    "plain": ({"major": "1", "minor": "37"}, (1, 37)),
    "with a vendor's plus": ({"major": "1", "minor": "34+"}, (1, 34)),
    "empty": ({"major": "", "minor": ""}, None),
    "missing": ({}, None),
    "no number": ({"major": "1", "minor": "x"}, None),
    "other digits": ({"major": "1", "minor": "٣"}, None),
    "endless digits": ({"major": "1", "minor": "9" * 5000}, None),
}


@pytest.mark.parametrize(("content", "want"), VERSIONS.values(), ids=VERSIONS.keys())
async def test_the_version_of_the_api_server(
    api: client.Api, stub: kube_stub.Stub, content: dict[str, Any], want: tuple[int, int] | None
) -> None:
    stub.on("GET", "/version", ok(content))
    if want is None:
        with pytest.raises(errors.Unreadable):
            await scheduler.server_version(api)
    else:
        assert await scheduler.server_version(api) == want


# --- over the wire: the stub plays the API server and the scheduler ----------------------------------


class Looks:
    """Counts the looks that found no fault."""

    def __init__(self) -> None:
        self.fitting = 0

    def fits(self) -> None:
        self.fitting += 1


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    monkeypatch.setattr(scheduler, "FIRST_DELAY", 0.01)
    monkeypatch.setattr(scheduler, "LONGEST_DELAY", 0.01)
    return Looks()


@pytest.fixture
async def following(api: client.Api, stub: kube_stub.Stub, looks: Looks) -> AsyncIterator["asyncio.Task[None]"]:
    stub.on("GET", "/version", ok({"major": "1", "minor": "37"}))
    task: asyncio.Task[None] = asyncio.create_task(scheduler.follow(api, stub.url, looks.fits, look_again=0.01))
    yield task
    task.cancel()
    await asyncio.wait({task})


RIGHT = ok(metrics_of("v1.37.2").encode())
NOT_YET: dict[str, kube_stub.Answer] = {
    "it has not let us in yet": fail(403, "Forbidden", "cannot get path"),
    "our token is refused": fail(401, "Unauthorized"),
    "it breaks the connection": reset,
    "it fails": fail(500),
    "its metrics are cut off before the version": ok(OTHERS.encode()),
    "its metrics are no text": ok(b"\xff\xfe\x00"),
}


@pytest.mark.parametrize("answer", NOT_YET.values(), ids=NOT_YET.keys())
async def test_a_scheduler_that_does_not_tell_yet_is_asked_again(
    following: "asyncio.Task[None]", stub: kube_stub.Stub, looks: Looks, answer: kube_stub.Answer
) -> None:
    stub.on("GET", METRICS, answer)
    await kube_stub.until(lambda: stub.count("GET", METRICS) > 2)
    assert looks.fitting == 0
    stub.on("GET", METRICS, RIGHT)
    await kube_stub.until(lambda: looks.fitting > 0)
    assert not following.done()


async def test_an_api_server_that_does_not_tell_its_version_is_asked_again(
    following: "asyncio.Task[None]", stub: kube_stub.Stub, looks: Looks
) -> None:
    stub.on("GET", "/version", fail(503), ok({"major": "1", "minor": "37"}))
    stub.on("GET", METRICS, RIGHT)
    await kube_stub.until(lambda: looks.fitting > 0)
    assert not following.done()


async def test_a_scheduler_restarted_with_the_wrong_gate_is_noticed(
    following: "asyncio.Task[None]", stub: kube_stub.Stub, looks: Looks
) -> None:
    stub.on("GET", METRICS, RIGHT)
    await kube_stub.until(lambda: looks.fitting > 1)
    stub.on("GET", METRICS, ok(metrics_of("v1.37.2", ("GenericWorkload", "BETA", "1")).encode()))
    with pytest.raises(settings.Unusable, match="GenericWorkload=false"):
        await asyncio.wait_for(following, 5)


async def test_our_token_is_shown_and_followed_when_it_changes(
    following: "asyncio.Task[None]", stub: kube_stub.Stub, looks: Looks, token_file: pathlib.Path
) -> None:
    stub.on("GET", METRICS, RIGHT)
    await kube_stub.until(lambda: looks.fitting > 0)
    assert {asked.headers.get("Authorization") for asked in stub.asked} == {"Bearer first"}
    token_file.write_text("second\n")
    stub.token = "second"
    seen = looks.fitting
    await kube_stub.until(lambda: looks.fitting > seen + 1)


async def test_a_redirection_does_not_carry_our_token_elsewhere(
    following: "asyncio.Task[None]", stub: kube_stub.Stub, looks: Looks
) -> None:
    async def elsewhere(stub: kube_stub.Stub, request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": f"{stub.url}/elsewhere"})

    stub.on("GET", METRICS, elsewhere)
    await kube_stub.until(lambda: stub.count("GET", METRICS) > 1)
    assert stub.count("GET", "/elsewhere") == 0
    assert looks.fitting == 0
