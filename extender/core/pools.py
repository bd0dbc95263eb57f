"""Which node pool a node is of: what one label of nodes says, the same for all of them.

Takes nodes, gives names; must not know resources beyond that a pool of GPUs is meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extender.core.model import Node

#: labels of managed node pools, then what nodes of one kind have in common; the first one that any node bears counts
LABELS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "karpenter.sh/nodepool",
    "kubernetes.azure.com/agentpool",
    "oke.oraclecloud.com/pool.name",
    "nvidia.com/gpu.product",
    "node.kubernetes.io/instance-type",
)
#: of nodes that lack the label, and of all where none bears any
NO_LABEL, ALL = "(no label)", "all nodes"


def label_of(nodes: Iterable[Node]) -> str:
    """The label that names the pools of these nodes; "" when they bear none of those that are known."""
    borne = {key for node in nodes for key in node.labels}
    return next((label for label in LABELS if label in borne), "")


def of_nodes(nodes: Sequence[Node | None], with_gpus: Sequence[bool]) -> list[str]:
    """The pool of each node; the label is one that a node with GPUs bears."""
    label = label_of(node for node, some in zip(nodes, with_gpus, strict=True) if some and node is not None)
    return [ALL if not label or node is None else node.labels.get(label, NO_LABEL) for node in nodes]
