"""Rows and ratios out of runs.

Takes runs by (nodes, shape, system); gives the rows of latest.json and a table. Must not measure.
"""

from __future__ import annotations

import statistics
from typing import Any

from e2e.bench import measure, shapes

Key = tuple[int, str, str]


def rows(runs: dict[Key, list[measure.Run]]) -> list[dict[str, Any]]:
    """One row for each combination; index i of `runs_s` pairs over systems."""
    return [
        {
            "nodes": nodes,
            "shape": shape,
            "system": system,
            "runs_s": [round(run.total_s, 3) for run in done],
            "median_s": round(statistics.median(run.total_s for run in done), 3),
            "create_s": round(statistics.median(run.create_s for run in done), 3),
            "bind_s": round(statistics.median(run.bind_s for run in done), 3),
            "writes_per_pod": round(statistics.median(run.writes_per_pod for run in done), 3),
            "overcommitted_nodes": max(run.overcommitted for run in done),
        }
        for (nodes, shape, system), done in runs.items()
        if done
    ]


def table(found: list[dict[str, Any]]) -> str:
    """The rows for people, with the ratios of Muster to each other system."""
    head = f"{'nodes':>5} {'shape':10} {'system':15} {'total s':>8} {'create s':>8} {'bind s':>7} {'writes':>7}  runs"
    return "\n".join([head, *map(_line, found), "", *_ratios(found)])


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['nodes']:5} {row['shape']:10} {row['system']:15} {row['median_s']:8.2f} {row['create_s']:8.2f} "
        f"{row['bind_s']:7.2f} {row['writes_per_pod']:7.2f}  {' '.join(f'{run:.2f}' for run in row['runs_s'])}"
    )


def _ratios(found: list[dict[str, Any]]) -> list[str]:
    by_key = {(row["nodes"], row["shape"], row["system"]): row["runs_s"] for row in found}
    lines = ["time of Muster / time of the other, median of paired runs [lowest .. highest]"]
    for nodes, shape in dict.fromkeys((row["nodes"], row["shape"]) for row in found):
        ours = by_key.get((nodes, shape, shapes.MUSTER), [])
        for other in (shapes.PLAIN, shapes.NATIVE):
            paired = [a / b for a, b in zip(ours, by_key.get((nodes, shape, other), []), strict=False)]
            if paired:
                lines.append(
                    f"{nodes:5} {shape:10} muster / {other:15} {statistics.median(paired):5.2f} "
                    f"[{min(paired):.2f} .. {max(paired):.2f}]"
                )
    return lines
