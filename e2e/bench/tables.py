"""The results as text for people.

Takes what latest.json holds; gives lines. Must not compute figures other than ratios of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from e2e.bench import ratios, shapes

Row = dict[str, Any]


def gangs(found: list[Row]) -> str:
    """The rows, with the ratios of Muster to each other system."""
    head = f"{'nodes':>5} {'shape':10} {'system':15} {'total s':>8} {'create s':>8} {'bind s':>7} {'writes':>7}  runs"
    lines = [f"{_of(row)} {row['system']:15} {_times(row)} {row['writes_per_pod']:7.2f}  {_runs(row)}" for row in found]
    return "\n".join([head, *lines, "", *_ratios(found)])


def cpu(found: list[Row]) -> str:
    """CPU seconds by process."""
    labelled = [(f"{_of(row)} {row['system']:15}", _used(row)) for row in found]
    return "\n".join(["CPU seconds from first create to last bind", *columns(labelled, ".2f")])


def muster(found: list[Row]) -> str:
    """Filter calls and memory of the runs of Muster."""
    lines = ["the extender's filter calls and high-water marks of memory, run by run; ms are upper bounds of buckets"]
    for row in found:
        for way, calls in row["filter"].items():
            listed = "  ".join(f"{what} {_listed(some)}" for what, some in calls.items())
            lines.append(f"{_of(row)} {way:8} {listed}")
        listed = "  ".join(f"{role} {_listed(some)}" for role, some in row["memory_mib"].items())
        lines.append(f"{_of(row)} MiB      {listed}")
    return "\n".join(lines)


def part(title: str, labelled: Sequence[tuple[str, Row]], told: Sequence[str]) -> str:
    """Rows that bear times and `cpu_s`, then the ratios that were told."""
    width = max(len(label) for label, _ in labelled)
    head = f"{'':{width}} {'total s':>8} {'create s':>8} {'bind s':>7}  runs"
    lines = [f"{label:{width}} {_times(row)}  {_runs(row)}" for label, row in labelled]
    used = columns([(label, _used(row)) for label, row in labelled], ".2f")
    return "\n".join([title, head, *lines, *told, "CPU seconds from first create to last bind", *used])


def columns(labelled: Sequence[tuple[str, Mapping[str, float]]], form: str) -> list[str]:
    """One column for each key that any of the rows has, in the order seen."""
    keys = list(dict.fromkeys(key for _, row in labelled for key in row))
    widths = {key: max(len(key), 8) for key in keys}
    first = max(len(label) for label, _ in labelled)
    lines = [f"{'':{first}} {' '.join(f'{key:>{widths[key]}}' for key in keys)}"]
    for label, row in labelled:
        cells = [f"{format(row[key], form) if key in row else '-':>{widths[key]}}" for key in keys]
        lines.append(f"{label:{first}} {' '.join(cells)}")
    return lines


def _ratios(found: list[Row]) -> list[str]:
    by_key = {(row["nodes"], row["shape"], row["system"]): row["runs_s"] for row in found}
    lines = ["time of Muster / time of the other, median of paired runs [lowest .. highest]"]
    for nodes, shape in dict.fromkeys((row["nodes"], row["shape"]) for row in found):
        ours = by_key.get((nodes, shape, shapes.MUSTER), [])
        for other in (shapes.PLAIN, shapes.NATIVE):
            ratio = ratios.paired(ours, by_key.get((nodes, shape, other), []))
            if ratio:
                lines.append(f"{nodes:5} {shape:10} muster / {other:15} {ratio}")
    return lines


def _of(row: Row) -> str:
    return f"{row['nodes']:5} {row['shape']:10}"


def _times(row: Row) -> str:
    return f"{row['median_s']:8.2f} {row['create_s']:8.2f} {row['bind_s']:7.2f}"


def _runs(row: Row) -> str:
    return " ".join(f"{run:.2f}" for run in row["runs_s"])


def _used(row: Row) -> dict[str, float]:
    """`cores`: CPU seconds of all for each second that passed."""
    used: dict[str, float] = row["cpu_s"]
    total = sum(used.values())
    return {"all": total, "cores": total / row["median_s"]} | used


def _listed(values: Sequence[Any]) -> str:
    return " ".join(
        "-" if value is None else f"{value:g}" if isinstance(value, float) else f"{value}" for value in values
    )
