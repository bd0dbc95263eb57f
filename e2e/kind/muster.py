"""Muster in the kind cluster, as a user installs it: the image built, loaded, and the manifests applied.

Takes the cluster of the record; gives two replicas of Muster that are ready. Where python:3.11-slim cannot be pulled
the image's base is made of Debian packages, and its Python packages are fetched here before, not in the build.
"""

from __future__ import annotations

import pathlib
import shutil
import sys

from e2e.kind import cluster, engine, node, pins, state, store

ROOT = pathlib.Path(__file__).resolve().parents[2]
IMAGE = "muster:0.1.0"
STOCK_BASE = "python:3.11-slim"
SOURCES = ("pyproject.toml", "README.md", "LICENSE", ".ci", "extender", "permit_gate")
READY_SECONDS = 240
ROLLOUT = ("-n", "muster-system", "rollout", "status", "deployment/muster")


def deploy(made: state.Made) -> None:
    """Build and load the image, apply the manifests, wait until both replicas are ready."""
    build_image(made)
    update = load(made, IMAGE) and cluster.kubectl(
        made, "-n", "muster-system", "get", "deploy", "-o", "name", check=False
    )
    cluster.kubectl(made, "apply", "-k", str(ROOT / "manifests"))
    if update:  # another image of the same name
        cluster.kubectl(made, "-n", "muster-system", "rollout", "restart", "deployment/muster")
    store.say("waiting until Muster is ready")
    wait_ready(made)


def wait_ready(made: state.Made) -> None:
    """Wait until both replicas are of the newest template, and ready."""
    cluster.kubectl(made, *ROLLOUT, f"--timeout={READY_SECONDS}s")


def rolled_out(made: state.Made) -> bool:
    """Whether that is so now."""
    return "successfully rolled out" in cluster.kubectl(made, *ROLLOUT, "--watch=false")


def build_image(made: state.Made) -> None:
    """Build manifests/image/Dockerfile from what a user's checkout holds."""
    base, pip = _base(made)
    with store.scratch() as context:
        for name in SOURCES:
            source = ROOT / name
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, context / name)
        if pip:
            shutil.copytree(_wheels(), context / "wheels")
        dockerfile = ROOT / "manifests" / "image" / "Dockerfile"
        node.image(
            made, IMAGE, context, f"--file={dockerfile}", f"--build-arg=BASE={base}", f"--build-arg=PIP_OPTIONS={pip}"
        )


def load(made: state.Made, image: str) -> bool:
    """Bring an image to every node; False if the nodes hold it already."""
    identity = engine.docker(made, "images", "-q", "--no-trunc", image)
    if made.loaded.get(image) == identity:
        return False
    store.say(f"loading {image} on the nodes")
    if image not in made.images:
        made.images.append(image)
        made.save()
    cluster.kind(made, "load", "docker-image", f"--name={cluster.name()}", image)
    made.loaded[image] = identity
    made.save()
    return True


def _base(made: state.Made) -> tuple[str, str]:
    """The base image, and pip's options that go with it."""
    if engine.docker(made, "images", "-q", STOCK_BASE):
        return STOCK_BASE, ""
    ours = f"muster/python:{pins.DEBIAN}"
    if not engine.docker(made, "images", "-q", ours):
        if made.engine is None and engine.docker(made, "pull", "--quiet", STOCK_BASE, check=False, seconds=120):
            return STOCK_BASE, ""
        made.images.append(ours)
        made.save()
        engine.docker(made, "import", str(node.rootfs(pins.PYTHON_PACKAGES)), ours)
    return ours, "--no-index --find-links=/source/wheels"


def _wheels() -> pathlib.Path:
    """A folder with the pinned packages that Muster needs, and with what builds it."""
    decide = [ROOT / "pyproject.toml", ROOT / ".ci" / "constraints.txt"]
    folder = store.root() / f"wheels-{store.digest(decide, sys.version)}"

    def fetch(target: pathlib.Path) -> None:
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", f"--wheel-dir={target}"]
        constraint = f"--constraint={decide[1]}"
        with store.scratch() as source:
            for name in SOURCES:
                path = ROOT / name
                (shutil.copytree if path.is_dir() else shutil.copy)(path, source / name)
            store.run("fetching Muster's Python packages", [*pip, constraint, str(source), "setuptools>=77"])
        for own in target.glob("muster-*.whl"):
            own.unlink()

    return store.once(folder, fetch)
