"""Levels and domains: which nodes stand together in the network.

Takes Topology objects, HyperNodes and label columns (codes per row), gives paths of level keys and, per row, the
number of its domain; must not know what free room or requests are.

A domain is the path of label values from the broadest level to its own, since values are unique only
within their parent. A node that lacks a label on the path is in no domain of that level.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from extender.core.hypernodes import HyperNodes
from extender.core.model import HyperNode, Node, Topology

Ints = npt.NDArray[np.int64]
#: label keys from broad to narrow; () stands for the whole cluster
Keys = tuple[str, ...]

#: is a level of its own even where no Topology names it and no node bears it yet
HOSTNAME = "kubernetes.io/hostname"
#: the NVLink domain of a node, on clusters where those span nodes
CLIQUE = "nvidia.com/gpu.clique"
#: labels that clouds and fabric tools put on nodes, from broad to narrow, as their documents order them; what no node
#: bears is left out. An accelerator's domain (NVLink) and a rack that is no part of the fabric stand alone.
SCHEMES: tuple[Keys, ...] = (
    # topograph from 1.0 on: tier 0 is next to the node, and there may be any number of them
    tuple(f"fabric.topograph.run/tier-{tier}" for tier in range(9, -1, -1)),
    ("accelerator.topograph.run/domain", "accelerator.topograph.run/sub-domain"),
    # topograph before 1.0, and its first names
    tuple(f"network.topology.nvidia.com/{name}" for name in ("datacenter", "core", "spine", "block", "leaf")),
    # AWS counts from the top
    tuple(f"topology.k8s.aws/network-node-layer-{layer}" for layer in range(1, 10)),
    tuple(f"cloud.google.com/gce-topology-{name}" for name in ("block", "subblock", "host")),
    tuple(f"oci.oraclecloud.com/host.{name}" for name in ("hpc_island_id", "network_block_id", "rack_id")),
    tuple(f"ib.coreweave.cloud/{name}" for name in ("fabric", "superpod", "leafgroup")),
    ("volcano.sh/hypercluster", "volcano.sh/hypernode"),
    ("volcano.sh/tor",),
    ("cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/zone"),
    # GPUs of several nodes on one NVLink fabric: the cluster's UUID and the clique, as one value
    (CLIQUE,),
    ("network.topology.nvidia.com/accelerator",),
    ("topology.k8s.aws/capacity-block-id",),
    ("topology.k8s.aws/ultraserver-id",),
    ("node.coreweave.cloud/rack",),
)


class Levels:
    """The declared levels: the first Topology by name that contains a level gives its path, else a scheme does.

    Schemes are cut to the labels that nodes bear, which `borne` tells.
    """

    def __init__(self, topologies: Iterable[Topology] = (), hypernodes: Iterable[HyperNode] = ()) -> None:
        ours_first = sorted(topologies, key=lambda t: ("/" in t.name, t.name))
        self.hypernodes = HyperNodes(hypernodes)
        self._tiers = self.hypernodes.chain()
        self._chains: list[Keys] = [t.levels for t in ours_first if t.levels]
        self._chains += [self._tiers] if self._tiers else []

    def level(self, named: str) -> str:
        """The level that is meant, where several names stand for one."""
        return self.hypernodes.level(named)

    def derived(self, level: str) -> Callable[[Node], str | None] | None:
        """What stands for the label of a level that is none of the labels of nodes."""
        return functools.partial(self.hypernodes.value, level) if level in self._tiers else None

    def all(self, borne: Callable[[str], bool]) -> list[Keys]:
        """All that stand side by side: declared topologies, then schemes of which a node bears a label."""
        found = [*self._chains, *(tuple(filter(borne, scheme)) for scheme in SCHEMES)]
        return list(dict.fromkeys(filter(None, found)))

    def chain(self, level: str | None, borne: Callable[[str], bool]) -> Keys:
        """All levels of the topology or scheme that contains this one; for None, of the first that there is.

        A level that nobody declares and no scheme has stands alone.
        """
        if level is None:
            there = (tuple(filter(borne, scheme)) for scheme in SCHEMES)
            return self._chains[0] if self._chains else next(filter(None, there), ())
        for chain in self._chains:
            if level in chain:
                return chain
        scheme = next((scheme for scheme in SCHEMES if level in scheme), ())
        return tuple(key for key in scheme if key == level or borne(key)) or (level,)

    def declared(self, level: str) -> bool:
        """True when a Topology names the level, or when it needs none."""
        return level == HOSTNAME or any(level in chain for chain in self._chains)


@dataclass(frozen=True, slots=True, eq=False)
class Domains:
    """The domains of one level. Numbers follow the order of the paths, so that they break ties."""

    keys: Keys
    #: per row of the node table the number of its domain, -1 for none
    ids: Ints
    paths: tuple[tuple[str, ...], ...]
    #: rows that are in a domain, domain by domain and by node name inside
    order: Ints
    #: where each domain begins in `order`, and at last its length
    starts: Ints

    def rows(self, domain: int) -> Ints:
        """Rows of one domain, ordered by node name."""
        return self.order[self.starts[domain] : self.starts[domain + 1]]

    def sums(self, values: npt.NDArray[np.int64 | np.float64]) -> npt.NDArray[np.int64 | np.float64]:
        """Sum of a value per row over the rows of each domain."""
        if not self.paths:
            return values[:0]
        return np.add.reduceat(values[self.order], self.starts[:-1])


def domains(keys: Keys, columns: Sequence[tuple[Ints, Sequence[str]]], rank: Ints, alive: Ints) -> Domains:
    """Domains of a path, from one label column (codes per row, values by code) for each of its keys.

    `rank` orders rows by node name; `alive` are the rows that are nodes.
    """
    inside = alive
    for codes, _ in columns:
        inside = inside[codes[inside] >= 0]
    group = np.zeros(len(inside), dtype=np.int64)
    for codes, values in columns:
        # renumbered at each level, so that the product never leaves int64
        group = np.unique(group * (len(values) + 1) + codes[inside], return_inverse=True)[1]
    paths = _paths(columns, inside, group)
    by_path = sorted(range(len(paths)), key=paths.__getitem__)
    renumber = np.empty(len(paths), dtype=np.int64)
    renumber[by_path] = np.arange(len(paths))
    number = renumber[group]
    ids = np.full(len(rank), -1, dtype=np.int64)
    ids[inside] = number
    order = np.lexsort((rank[inside], number))
    starts = np.searchsorted(number[order], np.arange(len(paths) + 1))
    return Domains(keys, ids, tuple(paths[i] for i in by_path), inside[order], starts)


def _paths(columns: Sequence[tuple[Ints, Sequence[str]]], inside: Ints, group: Ints) -> list[tuple[str, ...]]:
    first = inside[np.unique(group, return_index=True)[1]]
    return [tuple(values[codes[row]] for codes, values in columns) for row in first.tolist()]
