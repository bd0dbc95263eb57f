"""One run: pods arrive one after the other, none leaves, and what does not fit is dropped.

Takes arrivals and a policy, gives what share of the GPUs was allocated when so much had arrived.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tests.perf.openb.cluster import Cluster
from tests.perf.openb.policies import Policy
from tests.perf.openb.trace import Arrivals

#: demand that arrives, as a share of the cluster's GPUs
RATIO = 1.3


def play(run: Arrivals, policy: Policy) -> npt.NDArray[np.float64]:
    """Percent of GPUs allocated, at each whole percent of arrived demand: the mean over the pods that round to it."""
    cluster, total = Cluster(run.hosts), run.hosts.total
    arrived = allocated = 0
    seen: list[tuple[float, float]] = []
    for shape in run.pods:
        arrived += shape.demand
        rows = cluster.fitting(shape)
        if len(rows):
            row, gpu = policy.choose(cluster, shape, rows)
            cluster.take(row, shape, gpu)
            policy.placed(row, shape)
            allocated += shape.demand
        seen.append((arrived, allocated))
    shares = np.array(seen) * (100 / total)
    percent = np.rint(shares[:, 0]).astype(np.int64)
    count = np.bincount(percent)
    return np.bincount(percent, weights=shares[:, 1]) / np.maximum(count, 1)
