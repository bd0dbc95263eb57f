"""The matrix that `nvidia-smi topo -m` prints, and the node's annotation that tells it on.

Takes text, gives Links or raises TopologyError, which names the line; must not guess: a matrix that is cut off, or
says two things of one pair, is refused.

The matrix has a header of GPUs and network cards, then affinities in words; a row for each GPU with a cell for each
device, then its affinities; rows of the network cards, which are not read and may be cut off; legends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import orjson

from extender.core.links import MAX_GPUS, NVLINK, PATHS, SELF, Links
from extender.wire.fields import Reader

ANNOTATION = "muster.dev/gpu-topology"
#: bytes of a text that is read at all: far more than 64 GPUs and as many network cards print
MAX_TEXT = 2**20
_VERSION = 1
_GPU = re.compile(r"GPU[0-9]{1,3}", re.ASCII)
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_NUMA = re.compile(r"[0-9]{1,4}(?=$|[-,])", re.ASCII)
#: where the header stops naming devices
_WORDS = ("CPU", "NUMA", "GPU")
#: what drivers before 390 called SYS
_OLD = {"SOC": "SYS"}


class TopologyError(ValueError):
    """A matrix that cannot be read; `line` counts from 1."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}")
        self.line = line


def parse(text: str) -> Links:
    """The links of the GPUs that the text shows."""
    if len(text) > MAX_TEXT:
        raise TopologyError(1, f"longer than {MAX_TEXT} characters: this is no output of nvidia-smi topo -m")
    lines = enumerate(_COLOURS.sub("", text).splitlines(), 1)
    top, devices = _header(lines)
    columns = [number for number, name in enumerate(devices) if _GPU.fullmatch(name)]
    gpus = [devices[number] for number in columns]
    rows: dict[str, tuple[int, list[str], list[str]]] = {}
    last = top
    for line, words in _rows(lines, devices):
        name, last = words[0], line
        if name in rows:
            raise TopologyError(line, f"{name} has a second row")
        if name in gpus:
            cells = [_cell(line, name, word) for word in words[1 : len(devices) + 1]]
            if len(cells) < len(devices):
                raise TopologyError(line, f"the row of {name} is cut off: {len(cells)} of {len(devices)} cells")
            rows[name] = (line, [cells[number] for number in columns], words[len(devices) + 1 :])
    for name in gpus:
        if name not in rows:
            raise TopologyError(last, f"there is no row of {name} up to here")
    _check(gpus, rows)
    return Links(tuple(tuple(rows[name][1]) for name in gpus), tuple(_numa(rows[name][2]) for name in gpus))


def _header(lines: Iterator[tuple[int, str]]) -> tuple[int, list[str]]:
    """The line that names the devices: the first that begins with a GPU and has no cells."""
    for line, text in lines:
        words = text.split()
        if not words or not _GPU.fullmatch(words[0]):
            continue
        if len(words) > 1 and _is_cell(words[1]):
            raise TopologyError(line, f"a row of {words[0]} comes before the header that names the columns")
        end = next((n for n, word in enumerate(words) if word in _WORDS), len(words))
        devices = words[:end]
        gpus = [name for name in devices if _GPU.fullmatch(name)]
        if len(set(devices)) < len(devices):
            raise TopologyError(line, "a device has two columns")
        if len(gpus) > MAX_GPUS:
            raise TopologyError(line, f"{len(gpus)} GPUs, and no node has more than {MAX_GPUS}")
        return line, devices
    raise TopologyError(1, "no header that begins with GPU0: this is no output of nvidia-smi topo -m")


def _rows(lines: Iterator[tuple[int, str]], devices: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Rows of devices; the first line that is none of them ends the matrix."""
    for line, text in lines:
        words = text.split()
        if not words:
            continue
        if words[0] not in devices:
            if _GPU.fullmatch(words[0]):
                raise TopologyError(line, f"{words[0]} has no column")
            return
        yield line, words


def _is_cell(word: str) -> bool:
    return word == SELF or word in PATHS or word in _OLD or NVLINK.fullmatch(word) is not None


def _cell(line: int, name: str, word: str) -> str:
    if not _is_cell(word):
        raise TopologyError(line, f"{word[:20]!r} in the row of {name} is no link")
    return _OLD.get(word, word)


def _check(gpus: list[str], rows: dict[str, tuple[int, list[str], list[str]]]) -> None:
    """X is where a GPU meets itself and nowhere else, and both rows of a pair say the same."""
    for one, name in enumerate(gpus):
        line, cells, _ = rows[name]
        for other, cell in enumerate(cells):
            if (cell == SELF) != (one == other):
                raise TopologyError(line, f"{cell} between {name} and {gpus[other]}")
            back = rows[gpus[other]][1][one]
            if other < one and cell != back:
                raise TopologyError(line, f"{cell} from {name} to {gpus[other]}, and {back} the other way")


def _numa(words: list[str]) -> int | None:
    """The first NUMA node of a row's affinities, which begin with those of the CPU."""
    found = _NUMA.match(words[1]) if len(words) > 1 else None
    return int(found[0]) if found is not None else None


# --- the annotation --------------------------------------------------------------------------------


def encode(links: Links) -> str:
    """The annotation's text."""
    content = {"version": _VERSION, "links": [list(row) for row in links.rows], "numa": list(links.numa)}
    return orjson.dumps(content).decode()


def decode(reader: Reader, text: str) -> Links | None:
    """What an annotation says; None, with the problem noted, when it cannot be read."""
    try:
        content = orjson.loads(text)
        rows = content["links"]
        names = tuple(tuple(str(cell) for cell in row) for row in rows)
        numa = tuple(content.get("numa", ()))
        sound = content["version"] == _VERSION and len(names) <= MAX_GPUS and _sound(names, numa)
    except (ValueError, KeyError, TypeError, AttributeError):
        sound = False
    if not sound:
        reader.say(f"metadata.annotations[{ANNOTATION}]", "no GPU topology that can be read")
        return None
    return Links(names, numa)


def _sound(names: tuple[tuple[str, ...], ...], numa: tuple[object, ...]) -> bool:
    size = range(len(names))
    square = all(len(row) == len(names) and all(map(_is_cell, row)) for row in names)
    return (
        square
        and all((names[a][b] == SELF) == (a == b) and names[a][b] == names[b][a] for a in size for b in size)
        and len(numa) in (0, len(names))
        and all(one is None or (type(one) is int and one >= 0) for one in numa)
    )
