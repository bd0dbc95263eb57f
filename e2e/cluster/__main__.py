"""`python -m e2e.cluster up|down|status`: a local control plane for people, which outlives the command.

`up` prints the kubeconfig's path; K8S=1.34 chooses the minor. `down` ends exactly the processes that `up` started: each
is known by id and start time, so that an id used anew is never hit.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import shutil
import signal
import sys
from typing import Any

from e2e import waiting
from e2e.cluster import build, identity, local, process


def main(arguments: list[str]) -> int:
    """Run one command; gives the exit status."""
    commands = {"up": up, "down": down, "status": status}
    if len(arguments) != 1 or arguments[0] not in commands:
        print("usage: python -m e2e.cluster up|down|status", file=sys.stderr)
        return 2
    try:
        return commands[arguments[0]]()
    except (build.BuildError, process.ProcessError) as error:
        print(error, file=sys.stderr)
        return 1


def folder() -> pathlib.Path:
    """Where the control plane of `up` lives."""
    return build.cache_root() / "up"


def up() -> int:
    """Start it, unless it runs already."""
    if running():
        return status()
    shutil.rmtree(folder(), ignore_errors=True)
    folder().mkdir(parents=True)
    cluster = local.LocalCluster(local.Options(stay=True), folder())
    try:
        cluster.start()
        (folder() / "state.json").write_text(json.dumps(record(cluster)))
    except BaseException:
        cluster.stop(keep_files=True)
        raise
    print(f"up in {cluster.seconds_to_start:.1f} s, Kubernetes {cluster.server_minor}; to use it:", file=sys.stderr)
    print(f"export KUBECONFIG={cluster.kubeconfig}")
    return 0


def down() -> int:
    """End it and remove its files."""
    ended = running()
    for name, entry in reversed(ended.items()):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(entry["pid"], signal.SIGKILL)
        waiting.wait_for(
            functools.partial(identity.same_process, entry), 10, f"{name} is gone", until=lambda still: not still
        )
    shutil.rmtree(folder(), ignore_errors=True)
    print(f"ended {len(ended)} processes", file=sys.stderr)
    return 0


def status() -> int:
    """Say what runs; exit status 1 when nothing does."""
    alive = running()
    if not alive:
        print("down", file=sys.stderr)
        return 1
    for name, entry in alive.items():
        print(f"{name} {entry['pid']}", file=sys.stderr)
    print(f"export KUBECONFIG={folder() / 'admin.kubeconfig'}")
    return 0


def record(cluster: local.LocalCluster) -> dict[str, Any]:
    """Name, id and start time of every process."""
    return {
        started.name: {"pid": started.pid, "start": identity.start_time(started.pid)} for started in cluster.processes
    }


def running() -> dict[str, dict[str, Any]]:
    """The recorded processes that are still the same ones."""
    try:
        recorded = json.loads((folder() / "state.json").read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return {name: entry for name, entry in recorded.items() if identity.same_process(entry)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
