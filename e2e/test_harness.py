"""Tests of the harness itself: what it promises to the other e2e tests, shown on the real programs."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import ssl
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator

import pytest

from e2e import objects, waiting
from e2e.cluster import base, build, choose, local, manifests, process, proxy, versions
from e2e.cluster.muster import ROLES, Replica, go_seconds
from e2e.kube import ApiError, AsyncKube, Kube

PINS = {
    ("1.34", "k8s.io/kubernetes"): versions.KUBERNETES["1.34"],
    ("1.37", "k8s.io/kubernetes"): versions.KUBERNETES["1.37"],
    ("etcd", "go.etcd.io/etcd/server/v3"): versions.ETCD,
    ("etcd", "sigs.k8s.io/kwok"): versions.KWOK,
}


@pytest.mark.parametrize(("module", "package"), PINS, ids="-".join)
def test_the_go_modules_repeat_the_pins(module: str, package: str) -> None:
    text = (build.MODULES / module / "go.mod").read_text()
    assert re.findall(rf"^\s*(?:require )?{re.escape(package)} (v\S+)", text, re.MULTILINE) == [PINS[module, package]]


@pytest.mark.parametrize(
    ("script", "want"),
    [
        pytest.param("", "There is no `go` on PATH", id="no Go at all"),
        pytest.param("echo go1.22.3; echo /go", "The `go` on PATH is go1.22.3", id="a Go that is too old"),
        pytest.param(
            "echo 'go.mod requires go >= 1.26.0' >&2; exit 1", "requires go >= 1.26.0", id="a Go that refuses go.mod"
        ),
    ],
)
def test_a_missing_or_old_go_is_named_with_the_mend(
    script: str, want: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if script:
        fake = tmp_path / "go"
        fake.write_text(f"#!/bin/sh\n{script}\n")
        fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(build.BuildError, match=re.escape(want)) as caught:
        build.go_root(build.MODULES / versions.DEFAULT_MINOR)
    assert "1.26 or newer" in str(caught.value)
    assert "KUBECONFIG" in str(caught.value)


FAKE_GO = """#!/bin/sh
if [ "$1" = env ]; then echo go1.26.0; echo /goroot; exit; fi
while [ "$1" != -o ]; do shift; done
echo "${2##*/.}" >> "$LOG"
sleep 0.1
[ -z "$FAIL" ] || { echo the compiler says no >&2; echo half > "$2"; exit 1; }
echo whole > "$2"
"""


@pytest.fixture
def fake_go(tmp_path: pathlib.Path) -> pathlib.Path:
    program = tmp_path / "go"
    program.write_text(FAKE_GO)
    program.chmod(0o755)
    return tmp_path


def _run_build(folder: pathlib.Path, **more: str) -> subprocess.Popen[str]:
    path = f"{folder}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "XDG_CACHE_HOME": str(folder), "LOG": str(folder / "log"), **more}
    argv = [sys.executable, "-m", "e2e.cluster.build"]
    return subprocess.Popen(argv, cwd=manifests.ROOT, env=environment, stderr=subprocess.PIPE, text=True)


def test_two_runs_at_once_build_each_program_once(fake_go: pathlib.Path) -> None:
    runs = [_run_build(fake_go) for _ in range(2)]
    for run in runs:
        said = run.communicate(timeout=60)[1]
        assert (run.returncode, "[control plane]" in said) == (0, True), said
    built = [line.rpartition(".")[0] for line in (fake_go / "log").read_text().split()]
    assert sorted(built) == sorted([*build.CERTIFIERS, *versions.KUBERNETES_BINARIES, *versions.ETCD_BINARIES])
    again = _run_build(fake_go)
    assert (again.communicate(timeout=60)[1], again.returncode) == ("", 0)


def test_a_failed_build_says_why_and_leaves_nothing_that_looks_whole(fake_go: pathlib.Path) -> None:
    run = _run_build(fake_go, FAIL="1")
    assert "the compiler says no" in run.communicate(timeout=60)[1]
    assert run.returncode == 1
    assert [path.name for path in (fake_go / "muster").rglob("*") if path.is_file()] == [".lock"]


@pytest.mark.parametrize(
    ("environment", "kind_image", "want"),
    [
        pytest.param({"KUBECONFIG": "/k"}, "image", "existing", id="KUBECONFIG goes first"),
        pytest.param({}, "image", "kind", id="a kind node image goes before the local control plane"),
        pytest.param({}, "", "local", id="without anything: the local control plane"),
        pytest.param({"KUBECONFIG": "/k", "E2E_CLUSTER": "kind"}, "image", "kind", id="E2E_CLUSTER overrides"),
        pytest.param(
            {"KUBECONFIG": "/k", "K8S": versions.DEFAULT_MINOR}, "image", "local", id="K8S asks for a local one"
        ),
    ],
)
def test_the_cluster_is_chosen_in_order(
    environment: dict[str, str],
    kind_image: str,
    want: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("KUBECONFIG", "E2E_CLUSTER", "K8S"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(choose, "_kind_image", lambda: kind_image)
    chosen = choose.choose()
    chosen.stop()
    assert chosen.name == want
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_pod_of_the_default_scheduler_runs_on_a_fake_node(
    kube: Kube, namespace: str, make_nodes: Callable[..., list[str]]
) -> None:
    (node,) = make_nodes(1, gpus=2, rack="r7")
    slow = {"terminationGracePeriodSeconds": 2}
    kube.create(objects.pod("one", namespace, gpus=2, scheduler="default-scheduler", spec=slow))
    running = waiting.wait_for(
        lambda: kube.get("pods", "one", namespace),
        20,
        "the pod runs",
        until=lambda pod: pod["status"]["phase"] == "Running",
    )
    assert running["spec"]["nodeName"] == node
    assert kube.get("nodes", node)["metadata"]["labels"][objects.RACK] == "r7"
    kube.create(objects.pod("two", namespace, gpus=1, scheduler="default-scheduler"))
    waiting.wait_for(lambda: kube.get("pods", "two", namespace)["status"].get("conditions"), 20, "it is refused")
    kube.evict("one", namespace)
    assert "deletionTimestamp" in kube.get("pods", "one", namespace)["metadata"], "a pod uses up its grace"
    waiting.wait_for(lambda: objects.is_bound(kube.get("pods", "two", namespace)), 20, "the second takes the room")


def test_native_gangs_and_bare_nodes_and_a_restarted_api_server(cluster: base.Cluster) -> None:
    minor = cluster.binaries.minor
    native = minor in versions.NATIVE_POD_GROUPS
    options = local.Options(minor=minor, kwok=False, native_gang=native, qps=5000, priority_and_fairness=False)
    with local.LocalCluster(options) as bare:
        api = bare.kube
        api.create(objects.node("bare", gpus=3, kwok=False))
        waiting.wait_for(lambda: api.get("nodes", "bare"), 20, "the bare node is ready", until=objects.is_ready)
        bare.restart_apiserver()
        source = "native" if native else "muster"
        if native:
            api.create(objects.pod_group("native", "g", "default", 4))
        for pod in objects.gang("g", "default", 4, scheduler="default-scheduler", source=source):
            api.create(pod)
        waiting.wait_for(
            lambda: api.list("pods", "default"),
            30,
            "the first answer of the scheduler stands on the pods",
            until=lambda pods: any(pod["status"].get("conditions") for pod in pods),
        )
        # Three of four fit: a native gang has none bound, plain pods three.
        bound = [pod for pod in api.list("pods", "default") if objects.is_bound(pod)]
        assert (len(bound) == 0) if native else (len(bound) <= 3)
        api.create(objects.node("more", gpus=1, kwok=False))
        waiting.wait_for(
            lambda: api.list("pods", "default"),
            30,
            "all four are bound",
            until=lambda pods: len([pod for pod in pods if objects.is_bound(pod)]) == 4,
        )
        scheduler = bare.scheduler
        assert scheduler is not None
        assert "scheduler_schedule_attempts_total" in scheduler.metrics()
        assert api.metric("apiserver_request_total", resource="pods", subresource="binding") >= 4


def test_the_server_is_what_was_asked_for_and_serves_what_the_minor_has(cluster: base.Cluster, kube: Kube) -> None:
    version = kube.request("GET", "/version")["gitVersion"]
    minor = cluster.server_minor
    if cluster.name == "local":
        assert version == versions.KUBERNETES[minor]
        native = minor in versions.NATIVE_POD_GROUPS
        assert kube.serves("scheduling.k8s.io/v1beta1", "PodGroup") is native
        mutating = kube.serves("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy")
        assert mutating is (minor not in versions.MUTATING_POLICY_BETA)
    assert cluster.kubectl("get", "namespace", "default", "-o", "name").strip() == "namespace/default"


@pytest.mark.parametrize("source", sorted(objects.GROUP_API))
def test_group_objects_of_every_dialect_that_is_served_can_be_made(source: str, kube: Kube, namespace: str) -> None:
    group = objects.pod_group(source, "g", namespace, 4)
    if not kube.serves(group["apiVersion"], "PodGroup"):
        with pytest.raises(ApiError) as caught:
            kube.create(group)
        assert caught.value.status == 404
        return
    kube.create(group)
    assert group["spec"].items() <= kube.get(objects.GROUP_RESOURCE[source], "g", namespace)["spec"].items()
    member = kube.create(objects.pod("member", namespace, group="g", source=source))
    assert "g" in str([member["spec"].get("schedulingGroup"), member["metadata"]])


def test_a_service_account_may_do_only_what_rbac_grants(cluster: base.Cluster, namespace: str) -> None:
    limited = Kube(cluster.kubeconfig_for_service_account(namespace, "default"))
    with pytest.raises(ApiError) as caught:
        limited.list("nodes")
    assert (caught.value.status, caught.value.reason) == (403, "Forbidden")
    limited.close()


async def test_the_asynchronous_helper_creates_many_and_watches(kube: Kube, namespace: str) -> None:
    async with AsyncKube(kube) as many:
        since = (await many.list("pods", namespace))["metadata"]["resourceVersion"]
        await many.create_all(objects.gang("g", namespace, 20, scheduler="nobody"))
        seen = set()
        async for event in many.watch("pods", namespace, since=since):
            seen.add(event["object"]["metadata"]["name"])
            if len(seen) == 20:
                break
    assert seen == {f"g-{index}" for index in range(20)}


def test_waiting_names_what_it_waited_for_and_the_last_state(kube: Kube) -> None:
    with pytest.raises(waiting.NotReached, match=r"(?s)the moon.*namespaces.*NotFound"):
        waiting.wait_for(lambda: kube.get("namespaces", "moon"), 0.2, "the moon")
    with pytest.raises(waiting.NotReached, match=r"(?s)stays low.*3"):
        waiting.holds_for(iter([1, 2, 3]).__next__, 5, "stays low", until=lambda value: value < 3)


# -- the proxy


@pytest.fixture
def through(cluster: base.Cluster, api_proxy: proxy.Proxy) -> Iterator[Kube]:
    client = Kube(api_proxy.kubeconfig_for(cluster.admin_with_token))
    yield client
    client.close()


def test_the_proxy_passes_everything_on_and_records_writes(
    through: Kube, api_proxy: proxy.Proxy, namespace: str
) -> None:
    through.create(objects.pod("p", namespace, scheduler="nobody"))
    through.patch("pods", "p", {"metadata": {"labels": {"a": "b"}}}, namespace)
    assert [pod["metadata"]["labels"] for pod in through.list("pods", namespace)] == [{"a": "b"}]
    with pytest.raises(ApiError) as caught:
        through.get("pods", "nothing", namespace)
    assert (caught.value.status, caught.value.reason) == (404, "NotFound")
    assert [(write.method, write.status) for write in api_proxy.writes] == [("POST", 201), ("PATCH", 200)]
    assert api_proxy.writes_of(path="/pods/p")[0].json == {"metadata": {"labels": {"a": "b"}}}


def test_the_proxy_asks_for_nothing_that_the_client_did_not_ask_for(through: Kube) -> None:
    headers = {**through.access.headers(), "Accept": "application/json"}
    path = "/api/v1/namespaces?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=2"
    request = urllib.request.Request(f"{through.access.server}{path}&allowWatchBookmarks=true", headers=headers)
    request.add_header("Accept-Encoding", "")
    with urllib.request.urlopen(request, context=ssl._create_unverified_context()) as answer:
        assert answer.headers["Content-Encoding"] is None
        assert json.loads(answer.readline())["type"] == "ADDED"


def test_a_lost_reply_is_carried_out_once_and_not_answered(
    through: Kube, api_proxy: proxy.Proxy, kube: Kube, namespace: str
) -> None:
    fault = api_proxy.lose_reply(r"/pods$", "POST", body='"name": "lost"')
    through.create(objects.pod("other", namespace, scheduler="nobody"))
    with pytest.raises(ApiError) as caught:
        through.create(objects.pod("lost", namespace, scheduler="nobody"))
    assert caught.value.status == 0
    assert fault.hits == 1
    assert kube.get("pods", "lost", namespace)["metadata"]["name"] == "lost"
    with pytest.raises(ApiError) as caught:
        through.create(objects.pod("lost", namespace, scheduler="nobody"))
    assert caught.value.reason == "AlreadyExists"


def test_a_lost_request_is_not_carried_out(through: Kube, api_proxy: proxy.Proxy, kube: Kube, namespace: str) -> None:
    api_proxy.lose_request(r"/pods$", "POST")
    with pytest.raises(ApiError) as caught:
        through.create(objects.pod("p", namespace, scheduler="nobody"))
    assert caught.value.status == 0
    assert kube.find("pods", "p", namespace) is None


@pytest.mark.parametrize(("status", "reason"), [(409, "Conflict"), (429, "TooManyRequests"), (500, "InternalError")])
def test_an_error_is_answered_as_often_as_asked_and_nothing_is_done(
    status: int, reason: str, through: Kube, api_proxy: proxy.Proxy, kube: Kube, namespace: str
) -> None:
    api_proxy.answer(status, r"/pods$", "POST", times=2)
    for _ in range(2):
        with pytest.raises(ApiError) as caught:
            through.create(objects.pod("p", namespace, scheduler="nobody"))
        assert (caught.value.status, caught.value.reason) == (status, reason)
    assert kube.find("pods", "p", namespace) is None
    through.create(objects.pod("p", namespace, scheduler="nobody"))


def test_a_watch_streams_at_once_and_can_be_cut(
    through: Kube, api_proxy: proxy.Proxy, kube: Kube, namespace: str
) -> None:
    events = through.watch("pods", namespace, seconds=60)
    kube.create(objects.pod("p", namespace, scheduler="nobody"))
    assert next(events)["object"]["metadata"]["name"] == "p"
    assert api_proxy.close_watches("/pods") == 1
    assert list(events) == []


def test_a_watch_ends_when_its_client_goes_but_a_request_does_not(
    through: Kube, api_proxy: proxy.Proxy, kube: Kube, namespace: str
) -> None:
    kube.create(objects.pod("p", namespace, scheduler="nobody"))
    events = through.watch("pods", namespace, seconds=60)
    next(events)
    assert api_proxy.open_watches("/pods") == 1
    events.close()
    waiting.wait_for(api_proxy.open_watches, 10, "the watch is gone", until=lambda left: left == 0)
    fault = api_proxy.hold_before(r"/pods$", "POST")
    body = json.dumps(objects.pod("late", namespace, scheduler="nobody")).encode()
    headers = {**through.access.headers(), "Content-Type": "application/json"}
    request = urllib.request.Request(f"{api_proxy.url}/api/v1/namespaces/{namespace}/pods", body, headers)
    with pytest.raises(TimeoutError):
        urllib.request.urlopen(request, timeout=0.5, context=ssl._create_unverified_context())
    assert kube.find("pods", "late", namespace) is None
    fault.release()
    waiting.wait_for(
        lambda: kube.find("pods", "late", namespace), 10, "the request of a client that left is carried out"
    )


def test_a_watch_can_be_told_that_its_version_is_gone(through: Kube, api_proxy: proxy.Proxy, namespace: str) -> None:
    api_proxy.gone(r"/pods\?.*watch=")
    (event,) = through.watch("pods", namespace)
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    api_proxy.answer(410, r"/pods\?.*watch=")
    with pytest.raises(ApiError) as caught:
        next(through.watch("pods", namespace))
    assert caught.value.status == 410


def test_a_request_can_be_held_before_and_after_it_is_carried_out(
    through: Kube, api_proxy: proxy.Proxy, kube: Kube, namespace: str
) -> None:
    before, after = api_proxy.hold_before(r"/pods$", body='"early"'), api_proxy.hold_reply(r"/pods$", body='"late"')
    threads = [
        threading.Thread(target=through.create, args=(objects.pod(name, namespace, scheduler="nobody"),))
        for name in ("early", "late")
    ]
    for thread in threads:
        thread.start()
    before.wait_hit()
    after.wait_hit()
    waiting.wait_for(lambda: kube.find("pods", "late", namespace), 10, "the late one is carried out")
    assert kube.find("pods", "early", namespace) is None
    assert all(thread.is_alive() for thread in threads)
    before.release()
    after.release()
    for thread in threads:
        thread.join(10)
    assert kube.find("pods", "early", namespace) is not None


def test_the_api_server_can_be_out_of_reach(through: Kube, api_proxy: proxy.Proxy) -> None:
    api_proxy.set_down(True)
    with pytest.raises(ApiError) as caught:
        through.list("nodes")
    assert caught.value.status == 0
    api_proxy.set_down(False)
    through.list("nodes")


# -- Muster's processes


@pytest.mark.parametrize("role", ROLES)
def test_a_replica_of_which_a_process_was_killed_is_healed(role: str, muster: Replica) -> None:
    getattr(muster, role).kill9()
    muster.heal()
    assert all(started.alive for started in muster.processes())
    assert muster.get("gate", "/holds") is not None
    assert muster.metrics(role)


def test_the_scheduler_configuration_keeps_all_but_addresses_and_credentials(
    installed: manifests.Manifests, tmp_path: pathlib.Path
) -> None:
    before = installed.scheduler_config()
    after = manifests.rewritten(
        before, kubeconfig=tmp_path, extender="http://127.0.0.1:1", gate="http://127.0.0.1:2", qps=5000
    )
    assert after["clientConnection"] == {"kubeconfig": str(tmp_path), "qps": 5000, "burst": 10000}
    assert {entry.get("bindVerb", ""): entry["urlPrefix"] for entry in after["extenders"]} == {
        "": "http://127.0.0.1:1", "bind": "http://127.0.0.1:2",
    }  # fmt: skip
    untouched = [
        {key: value for key, value in config.items() if key not in ("clientConnection", "extenders")}
        for config in (before, after)
    ]
    assert untouched[0] == untouched[1]


@pytest.mark.parametrize(("text", "want"), [("600s", 600), ("10m", 600), ("1h2m3s", 3723)])
def test_go_durations_are_read(text: str, want: int) -> None:
    assert go_seconds(text) == want


# -- processes


def test_a_process_can_be_paused_killed_and_restarted(cluster: base.Cluster) -> None:
    script = "echo started; trap 'echo asked; exit 3' TERM; while :; do read -t 1 x <> /dev/zero; done"
    started = cluster.start_process(["bash", "-c", script], "dummy")
    waiting.wait_for(lambda: "started" in started.tail(), 10, "it runs")
    started.pause()
    waiting.wait_for(lambda: _state(started.pid), 10, "it is stopped", until=lambda state: state == "T")
    started.resume()
    started.kill9()
    assert (started.alive, started.returncode) == (False, -signal.SIGKILL)
    started.restart()
    waiting.wait_for(lambda: started.tail().count("started") == 2, 10, "it runs again")
    started.term()
    assert (started.returncode, "asked" in started.tail()) == (3, True)


def test_a_process_that_ends_before_it_is_healthy_shows_its_log(cluster: base.Cluster) -> None:
    started = cluster.start_process(["sh", "-c", "echo the reason; exit 4"], "broken")
    with pytest.raises(process.ProcessError, match=r"(?s)ended with 4.*the reason"):
        started.wait_http(f"http://127.0.0.1:{process.free_port()}/healthz", 20)


def test_a_process_can_have_a_host_name_of_its_own(cluster: base.Cluster) -> None:
    named = cluster.start_process(["sh", "-c", "cat /proc/sys/kernel/hostname"], "named", uts_hostname="second")
    waiting.wait_for(lambda: named.tail().strip(), 10, "it names itself", until=lambda text: text == "second")


RUNNER = """
import sys, time
from e2e.cluster import local
with local.LocalCluster(local.Options(minor=sys.argv[1])) as cluster:
    print(*[started.pid for started in cluster.processes], cluster.work, flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_nothing_outlives_a_runner_that_is(number: signal.Signals, cluster: base.Cluster) -> None:
    runner = subprocess.Popen(
        [sys.executable, "-c", RUNNER, cluster.binaries.minor],
        cwd=manifests.ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    with runner:
        assert runner.stdout is not None
        *ids, work = runner.stdout.readline().split()
        assert len(ids) == 5
        runner.send_signal(number)
        runner.wait(30)
    waiting.wait_for(
        lambda: [_state(int(pid)) for pid in ids], 10, "all are gone", until=lambda states: set(states) <= {"", "Z"}
    )
    assert pathlib.Path(work).exists() is (number == signal.SIGKILL)
    subprocess.run(["rm", "-rf", work], check=True)


def _state(pid: int) -> str:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
