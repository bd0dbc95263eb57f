"""The command line: what cannot be done is said with its mend, colours are for terminals, and shells complete."""

from __future__ import annotations

import asyncio
import importlib
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tomllib
from typing import Any

import cli_world as world
import pytest
from cli_world import World, run

from extender.cli import arguments, completion, console, events, problems, running, tables
from extender.cli.cluster import Cluster
from extender.cli.problems import Problem
from extender.kube import errors

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


# --- what cannot be done -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "want", "status"),
    [
        (errors.Unreachable("GET /api: refused"), "the API server https://example:6443 does not answer", 1),
        (errors.Unauthorized(401, "", ""), "the API server https://example:6443 does not accept your credentials", 1),
        (errors.Forbidden(403, "Forbidden", 'pods is forbidden: User "x"'), 'pods is forbidden: User "x"; ask for', 1),
        (errors.Forbidden(403, "", ""), "you may not read podgroups.muster.dev; ask for the ClusterRole", 1),
        (errors.TooManyRequests(429, "", "", 1.0), "the API server https://example:6443 is too busy", 1),
        (errors.ServerError(500, "InternalError", "boom"), "podgroups.muster.dev cannot be read: 500", 1),
        (errors.Unreadable("not JSON"), "podgroups.muster.dev cannot be read: not JSON", 1),
        (errors.Unconfigured("kubeconfig x: no such context"), "kubeconfig x: no such context; name a file", 2),
    ],
)
def test_errors_of_the_api_server_become_sentences(error, want, status):
    there = World(without=("visibility",))
    there.fails["muster.dev"] = error
    with pytest.raises(Problem) as refused:
        run(there, "gangs")
    assert str(refused.value).startswith(want)
    assert refused.value.status == status


@pytest.mark.parametrize(
    ("error", "note"),
    [
        (errors.NotFound(404, "", "404 page not found"), "the live answers are not installed"),
        (errors.Forbidden(403, "Forbidden", 'User "x" cannot list'), 'without live answers: User "x" cannot list'),
        (errors.ServerError(503, "ServiceUnavailable", "no endpoints"), "the live answers do not answer (503"),
        (errors.Unreadable("not JSON"), "the live answers do not answer (not JSON)"),
    ],
)
def test_without_live_answers_objects_are_told_and_a_note_says_why(error, note):
    there = World(world.group("train", status={"phase": "Running"}))
    there.fails["visibility"] = error
    for words in (("gangs",), ("why", "train"), ("queues",), ("top",), ("nodes",)):
        _, said = run(there, *words)
        assert f"note: {note}" in said, words
        assert said.count("note:") == 1, words
    assert "Running" in run(there, "why", "train")[0]


def test_of_two_replicas_the_one_that_acts_is_found_by_asking_again(monkeypatch):
    there = World(world.workload("muster:train"))
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            there.fails.clear()

    monkeypatch.setattr(asyncio, "sleep", sleep)
    there.fails["visibility"] = errors.ServerError(503, "ServiceUnavailable", "not active", 1.0)
    out, said = run(there, "gangs")
    assert ("muster:train" in out, said, slept) == (True, "", [1.0, 1.0, 1.0])


def test_a_list_that_has_grown_too_old_is_read_again_once():
    there = World(*(world.group(f"g{n}") for n in range(3)), without=("visibility",))
    real, asked = there.read, []

    async def read(path: str, **more: Any) -> Any:
        if "continue" in (more.get("query") or {}) and not asked:
            asked.append(path)
            raise errors.Gone(410, "Expired", "")
        return await real(path, **more)

    there.read = read  # type: ignore[method-assign]
    assert len(run(there, "gangs")[0].splitlines()) == 4
    assert asked


def test_exit_codes_and_what_goes_where(monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(pathlib.Path, "home", lambda: tmp_path)
    out, said = io.StringIO(), io.StringIO()
    assert console.main(["gangs"], out, said) == problems.UNUSABLE
    assert (out.getvalue(), said.getvalue().startswith("error: there is no kubeconfig")) == ("", True)
    (tmp_path / "broken").write_text("contexts: 7")
    assert console.main(["gangs", "--kubeconfig", str(tmp_path / "broken")], out, said) == problems.UNUSABLE
    config = tmp_path / "config"
    config.write_text(
        "{current-context: a, contexts: [{name: a, context: {cluster: c, user: u}}], "
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {}}]}"
    )
    assert console.main(["gangs", "--kubeconfig", str(config), "--context", "b"], out, said) == problems.UNUSABLE
    assert "it has no context 'b'" in said.getvalue()
    said.truncate(0)
    assert console.main(["gangs", "--kubeconfig", str(config)], out, said) == problems.FAILED
    assert "the API server http://127.0.0.1:1 does not answer" in said.getvalue()
    with pytest.raises(SystemExit) as refused:
        console.main(["nonsense"])
    assert refused.value.code == problems.UNUSABLE
    assert "invalid choice: 'nonsense'" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["-n", "a", "gangs"], ["gangs", "-n", "a"], ["-n", "b", "gangs", "--namespace=a"]])
def test_options_stand_before_the_command_or_behind_it(words):
    assert arguments.parser({}).parse_args(words).namespace == "a"


def test_called_by_kubectl_it_calls_itself_as_its_user_did():
    assert arguments.parser({"KUBECTL_PLUGINS_CALLER": "/bin/kubectl"}).prog == "kubectl muster"
    assert arguments.parser({}).prog == "kubectl-muster"


def test_the_entry_points_are_there():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert set(scripts) == {"kubectl-muster", "kubectl_complete-muster"}
    for target in scripts.values():
        module, _, name = target.partition(":")
        assert callable(getattr(importlib.import_module(module), name))


