"""Columns and colours for people.

Takes cells, gives lines; must not let a control character of a cluster's object reach the terminal, nor colour what no
person reads.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TextIO

BOLD, DIM, GOOD, BAD, DOUBTFUL = "1", "2", "32", "31", "33"
#: colours of phases, states and kinds of Events
OF_WORD: Mapping[str, str] = {
    "Running": GOOD,
    "Open": GOOD,
    "Normal": GOOD,
    "Pending": DOUBTFUL,
    "Closing": DOUBTFUL,
    "Warning": DOUBTFUL,
    "Closed": BAD,
    "Ended": DIM,
}


@dataclass(frozen=True, slots=True)
class Paint:
    """Colours, or none."""

    on: bool

    def __call__(self, style: str, text: str) -> str:
        return f"\033[{style}m{text}\033[0m" if self.on and style and text else text

    def word(self, text: str) -> str:
        """A word in its own colour."""
        return self(OF_WORD.get(text, ""), text)


def coloured(out: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether whoever reads this sees colours, and wants to (https://no-color.org)."""
    return out.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def plain(text: object) -> str:
    """The text of a cell: on one line, with control characters written out."""
    return "".join(
        one if one.isprintable() else " " if one in "\n\t" else one.encode("unicode_escape").decode()
        for one in str(text)
    )


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], paint: Paint) -> Iterator[str]:
    """A head and rows, each column as wide as need be; no line for no rows."""
    cells = [[plain(cell) for cell in row] for row in rows]
    if not cells:
        return
    widths = [max(len(row[number]) for row in [list(columns), *cells]) for number in range(len(columns))]
    yield paint(BOLD, _line(list(columns), widths, Paint(False)))
    for row in cells:
        yield _line(row, widths, paint)


def _line(row: Sequence[str], widths: Sequence[int], paint: Paint) -> str:
    last = len(row) - 1
    padded = (
        paint.word(cell) + " " * (0 if number == last else width - len(cell))
        for number, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return "   ".join(padded).rstrip()


def fields(pairs: Iterable[tuple[str, str]], paint: Paint) -> Iterator[str]:
    """Names and values one below the other; a name that repeats is said once."""
    told = [(name, plain(value)) for name, value in pairs]
    width = max((len(name) for name, _ in told), default=0)
    before = ""
    for name, value in told:
        shown = "" if name == before else name
        yield f"  {paint(BOLD, shown)}{' ' * (width - len(shown))}  {value}"
        before = name
