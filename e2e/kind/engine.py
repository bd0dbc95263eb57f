"""The Docker engine: the one that answers, else one started by hand and remembered.

Takes what was made before; gives commands of the docker client that speak to the engine. An engine that we did not
start is used, never configured, never ended.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import signal
import subprocess
import sys

from e2e import waiting
from e2e.cluster import identity
from e2e.kind import programs, state, store

MEND = "Install Docker (Debian: apt-get install docker.io) or start it, or set DOCKER_HOST to an engine that answers."
#: engines that go on when this process ends: subprocess warns of those that are forgotten while they run
_outlive_us: list[subprocess.Popen[bytes]] = []


def environment(made: state.Made) -> dict[str, str]:
    """The variables by which docker and kind find the engine; the classic builder also builds on images not pulled."""
    host = {"DOCKER_HOST": made.host} if made.host else {}
    return {**os.environ, **host, "DOCKER_BUILDKIT": "0", "KIND_EXPERIMENTAL_PROVIDER": "docker"}


def docker(made: state.Made, *arguments: str, check: bool = True, seconds: float = 600) -> str:
    """Run the docker client; gives its output, without a check "" for a failure."""
    return command(made, ["docker", *arguments], check=check, seconds=seconds)


def command(made: state.Made, argv: list[str], *, check: bool = True, seconds: float = 600, stdin: str = "") -> str:
    """Run a program that speaks to the engine; raises KindError with what it said."""
    try:
        done = subprocess.run(
            argv, env=environment(made), capture_output=True, text=True, check=False, timeout=seconds,
            input=stdin,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        if check:
            raise store.KindError(f"`{' '.join(argv)}` did not end within {seconds:.0f} s") from error
        return ""
    except FileNotFoundError as error:
        raise store.KindError(f"There is no `{argv[0]}` on PATH. {MEND}") from error
    if check and done.returncode != 0:
        raise store.KindError(f"`{' '.join(argv)}` failed:\n{done.stderr.strip()[-3000:]}")
    return done.stdout.strip() if done.returncode == 0 else ""


def answers(made: state.Made) -> bool:
    """Whether an engine is there."""
    return bool(shutil.which("docker")) and bool(docker(made, "info", "--format", "{{.ID}}", check=False, seconds=20))


def available(made: state.Made) -> str:
    """Which engine `ensure` would take, in words; "" when none can be had."""
    if made.engine_runs():
        return "our own Docker engine"
    if answers(state.Made()):
        return "the Docker engine that answers"
    return "a Docker engine started by hand" if can_start() else ""


def ensure(made: state.Made) -> None:
    """Have an engine: ours if it runs, else the one that answers, else ours started now."""
    if made.engine_runs() and answers(made):
        return
    if made.engine_runs() or made.cluster:
        raise store.KindError("the Docker engine of the last `make kind` does not answer: run `make kind-down` first")
    made.engine, made.host = None, ""
    if not answers(made):
        start(made)


def can_start() -> bool:
    """Whether this machine and user can start an engine."""
    return os.geteuid() == 0 and all(shutil.which(name) for name in ("dockerd", "docker", "runc"))


def start(made: state.Made) -> None:
    """Start an engine of our own, with its data, socket and log in the cache; writes it into `made`."""
    if not can_start():
        raise store.KindError(f"No Docker engine answers, and none can be started here (dockerd, as root). {MEND}")
    folder = store.root() / "engine"
    remove_data()
    folder.mkdir()
    runtime = programs.path("boundedrunc")
    made.host = f"unix://{folder}/docker.sock"
    argv = [
        "dockerd", f"--host={made.host}", f"--data-root={folder}/data", f"--exec-root={folder}/run",
        f"--pidfile={folder}/pid", f"--add-runtime=bounded={runtime}", "--default-runtime=bounded",
    ]  # fmt: skip
    store.say("no Docker engine answers: starting one")
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
    _outlive_us.append(process)
    made.engine = {"pid": process.pid, "start": identity.start_time(process.pid)}
    made.save()
    try:
        waiting.wait_for(lambda: process.poll() is not None or answers(made), 60, "the Docker engine answers")
        if process.poll() is not None:
            raise waiting.NotReached(f"dockerd ended with status {process.returncode}")
    except waiting.NotReached as error:
        tail = (folder / "log").read_text(errors="replace")[-2000:]
        stop(made)
        raise store.KindError(f"The Docker engine did not start: {error}\n{tail}{MEND}") from error


def stop(made: state.Made) -> None:
    """End the engine, if it is the very process that we started, and remove its data."""
    if made.engine is None:
        return
    entry = made.engine
    for number, seconds in ((signal.SIGTERM, 60), (signal.SIGKILL, 10)):
        if not identity.same_process(entry):
            break
        with contextlib.suppress(ProcessLookupError):
            os.kill(entry["pid"], number)
        with contextlib.suppress(waiting.NotReached):
            waiting.wait_for(lambda: not identity.same_process(entry), seconds, "the Docker engine has ended")
    remove_data()
    # what was in it is gone with it
    for field in dataclasses.fields(state.Made):
        setattr(made, field.name, getattr(state.Made(), field.name))
    made.save()


def remove_data() -> None:
    """Remove the data of an engine of ours that runs no more; mounts that it left are taken away first."""
    folder = store.root() / "engine"
    with open("/proc/mounts") as mounts:
        left = [line.split()[1] for line in mounts if line.split()[1].startswith(f"{folder}/")]
    for place in reversed(left):
        subprocess.run(["umount", "--lazy", place], check=False, stderr=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
