"""Every version that the node image is made of, in one place.

Takes nothing. Gives the pins; the go.mod files under `modules/` repeat them (a test compares the two). What kubeadm
asks for by name (etcd, CoreDNS, pause) belongs to the version of Kubernetes: `kubeadm config images list` says it.
"""

from __future__ import annotations

from e2e.cluster import versions

MINOR = versions.DEFAULT_MINOR
KUBERNETES = versions.KUBERNETES[MINOR]
KIND = "v0.33.0"
CONTAINERD = "v2.3.4"
CNI_PLUGINS = "v1.9.1"
CRICTL = "v1.37.0"
COREDNS = "v1.14.6"

#: what kind itself would take, pulled where images can be pulled
STOCK_IMAGE = "kindest/node:v1.37.0@sha256:a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5"

REGISTRY = "registry.k8s.io"
#: the image names that kubeadm and containerd ask for: programs of that name in images of their own
IMAGES = {
    "kube-apiserver": [f"{REGISTRY}/kube-apiserver:{KUBERNETES}"],
    "kube-controller-manager": [f"{REGISTRY}/kube-controller-manager:{KUBERNETES}"],
    "kube-scheduler": [f"{REGISTRY}/kube-scheduler:{KUBERNETES}"],
    "etcd": [f"{REGISTRY}/etcd:3.7.0-0"],
    "coredns": [f"{REGISTRY}/coredns/coredns:{COREDNS}"],
    "pause": [f"{REGISTRY}/pause:3.10", f"{REGISTRY}/pause:3.10.2"],
    "nodenet": ["docker.io/muster/nodenet:1"],
}
PROXY_IMAGE = f"{REGISTRY}/kube-proxy:{KUBERNETES}"

#: bookworm's systemd is the newest that boots on cgroup v1 too
DEBIAN = "bookworm"
NODE_PACKAGES = (
    "systemd", "conntrack", "iptables", "nftables", "iproute2", "ethtool", "util-linux", "mount", "kmod", "libseccomp2",
    "socat", "e2fsprogs", "bash", "ca-certificates", "curl", "jq", "procps", "runc", "hostname", "ebtables",
)  # fmt: skip
#: the base of Muster's image where python:3.11-slim cannot be pulled
PYTHON_PACKAGES = ("python3", "python3-venv", "ca-certificates")
