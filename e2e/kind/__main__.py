"""`python -m e2e.kind image|up|down|muster`: what `make kind-image`, `kind`, `kind-down` and `kind-muster` run."""

from __future__ import annotations

import sys

from e2e.cluster import build
from e2e.kind import cluster, engine, muster, node, state, store


def main(arguments: list[str]) -> int:
    """Run one command; gives the exit status."""
    commands = {"image": image, "up": up, "down": down, "muster": deploy}
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