def test_every_command_that_is_offered_can_be_run():
    assert [command.name for command in arguments.COMMANDS] == list(running.COMMANDS)


# --- colours and hostile texts -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("out", "environ", "want"),
    [
        (Terminal(), {"TERM": "xterm"}, True),
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
    ],
)
def test_colours_are_for_terminals(out, environ, want):
    assert tables.coloured(out, environ) is want


def test_a_table_is_as_wide_in_colours_as_without():
    rows = [("a", "Running"), ("longer", "Pending")]
    bare = list(tables.table(("NAME", "PHASE"), rows, tables.Paint(False)))
    shown = list(tables.table(("NAME", "PHASE"), rows, tables.Paint(True)))
    assert bare == ["NAME     PHASE", "a        Running", "longer   Pending"]
    assert shown[1] == "a        \033[32mRunning\033[0m"
    assert list(tables.table(("NAME",), [], tables.Paint(True))) == []


def test_no_text_of_an_object_reaches_the_terminal_as_a_command():
    hostile = "\033[2J\033]0;title\007 up\rdown\nnext \u202egnp.exe \x9b31m"
    there = World(
        world.group("train", status={"reason": "Queued", "message": hostile}),
        world.event("train", hostile, hostile, world.NOW, type=hostile),
        world.queue("q", status={"conditions": [{"type": hostile, "status": "False", "reason": hostile}]}),
        world.node("n", labels={"rack": hostile}),
        without=("visibility",),
    )
    for words in (
        ("why", "train"),
        ("gangs",),
        ("events",),
        ("queues",),
        ("nodes", "--level", "rack"),
        ("history", "train"),
    ):
        text = "".join(run(there, *words))
        assert not set(text) & set("\033\007\r\u202e\x9b"), words
    found = events.read(there.objects[1])
    assert found is not None
    assert not set(events.line(found, tables.Paint(False))) & set("\033\007\r\n\u202e\x9b")


# --- watching ----------------------------------------------------------------------------------------


async def test_events_go_on_as_they_are_made_and_say_when_the_api_server_is_away(monkeypatch):
    from extender.kube import identities, watch

    first, second = (
        world.event(name, "Preempted", "why", f"2026-01-01T00:0{n}:00Z") for n, name in ((2, "b"), (1, "a"))
    )
    third = world.event("c", "Scheduled", "ok", world.NOW)
    cluster = Cluster(World(first, second), "team")  # type: ignore[arg-type]

    async def follow(api: Any, resource: Any, *, observer: Any) -> Any:
        assert (resource.label, resource.namespace, resource.field_selector) == (
            *("events", "team", "reportingComponent=muster"),
        )
        for content in (first, second):
            yield watch.Change(watch.ADDED, content, identities.identity_of(content))
        yield watch.Synced()
        observer.watch_restarted("events", "closed")
        observer.watch_restarted("events", "unreachable")
        yield watch.Change(watch.DELETED, first, identities.identity_of(first))
        yield watch.Change(watch.ADDED, third, identities.identity_of(third))

    monkeypatch.setattr(watch, "follow", follow)
    batches = [[event["object"] for event in batch] async for batch in events.follow(cluster)]
    assert batches == [["a", "b"], ["c"]]
    assert cluster.notes == ["events: unreachable; trying again"]


# --- completion --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (
            [],
            [
                "completion",
                "drain",
                "events",
                "gangs",
                "history",
                "migrate",
                "nodes",
                "plan",
                "queues",
                "record",
                "top",
                "usage",
                "why",
            ],
        ),
        (["qu"], ["queues"]),
        (["gangs", "--"], ["--all-namespaces", "--context", "--kubeconfig", "--namespace", "--output", "--pods"]),
        (["why", "-A"], []),
        (["gangs", "-o", ""], ["json", "yaml"]),
        (["gangs", "--output", "j"], ["json"]),
        (["gangs", "-n", ""], []),
        (["completion", "z"], ["zsh"]),
        (["-o", "json", "wh"], ["why"]),
    ],
)
def test_words_are_completed(words, want):
    found = completion.candidates(words)
    assert [one for one in found if words or not one.startswith("-")] == want


def test_kubectl_is_answered_in_its_form():
    out = io.StringIO()
    assert console.complete(["qu"], out) == 0
    assert out.getvalue() == "queues\n:4\n"


@pytest.mark.parametrize("shell", arguments.SHELLS)
def test_every_shell_has_a_script_that_asks_this_program(shell):
    out = io.StringIO()
    assert console.main(["completion", shell], out) == 0
    assert "kubectl-muster completion ask --" in out.getvalue()
    program = shutil.which(shell)
    if program is not None:
        done = subprocess.run([program, "-n"], input=out.getvalue(), text=True, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_bash_completes_by_the_script(tmp_path):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash on this machine")
    program = tmp_path / "kubectl-muster"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m extender.cli "$@"\n')
    program.chmod(0o755)
    script = completion.SCRIPTS["bash"] + "\nCOMP_WORDS=(kubectl-muster gangs -o j) COMP_CWORD=3\n"
    script += '_kubectl_muster; printf "%s\\n" "${COMPREPLY[@]}"\n'
    environ = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([bash, "-c", script], env=environ, cwd=ROOT, text=True, capture_output=True, check=False)
    assert (done.stdout, done.stderr) == ("json\n", "")


@pytest.mark.parametrize(
    ("imported", "heavy"),
    [("extender.cli.console", "kubernetes_asyncio"), ("extender.cli.running", "extender.core.engine")],
)
def test_completion_and_commands_import_no_more_than_they_need(imported, heavy):
    code = f"import sys, {imported}; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
