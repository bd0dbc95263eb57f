"""The report: one page that needs nothing beside it, and tables as CSV.

Takes results and the command that gives them again, gives files' texts; must not write them, nor say when it was made:
the same command gives the same bytes. Charts are SVG inside the page.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from html import escape

from extender.sim.traces.common import Trace
from extender.sim.traces.describe import lines as described
from extender.sim.trial import charts, network, policies, replay, tables
from extender.sim.trial.runs import Result

_STYLE = (
    "body{font:15px/1.45 sans-serif;margin:2em auto;max-width:60em;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;margin:1em 0}"
    "td,th{padding:.25em .7em;border-bottom:1px solid #ddd;text-align:right}"
    "td:first-child,th:first-child{text-align:left}pre{white-space:pre-wrap;background:#f5f5f5;padding:.8em}"
    "svg{width:100%;height:auto;margin:.6em 0}.wide{overflow-x:auto}"
)
#: figures that get a chart of bars
_CHARTED = (0, 4, 5, 7, 13)


def files(trace: Trace, results: Sequence[Result], command: str) -> dict[str, str]:
    """Names and texts of all files of a report."""
    return {
        "report.html": page(trace, results, command),
        "means.csv": _csv(tables.means(results)),
        "figures.csv": _csv(tables.figures(results)),
        "waits.csv": _csv(tables.waits(results)),
        "queues.csv": _csv(tables.queues(results)),
        "series.csv": _csv(tables.series(results)),
    }


def _csv(rows: tables.Rows) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def page(trace: Trace, results: Sequence[Result], command: str) -> str:
    """The page."""
    seeds = sorted({result.seed for result in results})
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>A trace replayed (simulated)</title>",
        f"<style>{_STYLE}</style><h1>A trace replayed</h1>",
        "<p><b>All of this is simulated.</b> Muster's engine and permit gate are those of production under a virtual"
        " clock; kube-scheduler, its native gangs, FIFO and quota-only admission are models of them.</p>",
        _numbered(command, seeds),
        "<h2>Figures</h2><p>Means over the seeds. Shares of GPUs are means over the window of submissions.</p>",
        _table(tables.means(results)),
        "<h2>Where Muster is not the best</h2>",
        _list(tables.behind(results)) or "<p>In none of these figures.</p>",
        "<h2>Shares of queues</h2><p>Mean GPUs over the window. The fair share is what a queue asks for, as far as none"
        " gets more than another that asks for more. Jain's index is of what each had by what was fair.</p>",
        _table(tables.shares(results)),
        "<h2>Charts</h2>",
        *pictures(results).values(),
        "<h2>What is compared</h2>",
        _list(f"{name}: {policies.EVERY[name].about}" for name in tables.names(results)),
        "<h2>Rules of the replay</h2>",
        _pre((replay.__doc__ or "").splitlines()),
        f"<p>Work is saved every {replay.CHECKPOINT_SECONDS:g} s. A replay ends after {replay.HORIZON_SPANS:g} times"
        f" the span of submissions and {replay.HORIZON_SECONDS:g} s; who has not started by then counts with its wait"
        f" so far.</p><p>Cost model of the network, {network.NAME}:</p>",
        _pre((network.__doc__ or "").splitlines()),
        "<h2>The trace</h2>",
        _pre([*described(trace), *results[0].said]),
    ]
    return "\n".join([*parts, "</html>"]) + "\n"


def _numbered(command: str, seeds: Sequence[int]) -> str:
    named = ", ".join(map(str, seeds))
    return f"<p>Seeds {named}. The same numbers come of:</p>" + _pre([command])


def pictures(results: Sequence[Result]) -> dict[str, str]:
    """The charts by the names of their files, as SVG."""
    first = min(result.seed for result in results)
    shown = [result for result in results if result.seed == first]
    useful = {one.policy: [(sample.at, float(sample.useful)) for sample in one.figures.samples] for one in shown}
    lost = {one.policy: [(sample.at, sample.fragments) for sample in one.figures.samples] for one in shown}
    most = max((value for points in lost.values() for _, value in points), default=1.0)
    titles = ("GPUs that do useful work", "Free GPUs that a pod of this workload has no use for")
    found = {
        "useful-over-time": charts.lines(f"{titles[0]} (seed {first})", "GPUs", useful, float(shown[0].gpus)),
        "of-no-use-over-time": charts.lines(f"{titles[1]} (seed {first})", "GPUs", lost, most),
    }
    for figure in (tables.FIGURES[place] for place in _CHARTED):
        better = "more is better" if figure.more_is_better else "less is better"
        means = {name: tables.mean(results, name, figure) for name in tables.names(results)}
        values = {name: value for name, value in means.items() if not math.isnan(value)}
        name = re.sub(r"[^a-z0-9]+", "-", figure.name.lower()).strip("-")
        found[name] = charts.bars(f"{figure.name} ({better})", values, figure.places)
    return found


def _table(rows: tables.Rows) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows[1:])
    return f"<div class='wide'><table><tr>{head}</tr>{body}</table></div>"


def _list(items: Iterable[str]) -> str:
    found = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f"<ul>{found}</ul>" if found else ""


def _pre(text: Iterable[str]) -> str:
    return f"<pre>{escape(chr(10).join(text))}</pre>"
