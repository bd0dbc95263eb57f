"""The HTTP side of both processes as others meet it: huge, malformed and foreign calls, health, metrics, logs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e import calls, objects, scenes, waiting
from e2e.cluster import manifests
from e2e.cluster.muster import Replica
from e2e.kube import Kube

Object = dict[str, Any]
MIB = 2**20
#: what must never be in an answer: a stack trace, or where our files lie
INSIDE = re.compile(r'Traceback|File "|\.py\b|site-packages|/extender/|/permit_gate/')
FOREIGN = {"metadata": {"name": "p", "namespace": "default", "uid": "u-1"}, "spec": {"schedulerName": "somebody"}}
OURS = {"metadata": {"name": "p", "namespace": "default", "uid": "u-1"}, "spec": {"schedulerName": "muster"}}
BINDING = {"PodName": "p", "PodNamespace": "default", "PodUID": "u-1", "Node": "n"}


@pytest.fixture(autouse=True)
def _nothing_ends(muster: Replica) -> Iterator[None]:
    """After each test here both processes are the same as before it, and well."""
    before = [(muster.extender.pid, muster.gate.pid)]
    yield
    assert [(muster.extender.pid, muster.gate.pid)] == before
    assert muster.extender.alive
    assert muster.gate.alive
    for role in ("extender", "gate"):
        assert calls.call(muster.url(role), "GET", "/healthz").status == 200


# --- large calls -------------------------------------------------------------------------------------


@pytest.mark.parametrize("letters", [12, 253], ids=["short names", "names as long as Kubernetes allows"])
def test_5000_node_names_pass_in_their_order(muster: Replica, letters: int) -> None:
    names = [f"n{number:05d}".ljust(letters, "x") for number in range(5000, 0, -1)]
    answer = calls.post(muster.extender_url, "/filter", {"Pod": FOREIGN, "Nodes": None, "NodeNames": names})
    assert answer.status == 200
    assert answer.json["NodeNames"] == names
    assert answer.json["Error"] == ""


def test_ten_mebibytes_of_whole_nodes_pass_unchanged(muster: Replica) -> None:
    items = [
        objects.node(f"n{number}", labels={f"example.com/label-{index}": "x" * 60 for index in range(20)})
        for number in range(7000)
    ]
    body = json.dumps({"Pod": FOREIGN, "Nodes": {"items": items}, "NodeNames": None}).encode()
    assert len(body) > 10 * MIB
    answer = calls.call(muster.extender_url, "POST", "/filter", body)
    assert answer.status == 200
    assert answer.json["Nodes"]["items"] == items


def test_each_of_5000_nodes_is_refused_with_one_constant_text(muster: Replica, kube: Kube, namespace: str) -> None:
    made = kube.create(objects.pod("lost", namespace, group="nowhere"))
    names = [f"n{number:05d}" for number in range(5000)]
    answer = calls.post(muster.extender_url, "/filter", {"Pod": made, "NodeNames": names}).json
    assert answer["NodeNames"] == []
    assert list(answer["FailedAndUnresolvableNodes"]) == names
    (text,) = set(answer["FailedAndUnresolvableNodes"].values())
    assert not re.search(r"\d", text)


# --- calls that are no calls -------------------------------------------------------------------------

_NOT_JSON = {
    "nothing": b"",
    "half an object": b'{"Pod":',
    "not UTF-8": b"\xff\xfe\x00",
    "not a number": b'{"Pod":NaN}',
    "nested a hundred thousand times": b"[" * 100_000,
    "null": b"null",
    "a list": b"[]",
    "a text": b'"x"',
    "an object without fields": b"{}",
}
_NO_NODE_ARGS: dict[str, Object] = {
    "Pod is missing": {"NodeNames": ["a"]},
    "Pod is null": {"Pod": None, "NodeNames": ["a"]},
    "Pod is a number": {"Pod": 7, "NodeNames": ["a"]},
    "names are a text": {"Pod": OURS, "NodeNames": "a"},
    "a name is null": {"Pod": OURS, "NodeNames": ["a", None]},
    "a name is empty": {"Pod": FOREIGN, "NodeNames": [""]},
    "nodes are a list": {"Pod": OURS, "Nodes": []},
    "a node has no name": {"Pod": OURS, "Nodes": {"items": [{}]}},
}
_NOT_OURS_TO_READ: dict[str, Object] = {
    "a pod of ours without a uid": {"Pod": {"spec": {"schedulerName": "muster"}}, "NodeNames": ["a"]},
    "a uid that is a list": {
        "Pod": {"metadata": {"uid": [], "name": "p", "namespace": "d"}, "spec": {"schedulerName": "muster"}},
        "NodeNames": ["a"],
    },
}
_NO_VICTIMS: dict[str, Object] = {
    "Pod is missing": {"NodeNameToMetaVictims": {}},
    "victims are a list": {"Pod": FOREIGN, "NodeNameToMetaVictims": []},
    "victims of a node are a text": {"Pod": FOREIGN, "NodeNameToMetaVictims": {"n": "x"}},
    "a victim without a uid": {"Pod": FOREIGN, "NodeNameToMetaVictims": {"n": {"Pods": [{}]}}},
    "violations are a text": {"Pod": FOREIGN, "NodeNameToMetaVictims": {"n": {"Pods": [], "NumPDBViolations": "1"}}},
}
_NO_BINDING: dict[str, Object] = {
    **{f"{field} is missing": {key: BINDING[key] for key in BINDING if key != field} for field in BINDING},
    **{f"{field} is a number": {**BINDING, field: 3} for field in BINDING},
}
_NO_RECORD: dict[str, Object] = {
    "fields of another message": BINDING,
    "members are a text": {"group": "g", "members": "x", "uids": "x"},
}


def malformed() -> Iterator[Any]:
    """(role, path, body) of every call that must be refused."""
    tables = {
        ("extender", "/filter"): _NO_NODE_ARGS | _NOT_OURS_TO_READ,
        ("extender", "/prioritize"): _NO_NODE_ARGS,
        ("extender", "/preempt"): _NO_VICTIMS,
        ("extender", "/release"): _NO_RECORD,
        ("gate", "/bind"): _NO_BINDING,
        ("gate", "/withdraw"): _NO_RECORD,
    }
    for (role, path), table in tables.items():
        for name, body in (_NOT_JSON | table).items():
            yield pytest.param(role, path, body, id=f"{path}: {name}")


@pytest.mark.parametrize(("role", "path", "body"), list(malformed()))
def test_what_is_no_message_is_refused_in_few_words(muster: Replica, role: str, path: str, body: Any) -> None:
    answer = calls.call(muster.url(role), "POST", path, body)
    assert answer.refused, answer
    assert not INSIDE.search(answer.text)
    assert len(answer.text) < 300


@pytest.mark.parametrize(
    ("role", "method", "path", "status"),
    [
        pytest.param("extender", "POST", "/unknown", 404, id="a verb that the extender does not have"),
        pytest.param("extender", "POST", "/bind", 404, id="the extender does not bind"),
        pytest.param("gate", "POST", "/filter", 404, id="the gate does not filter"),
        pytest.param("extender", "POST", "/", 404, id="no verb"),
        pytest.param("extender", "POST", "/filter/../../etc/passwd", 404, id="a path that climbs"),
        pytest.param("extender", "GET", "/filter", 405, id="GET of filter"),
        pytest.param("extender", "GET", "/prioritize", 405, id="GET of prioritize"),
        pytest.param("extender", "GET", "/preempt", 405, id="GET of preempt"),
        pytest.param("extender", "GET", "/release", 405, id="GET of release"),
        pytest.param("gate", "GET", "/bind", 405, id="GET of bind"),
        pytest.param("gate", "GET", "/withdraw", 405, id="GET of withdraw"),
        pytest.param("gate", "POST", "/holds", 405, id="POST to holds"),
        pytest.param("gate", "DELETE", "/bind", 405, id="DELETE"),
        pytest.param("gate", "BREW", "/bind", 400, id="a method that nobody has"),
        pytest.param("gate", "GET", "/holds?after=x", 400, id="a sequence that is no number"),
        pytest.param("gate", "GET", "/holds?after=1&wait=-1", 400, id="a wait below nothing"),
        pytest.param("gate", "GET", f"/holds?after={'9' * 400}", 400, id="a number without end"),
    ],
)
def test_unknown_paths_and_methods_are_refused(muster: Replica, role: str, method: str, path: str, status: int) -> None:
    answer = calls.call(muster.url(role), method, path, b"{}" if method == "POST" else b"")
    assert answer.status == status
    assert not INSIDE.search(answer.text)


@pytest.mark.parametrize(
    ("role", "path", "length"), [("extender", "/filter", 65 * MIB), ("gate", "/bind", 2 * MIB)], ids=["filter", "bind"]
)
def test_a_body_over_the_limit_is_refused_as_too_large(muster: Replica, role: str, path: str, length: int) -> None:
    # in chunks there is no length to go by: it is refused while it is read
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n".encode()
    answer = calls.raw(muster.url(role), head + b" " * length)
    assert answer.status == 413
    assert not INSIDE.search(answer.text)


@pytest.mark.parametrize(
    ("length", "want"),
    [
        pytest.param(str(10**12), 413, id="a terabyte is promised"),
        pytest.param("9" * 400, 400, id="a length without end"),
        pytest.param("-1", 400, id="less than nothing"),
        pytest.param("many", 400, id="no number"),
    ],
)
@pytest.mark.parametrize(("role", "path"), [("extender", "/filter"), ("gate", "/bind")], ids=["filter", "bind"])
def test_a_promised_length_is_never_waited_for(muster: Replica, role: str, path: str, length: str, want: int) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode()
    answer = calls.raw(muster.url(role), head)
    assert answer.status == want
    assert not INSIDE.search(answer.text)


# --- pods of others ----------------------------------------------------------------------------------


def test_a_foreign_pod_is_bound_at_once(
    muster: Replica, kube: Kube, namespace: str, make_nodes: Callable[..., list[str]]
) -> None:
    (node,) = make_nodes(1)
    made = kube.create(objects.pod("theirs", namespace, scheduler="nobody"))
    meta = made["metadata"]
    before = muster.metric("gate", "muster_gate_binds_total", outcome="bound")
    body = {"PodName": "theirs", "PodNamespace": namespace, "PodUID": meta["uid"], "Node": node}
    answer = calls.post(muster.gate_url, "/bind", body)
    assert (answer.status, answer.json) == (200, {"Error": ""})
    assert kube.get("pods", "theirs", namespace)["spec"]["nodeName"] == node
    assert muster.metric("gate", "muster_gate_binds_total", outcome="bound") == before + 1


def test_scores_are_whole_numbers_from_0_to_10_and_prefer_the_fuller_node(
    muster: Replica, kube: Kube, namespace: str, make_nodes: Callable[..., list[str]]
) -> None:
    empty, half = make_nodes(2)
    scenes.Scene(kube, muster, namespace).fill(half, 4)
    pod = kube.create(objects.pod("mine", namespace, gpus=2, scheduler="muster-score"))
    args = {"Pod": pod, "Nodes": None, "NodeNames": [empty, half, "unknown"]}

    def scored() -> dict[str, Any]:
        answer = calls.post(muster.extender_url, "/prioritize", args)
        assert [entry["Host"] for entry in answer.json] == args["NodeNames"]
        assert all(type(entry["Score"]) is int and 0 <= entry["Score"] <= 10 for entry in answer.json)
        return {entry["Host"]: entry["Score"] for entry in answer.json}

    found = waiting.wait_for(scored, 10, "the filler is seen", until=lambda scores: scores[half] > scores[empty])
    assert found["unknown"] == 0


VICTIMS = {"n1": {"Pods": [{"UID": "a"}, {"UID": "b"}], "NumPDBViolations": 1}, "n2": {"Pods": []}}


def test_a_pod_of_ours_may_evict_nobody(muster: Replica) -> None:
    answer = calls.post(muster.extender_url, "/preempt", {"Pod": OURS, "NodeNameToMetaVictims": VICTIMS})
    assert answer.json == {"NodeNameToMetaVictims": {}}


def test_others_keep_the_victims_that_their_scheduler_chose(muster: Replica) -> None:
    answer = calls.post(muster.extender_url, "/preempt", {"Pod": FOREIGN, "NodeNameToMetaVictims": VICTIMS})
    want = {"n1": VICTIMS["n1"], "n2": {"Pods": [], "NumPDBViolations": 0}}
    assert answer.json == {"NodeNameToMetaVictims": want}


# --- what the processes tell of themselves -----------------------------------------------------------


@pytest.mark.parametrize("role", ["extender", "gate"])
def test_health_readiness_and_metrics_answer(muster: Replica, role: str) -> None:
    for path in ("/healthz", "/readyz"):
        assert calls.call(muster.url(role), "GET", path) == calls.Answer(200, "ok\n")
    text = calls.call(muster.url(role), "GET", "/metrics").text
    assert "process_resident_memory_bytes" in text
    assert f"muster_{role}_active 1.0" in text


def count(replica: Replica, role: str, name: str, **labels: str) -> float:
    """One sample of the replica."""
    return replica.metric(role, name, **labels)


def test_each_verb_moves_its_histogram(muster: Replica) -> None:
    asked: list[tuple[str, str, Any]] = [
        ("filter", "foreign", {"Pod": FOREIGN, "NodeNames": ["a"]}),
        ("filter", "malformed", {}),
        ("prioritize", "placed", {"Pod": FOREIGN, "NodeNames": ["a"]}),
        ("prioritize", "malformed", {}),
        ("preempt", "refused", {"Pod": OURS, "NodeNameToMetaVictims": {}}),
        ("preempt", "foreign", {"Pod": FOREIGN, "NodeNameToMetaVictims": {}}),
        ("preempt", "malformed", {}),
    ]
    for verb, outcome, body in asked:
        name = "muster_extender_verb_seconds_count"
        before = count(muster, "extender", name, verb=verb, outcome=outcome)
        calls.post(muster.extender_url, f"/{verb}", body)
        assert count(muster, "extender", name, verb=verb, outcome=outcome) == before + 1, (verb, outcome)


def test_a_gang_moves_the_figures_of_holds_groups_and_cycles(
    muster: Replica, kube: Kube, namespace: str, make_nodes: Callable[..., list[str]]
) -> None:
    make_nodes(1)
    scene = scenes.Scene(kube, muster, namespace)
    running = count(muster, "extender", "muster_extender_groups", phase="running")
    cycles = count(muster, "extender", "muster_extender_cycle_seconds_count")
    released = count(muster, "gate", "muster_gate_rounds_total", outcome="released")
    bound = count(muster, "gate", "muster_gate_bind_seconds_count", outcome="bound")
    scene.group("g", 2)
    scene.gang("g", 1)
    waiting.wait_for(
        lambda: count(muster, "gate", "muster_gate_held_binds"), 8, "the first is held", until=lambda held: held == 1
    )
    scene.gang("g", 1, first=1)
    waiting.wait_for(lambda: scene.bound("g"), 20, "both are bound", until=lambda found: len(found) == 2)
    waiting.wait_for(
        lambda: count(muster, "gate", "muster_gate_held_binds"), 5, "none is held", until=lambda held: held == 0
    )
    waiting.wait_for(
        lambda: count(muster, "extender", "muster_extender_groups", phase="running"),
        10,
        "one group more runs",
        until=lambda found: found == running + 1,
    )
    assert count(muster, "extender", "muster_extender_cycle_seconds_count") > cycles
    assert count(muster, "gate", "muster_gate_rounds_total", outcome="released") == released + 1
    assert count(muster, "gate", "muster_gate_bind_seconds_count", outcome="bound") == bound + 2


@pytest.mark.parametrize("role", ["extender", "gate"])
def test_watches_and_calls_to_the_api_server_have_figures(muster: Replica, role: str) -> None:
    text = muster.metrics(role)
    for resource in ("pods", "nodes", "leases.coordination.k8s.io"):
        assert f'muster_watch_lag_seconds{{resource="{resource}"}}' in text
        assert f'muster_watch_last_event_age_seconds{{resource="{resource}"}}' in text
    assert count(muster, role, "muster_api_requests_total", resource="pods", code="200") > 0
    assert "# TYPE muster_api_errors_total counter" in text
    assert count(muster, role, "muster_event_loop_lag_seconds_count") > 0


def test_a_refused_write_is_counted_as_an_error(muster: Replica, kube: Kube) -> None:
    labels = {"verb": "PATCH", "resource": "configmaps", "code": "404"}
    before = count(muster, "extender", "muster_api_errors_total", **labels)
    kube.delete("configmaps", "muster-admission", manifests.NAMESPACE)
    waiting.wait_for(
        lambda: kube.get("configmaps", "muster-admission", manifests.NAMESPACE), 10, "the list is written anew"
    )
    assert count(muster, "extender", "muster_api_errors_total", **labels) == before + 1


def test_debug_pages_answer_this_host(muster: Replica) -> None:
    state = calls.call(muster.gate_url, "GET", "/debug/state")
    assert state.status == 200
    assert state.json["active"] is True


@pytest.mark.parametrize("module", ["extender", "permit_gate"])
def test_without_certificates_neither_process_listens_for_other_hosts(module: str) -> None:
    argv = [sys.executable, "-m", module, "--listen", "0.0.0.0:20000"]
    done = subprocess.run(argv, cwd=manifests.ROOT, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "--tls-cert" in done.stderr
    assert "Traceback" not in done.stderr
