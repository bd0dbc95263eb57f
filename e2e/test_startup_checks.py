"""Start-up checks (design section 2): the extender acts beside a kube-scheduler that fits, waits for one that is not
there, and ends with the mend named beside one that does not fit.

The run's own replica is stopped where another scheduler takes its place.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import sys
import threading
import urllib.error
from collections.abc import Callable, Iterator

import pytest

from e2e import waiting
from e2e.cluster import base, manifests, process
from e2e.cluster.muster import Replica

BUILD = 'kubernetes_build_info{git_version="%s"} 1\n'
START_SECONDS = 30

StartExtender = Callable[[str], process.Process]


@pytest.fixture
def start_extender(muster: Replica, cluster: base.Cluster) -> Iterator[StartExtender]:
    """A function that starts the extender alone, beside a scheduler at this address; not ready is no failure."""
    muster.stop()
    with contextlib.ExitStack() as stack:

        def start(scheduler: str) -> process.Process:
            argv = [
                sys.executable, "-m", "extender",
                "--kubeconfig", str(muster.kubeconfigs["extender"]),
                "--listen", muster.extender_url.removeprefix("http://"),
                "--gate", muster.gate_url,
                "--namespace", manifests.NAMESPACE,
                "--scheduler", scheduler,
            ]  # fmt: skip
            started = cluster.start_process(argv, "extender-alone", cwd=manifests.ROOT)
            stack.callback(started.kill9)
            return started

        yield start


@pytest.fixture
def play_scheduler() -> Iterator[Callable[[str], str]]:
    """A function that serves /metrics with this text, and gives the address."""
    with contextlib.ExitStack() as stack:

        def play(text: str) -> str:
            class Handler(http.server.BaseHTTPRequestHandler):
                def do_GET(self) -> None:
                    self.send_response(200 if self.path == "/metrics" else 404)
                    self.end_headers()
                    self.wfile.write(text.encode())

                def log_message(self, *_: object) -> None:
                    """Say nothing."""

            server = stack.enter_context(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_address[1]}"

        yield play


def readiness(replica: Replica) -> str:
    """What /readyz of the extender says, be it ready or not; nothing while it does not listen."""
    try:
        return process.http_text(f"{replica.extender_url}/readyz")
    except urllib.error.HTTPError as error:
        with error:
            return error.read().decode()
    except urllib.error.URLError:
        return ""


def refusal_of(extender: process.Process) -> str:
    """The log of an extender that ended by itself with an error, every line of it JSON."""
    waiting.wait_for(lambda: extender.returncode, START_SECONDS, "the extender ends", until=lambda code: code == 1)
    lines = [json.loads(line) for line in extender.log_path.read_text().splitlines()]
    assert (lines[-1]["message"], lines[-1]["process"]) == ("the process ends", "the extender")
    assert not [line for line in lines if line["message"] == "ready"]
    return json.dumps(lines[-1])


def test_beside_the_right_scheduler_it_is_ready_and_without_one_it_says_what_it_waits_for(muster: Replica) -> None:
    assert readiness(muster) == "ok\n"
    muster.scheduler.kill9()
    muster.extender.restart()
    waiting.wait_for(
        lambda: readiness(muster),
        START_SECONDS,
        "all but the scheduler is found",
        until=lambda said: said == "waiting for a fit kube-scheduler\n",
    )
    muster.scheduler.start()
    muster.wait_ready()
    assert muster.extender.alive


def test_a_real_scheduler_with_native_gangs_is_refused(
    muster: Replica, cluster: base.Cluster, start_extender: StartExtender, play_scheduler: Callable[[str], str]
) -> None:
    with contextlib.ExitStack() as stack:
        if knows_native_gangs(cluster):
            scheduler = cluster.start_kube_scheduler(
                muster.config_path, muster.kubeconfigs["scheduler"], ["--feature-gates=GenericWorkload=true"],
                name="scheduler-native-gangs",
            )  # fmt: skip
            stack.callback(scheduler.term)
            url = scheduler.url
        else:
            url = play_scheduler(BUILD % "v1.34.0" + 'kubernetes_feature_enabled{name="GenericWorkload",stage=""} 1\n')
        said = refusal_of(start_extender(url))
    assert url in said
    assert "start it with --feature-gates=GenericWorkload=false" in said


def test_a_scheduler_newer_than_the_api_server_is_refused(
    cluster: base.Cluster, start_extender: StartExtender, play_scheduler: Callable[[str], str]
) -> None:
    major, minor = base.ordinal(cluster.server_minor)
    url = play_scheduler(BUILD % f"v{major}.{minor + 1}.0")
    said = refusal_of(start_extender(url))
    assert f"the kube-scheduler at {url} is {major}.{minor + 1}, newer than the API server" in said
    assert f"apply manifests/overlays/{major}.{minor}" in said


def knows_native_gangs(cluster: base.Cluster) -> bool:
    """GenericWorkload is a gate of schedulers from 1.35 on."""
    return base.ordinal(cluster.binaries.minor) >= (1, 35)
