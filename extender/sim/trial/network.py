"""What a gang's all-reduce costs where it stands: the cost model `ring-1` (made up, and named wherever it is used).

Takes hosts and racks of a gang, gives shares and a throughput; must not place anything. One ring through all GPUs that
enters each host, and each rack, once. Of a step's half a second of computing half can hide communication; each GPU
sends 2 (k - 1) / k times 2 GB of gradients over the slowest link of the ring: NVLink inside a host 300 GB/s; a host's
network 25 GB/s, between racks 12.5 GB/s, both shared by all rings that go through the host when the gang starts.
"""

from __future__ import annotations

from dataclasses import dataclass

NAME = "ring-1"
COMPUTE_SECONDS, HIDING_SECONDS = 0.5, 0.25
GRADIENT_GB = 2.0
NVLINK_GB, HOST_GB, RACKS_GB = 300.0, 25.0, 12.5


@dataclass(frozen=True, slots=True)
class Ring:
    """A gang's ring. `rings`: through the busiest of its hosts, its own included."""

    gpus: int
    hosts: int
    racks: int
    rings: int = 1

    @property
    def off_nvlink(self) -> float:
        """Share of its traffic that leaves a host."""
        return self.hosts / self.gpus if self.hosts > 1 else 0.0

    @property
    def across_racks(self) -> float:
        """Share of its traffic that leaves a rack."""
        return self.racks / self.gpus if self.racks > 1 else 0.0

    @property
    def throughput(self) -> float:
        """Steps in the time of one that waits for no communication."""
        shared = (HOST_GB if self.racks == 1 else RACKS_GB) / max(self.rings, 1)
        speed = NVLINK_GB if self.hosts == 1 else shared
        sent = 2 * (self.gpus - 1) / self.gpus * GRADIENT_GB / speed
        return COMPUTE_SECONDS / (COMPUTE_SECONDS + max(0.0, sent - HIDING_SECONDS))
