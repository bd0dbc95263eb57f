"""Charts as SVG: lines over time, and bars. Takes numbers with names, gives text; must not know what they are of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

COLOURS = (
    *("#d81b60", "#1e88e5", "#90b8f0", "#43a047", "#8d6e63", "#ef6c00"),
    *("#5e35b1", "#00897b", "#757575", "#c0ca33", "#212121", "#f06292"),
)
_WIDTH, _HEIGHT, _LEFT, _TOP = 860, 240, 60, 34
_BAR, _NAME, _RIGHT = 24, 190, 90
_TICKS = 4
#: names in a row of the legend
_NAMED, _NAME_WIDTH, _NAME_HEIGHT = 6, 145, 18


def lines(title: str, unit: str, curves: Mapping[str, Sequence[tuple[float, float]]], most: float) -> str:
    """A line for each name; the time in hours below, from 0 to `most` at the left."""
    last = max((points[-1][0] for points in curves.values() if points), default=1.0) or 1.0
    top = most or 1.0
    named = -(-len(curves) // _NAMED) * _NAME_HEIGHT
    parts = _frame(title, _WIDTH + _LEFT + 20, _HEIGHT + _TOP + 34 + named)
    for tick in range(_TICKS + 1):
        y = _TOP + _HEIGHT - _HEIGHT * tick / _TICKS
        parts += [_grid(y), _text(6, y + 4, f"{top * tick / _TICKS:.0f} {unit}")]
        x = _LEFT + _WIDTH * tick / _TICKS
        parts.append(_text(x - 12, _TOP + _HEIGHT + 16, f"{last * tick / _TICKS / 3600:.1f} h"))
    for place, (name, points) in enumerate(curves.items()):
        colour = COLOURS[place % len(COLOURS)]
        path = " ".join(
            f"{_LEFT + _WIDTH * at / last:.1f},{_TOP + _HEIGHT - _HEIGHT * min(value / top, 1):.1f}"
            for at, value in points
        )
        x = _LEFT + _NAME_WIDTH * (place % _NAMED)
        y = _TOP + _HEIGHT + 26 + _NAME_HEIGHT * (place // _NAMED)
        parts += [
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>',
            f'<rect x="{x}" y="{y}" width="12" height="12" fill="{colour}"/>',
            _text(x + 16, y + 10, name),
        ]
    return "\n".join([*parts, "</svg>"])


def size(svg: str) -> tuple[int, int]:
    """Width and height of a chart."""
    words = svg.split('viewBox="0 0 ', 1)[1].split('"', 1)[0].split()
    return int(words[0]), int(words[1])


def bars(title: str, values: Mapping[str, float], places: int) -> str:
    """A bar for each name, with its number."""
    most = max(values.values(), default=0.0) or 1.0
    parts = _frame(title, _WIDTH + _LEFT + 20, _TOP + _BAR * len(values) + 10)
    for place, (name, value) in enumerate(values.items()):
        y = _TOP + _BAR * place
        width = (_WIDTH - _NAME - _RIGHT) * value / most
        colour = COLOURS[place % len(COLOURS)]
        parts += [
            _text(6, y + 15, name),
            f'<rect x="{_NAME}" y="{y + 3}" width="{width:.1f}" height="{_BAR - 8}" fill="{colour}"/>',
            _text(_NAME + width + 6, y + 15, f"{value:.{places}f}"),
        ]
    return "\n".join([*parts, "</svg>"])


def _frame(title: str, width: int, height: int) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"',
        f' aria-label="{escape(title, quote=True)}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="6" y="18" font-size="14">{escape(title)}</text>',
    ]


def _grid(y: float) -> str:
    return f'<path d="M{_LEFT} {y:.1f}H{_LEFT + _WIDTH}" stroke="#dddddd"/>'


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'
