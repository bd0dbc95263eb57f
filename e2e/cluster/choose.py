"""Chooses the cluster for a test run: an existing KUBECONFIG, else a kind cluster, else the local control plane.

Gives a Cluster, not yet started, and says in one line which and why. E2E_CLUSTER=existing|kind|local overrides the
order. Must not create a kind cluster where its node image is missing (nothing is pulled here).
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from e2e.cluster import base, local

KIND_NAME = "muster-e2e"


class KindCluster(base.Cluster):
    """A kind cluster of our own name: used when it runs, else created, and deleted again if created here."""

    def __init__(self) -> None:
        work = pathlib.Path(tempfile.mkdtemp(prefix="muster-e2e-"))
        super().__init__("kind", work / "admin.kubeconfig", work)
        self._created = False

    def __enter__(self) -> KindCluster:
        if KIND_NAME not in _output("kind", "get", "clusters").split():
            self._created = True
            subprocess.run(
                ["kind", "create", "cluster", "--name", KIND_NAME, "--image", _kind_image(), "--wait", "120s",
                 "--kubeconfig", str(self.kubeconfig)],
                check=True, stdout=sys.stderr,
            )  # fmt: skip
        self.kubeconfig.write_text(_output("kind", "get", "kubeconfig", "--name", KIND_NAME))
        return self

    def stop(self, *, keep_files: bool = False) -> None:
        """Also delete the kind cluster, if this run created it."""
        super().stop(keep_files=keep_files)
        if self._created:
            subprocess.run(["kind", "delete", "cluster", "--name", KIND_NAME], check=False, stdout=sys.stderr)


def choose(options: local.Options | None = None) -> base.Cluster:
    """The cluster to test against. K8S=<minor> always means the local control plane of that minor."""
    name, why = _choice()
    _say(why)
    if name == "existing":
        return base.Cluster("existing", os.environ["KUBECONFIG"])
    return KindCluster() if name == "kind" else local.LocalCluster(options)


def is_shared() -> bool:
    """Whether all who test at the same time would be given one cluster, in which they would be in each other's way."""
    return _choice()[0] != "local"


def _choice() -> tuple[str, str]:
    forced = os.environ.get("E2E_CLUSTER", "")
    kubeconfig = os.environ.get("KUBECONFIG", "")
    if forced not in ("", "existing", "kind", "local"):
        raise SystemExit(f"E2E_CLUSTER={forced}: say existing, kind or local")
    if not forced and os.environ.get("K8S"):
        forced = "local"
    if forced == "existing" or (not forced and kubeconfig):
        if not kubeconfig:
            raise SystemExit("E2E_CLUSTER=existing needs KUBECONFIG")
        return "existing", f"the cluster of KUBECONFIG={kubeconfig}"
    if forced == "kind" or (not forced and _kind_image()):
        return "kind", f"kind cluster {KIND_NAME} (image {_kind_image() or 'missing'})"
    why = "asked for" if forced else "no KUBECONFIG, no docker with a kind node image"
    return "local", f"local control plane ({why})"


def _kind_image() -> str:
    if not shutil.which("docker") or not shutil.which("kind") or not _output("docker", "info", "--format", "{{.ID}}"):
        return ""
    images = _output("docker", "images", "--format", "{{.Repository}}:{{.Tag}}", "kindest/node").split()
    return images[0] if images else ""


def _output(*argv: str) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30)
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _say(text: str) -> None:
    print(f"[e2e] testing against: {text}", file=sys.stderr, flush=True)
