"""Every version that e2e builds, in one place.

Takes nothing. Gives the pins; the go.mod files under `controlplane/` repeat them (a test compares the two).
To move a pin: change it here, then `go get` the same version in that folder.
"""

from __future__ import annotations

import os

GO_MINIMUM = (1, 26)
KUBERNETES = {"1.34": "v1.34.4", "1.37": "v1.37.2"}
DEFAULT_MINOR = "1.37"
ETCD = "v3.7.3"
KWOK = "v0.8.0"

KUBERNETES_BINARIES = {
    name: f"k8s.io/kubernetes/cmd/{name}"
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
}
ETCD_BINARIES = {"etcd": "go.etcd.io/etcd/server/v3", "kwok": "sigs.k8s.io/kwok/cmd/kwok"}

# Minors in which the API server knows native pod groups as v1beta1 (scheduling.k8s.io), behind a gate that is off.
NATIVE_POD_GROUPS = {"1.37"}
# Minors in which MutatingAdmissionPolicy is beta and off; later ones serve it as v1 by default.
MUTATING_POLICY_BETA = {"1.34", "1.35"}


def chosen_minor() -> str:
    """The minor that `K8S` asks for, else the newest; an unknown one is refused with what there is."""
    minor = os.environ.get("K8S", "") or DEFAULT_MINOR
    if minor not in KUBERNETES:
        raise SystemExit(f"K8S={minor}: no such control plane here; choose one of {', '.join(sorted(KUBERNETES))}")
    return minor
