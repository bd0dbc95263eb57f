"""A picture of the results as SVG: one row for each workload, one mark for each policy.

Takes results, gives text; must not know how they came about.
"""

from __future__ import annotations

from html import escape

from tests.perf.openb.report import Results, mean

_COLOURS = ("#9e9e9e", "#8d6e63", "#7e57c2", "#42a5f5", "#26a69a", "#ef6c00", "#d81b60")
_LEFT, _TOP, _WIDTH, _ROW = 110, 60, 720, 26


def draw(results: Results, policies: list[str]) -> str:
    """Percent of GPUs allocated at the end, means over the seeds."""
    names = sorted(results, key=lambda name: (name != "default", name))
    found = [value for name in names for policy in policies if (value := mean(results, name, policy)) is not None]
    low, high = int(min(found, default=0)), int(max(found, default=100)) + 1
    height = _TOP + _ROW * len(names) + 30

    def x(value: float) -> float:
        return round(_LEFT + _WIDTH * (value - low) / (high - low), 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 30}" height="{height}"',
        ' font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>',
        _text(10, 18, "GPUs allocated, percent, when demand for 130 % of them has arrived (openb trace)"),
    ]
    for place, policy in enumerate(policies):
        at = _LEFT + 100 * place
        parts += [_mark(at, 38, place), _text(at + 10, 42, policy)]
    for value in range(low, high + 1):
        parts.append(f'<path d="M{x(value)} {_TOP}V{height - 30}" stroke="#dddddd"/>')
        parts.append(_text(x(value) - 6, height - 12, str(value)))
    for line, name in enumerate(names):
        y = _TOP + _ROW * line + _ROW // 2
        parts.append(_text(10, y + 4, name))
        for place, policy in enumerate(policies):
            value = mean(results, name, policy)
            if value is not None:
                parts.append(_mark(x(value), y, place, f"{name}, {policy}: {value:.2f} %"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _mark(x: float, y: float, place: int, title: str = "") -> str:
    return f'<circle cx="{x}" cy="{y}" r="5" fill="{_COLOURS[place]}"><title>{escape(title)}</title></circle>'


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x}" y="{y}">{escape(text)}</text>'
