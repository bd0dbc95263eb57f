"""The kind cluster: made from manifests/kind/kind.yaml, and removed with all that was made for it.

Takes what was made before; gives a cluster with all nodes ready, and its kubeconfig. A cluster of the same name that
somebody else made is refused, an engine or a cluster that is not in the record is never touched.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable

import yaml

from e2e.kind import engine, node, pins, programs, state, store

CONFIGURATION = pathlib.Path(__file__).resolve().parents[2] / "manifests" / "kind" / "kind.yaml"
PULL_SECONDS = 300


def name() -> str:
    """The cluster's name."""
    return str(yaml.safe_load(CONFIGURATION.read_text())["name"])


def kubeconfig() -> pathlib.Path:
    """The administrator's access, while the cluster is there."""
    return store.root() / "kubeconfig"


def up(made: state.Made) -> None:
    """Have the cluster: what runs is left as it is."""
    engine.ensure(made)
    exists = name() in kind(made, "get", "clusters").split()
    if exists and not made.cluster:
        raise store.KindError(f"a kind cluster {name()} exists that `make kind` did not make: use it, or delete it")
    if exists and _all_ready(made):
        return
    remove_cluster(made)
    image = choose_image(os.environ.get("NODE_IMAGE", ""), pull=lambda: _pulled(made))
    if image == node.tag():
        node.provide(made)
    made.network = made.network or not engine.docker(made, "network", "ls", "-q", "--filter", "name=^kind$")
    made.cluster = name()
    made.save()
    argv = ["create", "cluster", f"--config={CONFIGURATION}", f"--image={image}", f"--kubeconfig={kubeconfig()}"]
    store.run(
        f"creating the kind cluster {name()} of image {image}",
        [str(programs.path("kind")), *argv, "--wait=180s"],
        env=engine.environment(made),
        mend="`make kind` tries again, `make kind-down` removes what there is.",
    )
    kubectl(made, "wait", "--for=condition=Ready", "node", "--all", "--timeout=180s")


def choose_image(asked: str, *, pull: Callable[[], bool]) -> str:
    """The node image: what `asked` says (stock or own), else the stock one where it can be pulled, else ours."""
    if asked not in ("", "stock", "own"):
        raise store.KindError(f"NODE_IMAGE={asked}: say stock or own")
    if asked == "own" or not pull():
        if asked == "stock":
            raise store.KindError(f"{pins.STOCK_IMAGE} cannot be pulled; NODE_IMAGE=own takes one built here")
        return node.tag()
    return pins.STOCK_IMAGE


def down(made: state.Made) -> None:
    """Remove the cluster, the images, the engine: each only if it is in the record."""
    if made.engine is None or made.engine_runs():
        remove_cluster(made)
        if made.engine is None and made.network:
            engine.docker(made, "network", "rm", "kind", check=False)
        for image in made.images if made.engine is None else []:
            engine.docker(made, "rmi", image, check=False)
    engine.stop(made)
    kubeconfig().unlink(missing_ok=True)
    state.forget()


def remove_cluster(made: state.Made) -> None:
    """Delete the cluster, if we made it."""
    if made.cluster:
        store.say(f"deleting the kind cluster {made.cluster}")
        kind(made, "delete", "cluster", f"--name={made.cluster}", f"--kubeconfig={kubeconfig()}")
        made.cluster, made.loaded = "", {}
        made.save()


def kind(made: state.Made, *arguments: str) -> str:
    """Run kind on our engine."""
    return engine.command(made, [str(programs.path("kind")), *arguments])


def kubectl(made: state.Made, *arguments: str, check: bool = True, stdin: str = "") -> str:
    """Run kubectl as the cluster's administrator."""
    argv = [str(programs.path("kubectl")), f"--kubeconfig={kubeconfig()}", *arguments]
    return engine.command(made, argv, check=check, stdin=stdin)


def _all_ready(made: state.Made) -> bool:
    return bool(kubectl(made, "wait", "--for=condition=Ready", "node", "--all", "--timeout=10s", check=False))


def _pulled(made: state.Made) -> bool:
    if engine.docker(made, "images", "-q", pins.STOCK_IMAGE):
        return True
    made.images.append(pins.STOCK_IMAGE)
    made.save()
    store.say("asking for the stock node image")
    engine.docker(made, "pull", "--quiet", pins.STOCK_IMAGE, check=False, seconds=PULL_SECONDS)
    if engine.docker(made, "images", "-q", pins.STOCK_IMAGE):
        return True
    made.images.remove(pins.STOCK_IMAGE)
    store.say("it cannot be pulled: taking the node image built here")
    return False
