"""Results by workload, policy and seed: kept as JSON, printed as rows, and compared with what is wanted.

Takes curves of allocated GPUs; must not run anything. A run that is played anew replaces its own result.
"""

from __future__ import annotations

import json
import pathlib
import statistics
from typing import Any

#: percent of GPUs allocated when 130 % have arrived, means of ten seeds on the default workload: hkust-adsl's
#: kubernetes-scheduler-simulator, experiments/analysis/expected_results/analysis_allo_discrete.csv
PUBLISHED = {
    "Random": 87.49,
    "DotProd": 90.85,
    "Clustering": 91.88,
    "Packing": 92.00,
    "BestFit": 93.08,
    "FGD": 95.39,
}
DEFAULT = "default"
#: how far our runs of their policies may be from what they published
NEAR = 1.5
#: curves begin where policies begin to differ
FROM = 80

Results = dict[str, dict[str, dict[str, Any]]]


def read(path: pathlib.Path) -> Results:
    """What stands in the file; nothing when there is none."""
    found: Results = json.loads(path.read_text()) if path.exists() else {}
    return found


def write(path: pathlib.Path, results: Results) -> None:
    """Replace the file as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    beside.replace(path)


def put(results: Results, workload: str, policy: str, seed: int, curve: list[float]) -> None:
    """Take in a run; runs of other seeds stay."""
    told = results.setdefault(workload, {}).setdefault(policy, {})
    told.setdefault("allocated", {})[str(seed)] = curve[-1]
    if seed == min(map(int, told["allocated"])):
        told["curve"] = curve[FROM:]


def has(results: Results, workload: str, policy: str, seed: int) -> bool:
    """True when this run stands there."""
    return str(seed) in results.get(workload, {}).get(policy, {}).get("allocated", {})


def seeds(results: Results, workload: str, policy: str) -> int:
    """How many seeds were played."""
    return len(results.get(workload, {}).get(policy, {}).get("allocated", {}))


def mean(results: Results, workload: str, policy: str) -> float | None:
    """Percent allocated at the end, over all seeds; None when it was not played."""
    told = results.get(workload, {}).get(policy)
    return None if told is None else statistics.fmean(told["allocated"].values())


def row(results: Results, workload: str, policies: list[str]) -> str:
    """One line of the table."""
    cells = []
    for policy in policies:
        found = mean(results, workload, policy)
        cells.append(f"{policy} {'-' if found is None else format(found, '.2f')}")
    return f"{workload:<12} " + "  ".join(cells)


def missed(results: Results) -> list[str]:
    """What falls short of what is wanted, in words."""
    found = []
    for policy, published in PUBLISHED.items():
        ours = mean(results, DEFAULT, policy)
        if ours is not None and abs(ours - published) > NEAR:
            found.append(f"{policy} gets {ours:.2f} %, and {published:.2f} % is published: no fair comparison")
    for workload in sorted(results):
        muster, fgd = mean(results, workload, "Muster"), mean(results, workload, "FGD")
        if muster is not None and fgd is not None and muster < fgd:
            found.append(f"{workload}: Muster {muster:.2f} % is {fgd - muster:.2f} below FGD {fgd:.2f} %")
    muster = mean(results, DEFAULT, "Muster")
    if muster is not None and muster < PUBLISHED["FGD"]:
        found.append(f"{DEFAULT}: Muster {muster:.2f} % is below the {PUBLISHED['FGD']:.2f} % published of FGD")
    return found
