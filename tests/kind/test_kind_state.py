"""What `make kind-down` touches: what the record says that we made, and nothing else."""

import json
import os

import pytest

from e2e.cluster import identity
from e2e.kind import cluster, engine, node, pins, programs, state, store


@pytest.fixture
def calls(tmp_path, monkeypatch) -> list[tuple[str, ...]]:
    """A cache of its own, and all commands that would be run, none of which is."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    run: list[tuple[str, ...]] = []

    def command(made, argv, **_):
        run.append((made.host or "the user's engine", *argv))
        return ""

    monkeypatch.setattr(engine, "command", command)
    monkeypatch.setattr(programs, "path", lambda name: tmp_path / name)
    return run


def running() -> dict:
    return {"pid": os.getpid(), "start": identity.start_time(os.getpid())}


def words(calls) -> list[str]:
    return [" ".join(call[2:4]) for call in calls]


def test_nothing_made_means_that_nothing_is_touched(calls):
    cluster.down(state.read())
    assert calls == []


def test_a_cluster_made_on_the_users_engine_goes_and_the_engine_stays(calls, monkeypatch):
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("an engine that is not ours is ended"))
    state.Made(cluster="muster", network=True, images=["muster:0.1.0"]).save()
    cluster.down(state.read())
    assert words(calls) == ["delete cluster", "network rm", "rmi muster:0.1.0"]
    assert {call[0] for call in calls} == {"the user's engine"}
    assert state.read() == state.Made()


def test_a_network_that_was_there_before_stays(calls):
    state.Made(cluster="muster").save()
    cluster.down(state.read())
    assert words(calls) == ["delete cluster"]


def test_our_engine_ends_with_its_cluster_and_only_by_its_own_id(calls, monkeypatch):
    killed = []
    entry = running()

    def kill(pid, number):
        killed.append((pid, number))
        monkeypatch.setattr(identity, "same_process", lambda _: False)

    monkeypatch.setattr(os, "kill", kill)
    state.Made(engine=entry, host="unix:///ours", cluster="muster", images=["a"]).save()
    cluster.down(state.read())
    assert [pid for pid, _ in killed] == [entry["pid"]]
    assert words(calls) == ["delete cluster"]
    assert {call[0] for call in calls} == {"unix:///ours"}


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param({"pid": os.getpid(), "start": "1"}, id="the id is another process's now"),
        pytest.param({"pid": 2**22 + 1, "start": "1"}, id="no such process"),
        pytest.param({"pid": os.getpid(), "start": ""}, id="it had ended when it was written down"),
    ],
)
def test_an_engine_that_is_gone_is_not_looked_for(calls, monkeypatch, entry):
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("another process is ended"))
    state.Made(engine=entry, host="unix:///ours", cluster="muster").save()
    cluster.down(state.read())
    assert calls == []
    assert state.read() == state.Made()


def test_a_cluster_that_somebody_else_made_is_refused(calls, monkeypatch):
    monkeypatch.setattr(engine, "ensure", lambda made: None)
    monkeypatch.setattr(engine, "command", lambda made, argv, **_: "other\nmuster" if "clusters" in argv else "")
    with pytest.raises(store.KindError, match="a kind cluster muster exists that `make kind` did not make"):
        cluster.up(state.read())


@pytest.mark.parametrize("text", ["", "[]", "{", '{"engine": null, "unknown": 1}', "null"])
def test_a_record_that_cannot_be_read_is_refused_with_what_to_do(calls, text):
    (store.root() / "made.json").write_text(text)
    with pytest.raises(store.KindError, match="is not a record of ours"):
        state.read()


def test_a_record_reads_as_it_was_written(calls):
    made = state.Made(running(), "unix:///ours", "muster", True, ["a", "b"])
    made.save()
    assert state.read() == made
    assert json.loads((store.root() / "made.json").read_text())["cluster"] == "muster"


@pytest.mark.parametrize(
    ("asked", "pulls", "want"),
    [
        ("", True, "stock"),
        ("", False, "own"),
        ("own", True, "own"),
        ("own", False, "own"),
        ("stock", True, "stock"),
    ],
)
def test_the_node_image_is_the_stock_one_where_it_can_be_pulled(asked, pulls, want):
    chosen = cluster.choose_image(asked, pull=lambda: pulls)
    assert chosen == {"stock": pins.STOCK_IMAGE, "own": node.tag()}[want]


@pytest.mark.parametrize(
    ("asked", "text"), [("stock", "cannot be pulled"), ("neither", "NODE_IMAGE=neither: say stock or own")]
)
def test_a_node_image_that_cannot_be_had_is_refused(asked, text):
    with pytest.raises(store.KindError, match=text):
        cluster.choose_image(asked, pull=lambda: False)


def test_our_own_image_asks_for_no_pull():
    assert cluster.choose_image("own", pull=lambda: pytest.fail("asked")) == node.tag()


@pytest.mark.parametrize(
    ("made", "answering", "startable", "want"),
    [
        (state.Made(engine=running()), True, True, "our own Docker engine"),
        (state.Made(), True, True, "the Docker engine that answers"),
        (state.Made(), False, True, "a Docker engine started by hand"),
        (state.Made(), False, False, ""),
        (state.Made(engine={"pid": os.getpid(), "start": "1"}), False, False, ""),
    ],
)
def test_which_engine_is_taken(monkeypatch, made, answering, startable, want):
    monkeypatch.setattr(engine, "answers", lambda _: answering)
    monkeypatch.setattr(engine, "can_start", lambda: startable)
    assert engine.available(made) == want
