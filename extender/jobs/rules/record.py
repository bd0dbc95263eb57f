"""What the controller remembers of a job, as the text that stands in its status, and back.

Takes a Record, gives a text of JSON, empty when there is nothing to remember; takes such a text. Must not raise for
what it reads: a part that is not sound counts as forgotten, the rest is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from extender.jobs.rules.model import Loss, Record, Slot, Trouble

#: the key in status.controlledResources
KEY = "muster.dev/record"
_MAX_INDEX = 100_000
_MAX_COMMANDS = 16
_MAX_COUNT = 2**31 - 1


def encode_record(record: Record) -> str:
    """The text of a record: what is empty is left out, the order is fixed."""
    parts: dict[str, Any] = {
        "floors": dict(sorted(record.floors.items())),
        "seen": {task: ranges(found) for task, found in sorted(record.seen.items()) if found},
        "done": {task: ranges(found) for task, found in sorted(record.done.items()) if found},
        "losses": [
            [task, index, loss.floor, loss.times, loss.at, loss.node, loss.waits]
            for (task, index), loss in sorted(record.losses.items())
        ],
        "nodes": {node: [trouble.times, trouble.at] for node, trouble in sorted(record.nodes.items())},
        "answered": sorted(record.answered),
        "commands": list(record.commands),
        "restartedAt": record.restarted_at,
        "run": record.run,
    }
    said = {name: part for name, part in parts.items() if part}
    return orjson.dumps(said).decode() if said else ""


def decode_record(text: str) -> Record:
    """The record that a text says."""
    try:
        found = orjson.loads(text) if text else {}
    except orjson.JSONDecodeError:
        found = {}
    if not isinstance(found, dict):
        return Record()
    return Record(
        floors={name: number for name, number in _mapping(found, "floors") if _is_count(number)},
        seen={name: among for name, said in _mapping(found, "seen") if (among := indexes(said))},
        done={name: among for name, said in _mapping(found, "done") if (among := indexes(said))},
        losses=dict(_losses(found.get("losses"))),
        nodes=dict(_troubles(found)),
        answered=frozenset(_texts(found.get("answered"))),
        commands=tuple(_texts(found.get("commands")))[-_MAX_COMMANDS:],
        restarted_at=_time(found.get("restartedAt")),
        run=found["run"] if _is_count(found.get("run")) else 0,
    )


def ranges(found: Iterable[int]) -> str:
    """Numbers as ranges: `0-3,7`."""
    runs: list[list[int]] = []
    for number in sorted(found):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def indexes(text: object) -> frozenset[int]:
    """The numbers that ranges say; none at all when they are not sound."""
    found: set[int] = set()
    if not isinstance(text, str):
        return frozenset()
    for run in text.split(","):
        low, _, high = run.partition("-")
        high = high or low
        if not (low.isascii() and high.isascii() and low.isdigit() and high.isdigit()):
            return frozenset()
        if len(high) > 6 or int(high) >= _MAX_INDEX or int(low) > int(high):
            return frozenset()
        found.update(range(int(low), int(high) + 1))
    return frozenset(found)


def _mapping(found: Mapping[str, Any], key: str) -> Iterable[tuple[str, Any]]:
    part = found.get(key)
    return part.items() if isinstance(part, dict) else ()


def _texts(found: object) -> list[str]:
    return [text for text in found if isinstance(text, str)] if isinstance(found, list) else []


def _is_count(found: object) -> bool:
    return type(found) is int and 0 <= found <= _MAX_COUNT


def _time(found: object) -> float:
    return float(found) if isinstance(found, int | float) and 0 <= found < 1e12 else 0.0


def _losses(found: object) -> Iterable[tuple[Slot, Loss]]:
    for row in found if isinstance(found, list) else ():
        if not isinstance(row, list) or len(row) != 7:
            continue
        task, index, floor, times, at, node, waits = row
        if isinstance(task, str) and isinstance(node, str) and all(_is_count(one) for one in (index, floor, times)):
            yield (task, index), Loss(floor, times, _time(at), node, waits is True)


def _troubles(found: Mapping[str, Any]) -> Iterable[tuple[str, Trouble]]:
    for node, row in _mapping(found, "nodes"):
        if isinstance(row, list) and len(row) == 2 and _is_count(row[0]):
            yield node, Trouble(row[0], _time(row[1]))
