"""A picture of the results as SVG: one row for each workload, one mark for each policy.

Takes results, gives text; must not know how they came about.
"""

from __future__ import annotations

from html import escape

from tests.perf.openb.report import Results, mean, seeds

_COLOURS = ("#9e9e9e", "#8d6e63", "#7e57c2", "#42a5f5", "#26a69a", "#ef6c00", "#d81b60")
_OURS, _BEST = "Muster", "FGD"
_LEFT, _TOP, _WIDTH, _ROW, _RIGHT = 110, 84, 720, 26, 150


def draw(results: Results, policies: list[str]) -> str:
    """Percent of GPUs allocated at the end, means over the seeds."""
    names = sorted(results, key=lambda name: (name != "default", name))
    found = [value for name in names for policy in policies if (value := mean(results, name, policy)) is not None]
    low, high = int(min(found, default=0)), int(max(found, default=100)) + 1
    bottom = _TOP + _ROW * len(names)

    def x(value: float) -> float:
        return round(_LEFT + _WIDTH * (value - low) / (high - low), 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + _RIGHT}" height="{bottom + 30}"',
        ' font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>',
        _text(10, 18, "GPUs allocated, percent, when demand for 130 % of them has arrived (openb trace)"),
        _text(_LEFT + _WIDTH + 20, _TOP - 24, f"{_OURS} less {_BEST}"),
        _text(_LEFT + _WIDTH + 20, _TOP - 10, "(seeds played)"),
    ]
    for place, policy in enumerate(policies):
        at = _LEFT + 100 * place
        parts += [_mark(at, 42, place), _text(at + 10, 46, policy)]
    for value in range(low, high + 1):
        parts.append(f'<path d="M{x(value)} {_TOP}V{bottom}" stroke="#dddddd"/>')
        parts += [_text(x(value) - 6, y, str(value)) for y in (_TOP - 6, bottom + 16)]
    for line, name in enumerate(names):
        y = _TOP + _ROW * line + _ROW // 2
        parts += [f'<path d="M{_LEFT} {y}H{_LEFT + _WIDTH}" stroke="#eeeeee"/>', _text(10, y + 4, name)]
        for place, policy in enumerate(policies):
            value = mean(results, name, policy)
            if value is not None:
                parts.append(_mark(x(value), y, place, f"{name}, {policy}: {value:.2f} %"))
        parts.append(_text(_LEFT + _WIDTH + 20, y + 4, _ahead(results, name)))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _ahead(results: Results, name: str) -> str:
    ours, best = mean(results, name, _OURS), mean(results, name, _BEST)
    if ours is None or best is None:
        return ""
    return f"{ours - best:+.2f} ({min(seeds(results, name, policy) for policy in (_OURS, _BEST))})"


def _mark(x: float, y: float, place: int, title: str = "") -> str:
    told = f"<title>{escape(title)}</title>" if title else ""
    return (
        f'<circle cx="{x}" cy="{y}" r="5" fill="{_COLOURS[place]}" fill-opacity="0.85" stroke="white">{told}</circle>'
    )


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x}" y="{y}">{escape(text)}</text>'
