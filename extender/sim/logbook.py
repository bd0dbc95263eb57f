"""Files of the decision log: which there are, and their lines.

Takes paths, gives headers and entries with the line that each stands on; must not know what they mean. What is wrong
with a file is a Fault that names it and the line.
"""

from __future__ import annotations

import pathlib
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from extender.sim.fields import Fault
from extender.wire import journal

_GZIP = b"\x1f\x8b"
#: zlib's own word for a gzip stream
_WBITS = 31
_PIECE = 2**20
#: a line is no longer, packed or not
_LONGEST = 2**31


@dataclass(frozen=True, slots=True)
class Line:
    """What stands on one line of a file."""

    number: int
    found: journal.Entry | journal.Lost


def files(paths: Sequence[str]) -> list[pathlib.Path]:
    """The files that these paths name; of a folder all of its log, the oldest first."""
    found: list[pathlib.Path] = []
    for text in paths:
        path = pathlib.Path(text)
        if path.is_dir():
            inside = sorted(one for one in path.iterdir() if one.name.endswith((".jsonl", ".jsonl.gz")))
            if not inside:
                raise Fault(text, "the folder has no file of a decision log", "name the folder of --decision-log")
            found += inside
        else:
            found.append(path)
    return found


class Book:
    """One file, from its beginning to its end."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._lines = self._read()
        number, text = next(self._lines, (1, b""))
        try:
            self.header = journal.read_header(text)
        except journal.Unreadable as error:
            raise self.fault(number, str(error)) from error

    def lines(self) -> Iterator[Line]:
        """All lines but the header."""
        for number, text in self._lines:
            try:
                yield Line(number, journal.read_line(text))
            except journal.Unreadable as error:
                raise self.fault(number, str(error)) from error

    def _read(self) -> Iterator[tuple[int, bytes]]:
        number, left = 0, b""
        try:
            with self._path.open("rb") as file:
                for piece in _unpacked(file):
                    *whole, left = (left + piece).split(b"\n")
                    for text in whole:
                        number += 1
                        yield number, text
                    if len(left) > _LONGEST:
                        raise self.fault(number + 1, "the line does not end")
        except OSError as error:
            raise Fault(
                str(self._path), f"cannot be read ({error.strerror})", "name a file of a decision log"
            ) from error
        except zlib.error as error:
            raise self.fault(number + 1, f"what is packed is damaged ({error})") from error
        if left:
            raise self.fault(number + 1, "the last line is cut off")

    def fault(self, number: int, what: str) -> Fault:
        """What is wrong on a line."""
        return Fault(f"{self._path}, line {number}", what, "what stands before this line can be used without it")


def _unpacked(file: BinaryIO) -> Iterator[bytes]:
    """The contents in pieces. A stream without an end is that of a file that is still being written, or was last."""
    piece = file.read(_PIECE)
    if not piece.startswith(_GZIP):
        while piece:
            yield piece
            piece = file.read(_PIECE)
        return
    unpacking = zlib.decompressobj(_WBITS)
    while piece:
        yield unpacking.decompress(piece)
        piece = file.read(_PIECE)
