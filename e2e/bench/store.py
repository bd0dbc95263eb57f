"""The file of results: parts that are measured anew replace their own, the others stay.

Takes a path and results by key; gives a JSON object. Must not know what the keys mean, but for `flags`.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any


class Unreadable(Exception):
    """The file is no JSON object; it is not overwritten."""


def read(path: pathlib.Path, flags: dict[str, Any]) -> dict[str, Any]:
    """What stays in the file: all of it if it was measured under the same flags, else nothing but these."""
    if not path.exists():
        return {"flags": flags}
    try:
        found = json.loads(path.read_text())
    except ValueError as error:
        raise Unreadable(f"{path} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise Unreadable(f"{path} is no JSON object")
    return found if found.get("flags") == flags else {"flags": flags}


def write(path: pathlib.Path, results: dict[str, Any]) -> None:
    """Replace the file as a whole: an interruption leaves the old one."""
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(results, indent=1, allow_nan=False) + "\n")
    beside.replace(path)
