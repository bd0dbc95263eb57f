"""The Go programs of nodes, images and engine, each built once per user.

Takes the modules under `modules/` (those of others by their go.mod and go.sum, our own as source beside them); gives
the paths of the programs. Kubernetes' own are built as the control plane's are, so that Go's cache is shared.
"""

from __future__ import annotations

import json
import pathlib
import subprocess

from e2e.cluster import build
from e2e.kind import pins, store

MODULES = pathlib.Path(__file__).with_name("modules")
PLAIN = "-s -w"
CONTAINERD = "github.com/containerd/containerd/v2"
CNI = "github.com/containernetworking/plugins/plugins"
WITHOUT = "no_aufs,no_zfs,no_btrfs,no_devmapper"
#: what a node and its images are made of; the other modules are of tests only
NODE_MODULES = ("kind", "containerd", "cni", "crictl", "coredns", "node")
#: module, package, linker flags, tags
PROGRAMS = {
    "kind": ("kind", "sigs.k8s.io/kind", PLAIN, ""),
    **{
        name: ("containerd", f"{CONTAINERD}/cmd/{name}", f"{PLAIN} -X {CONTAINERD}/version.Version={pins.CONTAINERD}",
               WITHOUT)
        for name in ("containerd", "ctr", "containerd-shim-runc-v2")
    },
    **{
        path.rpartition("/")[2]: ("cni", f"{CNI}/{path}", PLAIN, "")
        for path in ("ipam/host-local", "main/loopback", "main/ptp", "meta/portmap")
    },
    "crictl": ("crictl", "sigs.k8s.io/cri-tools/cmd/crictl", PLAIN, ""),
    "coredns": ("coredns", ".", PLAIN, ""),
    **{
        name: ("node", f"k8s.io/kubernetes/cmd/{name}", build.version_flags(pins.KUBERNETES), "")
        for name in ("kubelet", "kubeadm", "kube-proxy")
    },
    "fakegpus": ("fakegpus", ".", PLAIN, ""),
    **{name: ("node", f"./{name}", PLAIN, "") for name in ("pause", "nodenet", "boundedrunc")},
}  # fmt: skip


def path(name: str) -> pathlib.Path:
    """The program of that name, built now if it is not in the cache."""
    if name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "etcd"):
        return pathlib.Path(build.binaries(pins.MINOR).path(name))
    module, package, flags, tags = PROGRAMS[name]
    folder = MODULES / module
    build.go_root(folder)
    cache = store.root() / f"go-{module}-{store.digest(_sources(folder))}"
    build.make(build.Target(name, package, folder, cache, flags, tags))
    return cache / name


def digest() -> str:
    """Changes when any program of a node may."""
    return store.digest(source for module in NODE_MODULES for source in _sources(MODULES / module))


def kind_files() -> pathlib.Path:
    """kind's own files of a node (units, entrypoint, hooks), as they lie in its module."""
    argv = ["go", "mod", "download", "-json", "sigs.k8s.io/kind"]
    found = subprocess.run(argv, cwd=MODULES / "kind", capture_output=True, text=True, check=False)
    if found.returncode != 0:
        raise store.KindError(f"kind's module cannot be fetched: {found.stderr or found.stdout}")
    return pathlib.Path(json.loads(found.stdout)["Dir"]) / "images" / "base" / "files"


def _sources(folder: pathlib.Path) -> list[pathlib.Path]:
    return [source for source in folder.rglob("*") if source.is_file()]
