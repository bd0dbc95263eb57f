"""Rows of a text file with columns, plain or gzip, and typed cells.

Takes a path, gives rows one by one; must not know which columns there are. A file that cannot be read is a Fault; a
cell that makes no sense is a BadRow, which ends its row only.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import math
import pathlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from extender.sim.fields import Fault

#: bytes of a file, unpacked, and rows: more is a mistake
MOST_BYTES = 256 * 2**20
MOST_ROWS = 1_000_000
#: amounts and times beyond are mistakes: ten years in seconds, and as many millicores or MiB
MOST = 10.0 * 366 * 24 * 3600
#: names are cut there
_LONGEST_NAME = 63

Row = Mapping[str, str]


class BadRow(Exception):
    """A row that is left out, with what is wrong."""


@dataclass(frozen=True, slots=True)
class Table:
    """A file: its columns, and its rows with their lines. A file without a header has no columns."""

    path: str
    columns: tuple[str, ...]
    lines: Sequence[tuple[int, Sequence[str]]]

    def rows(self, columns: Sequence[str] = ()) -> Iterator[tuple[int, Row]]:
        """Line and cells by column; a row with fewer cells lacks the last ones."""
        names = self.columns or tuple(columns)
        for line, cells in self.lines:
            yield line, dict(zip(names, cells, strict=False))


def read(path: str) -> Table:
    """A file with commas and a header, or with tabs and without one."""
    text = _text(path)
    first = text.split("\n", 1)[0]
    tabs = "\t" in first
    reader = csv.reader(io.StringIO(text, newline=""), delimiter="\t" if tabs else ",")
    try:
        found = [(reader.line_num, cells) for cells in itertools.islice(reader, MOST_ROWS + 2) if cells]
    except csv.Error as error:
        raise Fault(path, f"line {reader.line_num}: {error}", "give a text file with columns") from error
    if len(found) > MOST_ROWS + 1:
        raise Fault(path, f"it has more than {MOST_ROWS} rows", "cut it")
    if not found:
        raise Fault(path, "it is empty", "give a trace")
    if tabs:
        return Table(path, (), found)
    return Table(path, tuple(cell.strip() for cell in found[0][1]), found[1:])


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            with gzip.GzipFile(fileobj=file) if packed else file as plain:
                data = plain.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise Fault(path, " ".join(str(error).split()), "name a readable file, plain or gzip") from error
    if len(data) > MOST_BYTES:
        raise Fault(path, f"it has more than {MOST_BYTES} bytes", "cut it")
    return data.decode("utf-8-sig", "replace")


def name(row: Row, column: str) -> str:
    """A text that is not empty; characters that names of objects do not have become hyphens."""
    found = row.get(column, "").strip()
    if not found:
        raise BadRow(f"{column} is missing")
    return "".join(char if char.isascii() and char.isalnum() else "-" for char in found)[:_LONGEST_NAME].lower()


def number(row: Row, column: str, least: float = 0.0, default: float | None = None) -> float:
    """A number from `least` on; what is missing is the default, or bad where there is none."""
    text = row.get(column, "").strip()
    if not text:
        if default is None:
            raise BadRow(f"{column} is missing")
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value <= MOST:
        raise BadRow(f"{column} is {text[:40]!r}, and not a number from {least:g} to {MOST:g}")
    return value


def whole(row: Row, column: str, least: int = 0, most: int = 2**31, default: int | None = None) -> int:
    """A whole number in these bounds."""
    value = number(row, column, least, default)
    if value != int(value) or value > most:
        raise BadRow(f"{column} is {row.get(column, '')[:40]!r}, and not a whole number from {least} to {most}")
    return int(value)


def file_name(path: str) -> str:
    """Without folders."""
    return pathlib.PurePath(path).name
