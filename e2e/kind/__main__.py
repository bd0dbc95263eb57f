"""`python -m e2e.kind image|up|muster|down|ready`: what `make kind-image`, `kind`, `kind-muster` and `kind-down` run.

`ready` says in one line whether the tests on real nodes can run here without building or pulling anything; it ends with
status 1 when they cannot. `.ci/run` asks it.
"""

from __future__ import annotations

import sys

from e2e.cluster import build
from e2e.kind import cluster, engine, muster, node, pins, state, store


def main(arguments: list[str]) -> int:
    """Run one command; gives the exit status."""
    commands = {"image": image, "up": up, "down": down, "muster": deploy, "ready": ready}
    if len(arguments) != 1 or arguments[0] not in commands:
        print(f"usage: python -m e2e.kind {'|'.join(commands)}", file=sys.stderr)
        return 2
    try:
        with build.lock(store.root() / ".lock"):
            commands[arguments[0]](state.read())
    except (build.BuildError, store.KindError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def ready(made: state.Made) -> None:
    """Say what the tests would run on; refused when something is missing, and while a cluster is in use."""
    if made.cluster:
        raise store.KindError(f"the kind cluster {made.cluster} is in use: `make kind-down` ends it")
    if not (node.archive().exists() and node.rootfs_archive(pins.PYTHON_PACKAGES).exists()):
        raise store.KindError("no node image in the cache: `make kind-image` builds it")
    found = engine.available(made)
    if not found:
        raise store.KindError(f"no Docker engine. {engine.MEND}")
    print(f"{node.tag()} on {found}")


def image(made: state.Made) -> None:
    """Have the node image in the cache; an engine that was started only for this is ended again."""
    if not node.archive().exists():
        ours_before = made.engine_runs()
        engine.ensure(made)
        try:
            node.build(made)
        finally:
            if not ours_before:
                engine.stop(made)
    node.rootfs(pins.PYTHON_PACKAGES)  # Muster's image stands on it
    store.say(f"the node image is {node.archive()}")


def up(made: state.Made) -> None:
    """Have the cluster, and say how to use it."""
    cluster.up(made)
    print(f"export KUBECONFIG={cluster.kubeconfig()}")


def down(made: state.Made) -> None:
    """Remove all that was made."""
    cluster.down(made)
    store.say("nothing that `make kind` made is left, but for the cache")


def deploy(made: state.Made) -> None:
    """Install Muster on the cluster as a user does."""
    cluster.up(made)
    muster.deploy(made)
    print(f"export KUBECONFIG={cluster.kubeconfig()}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
