"""Writes the generated pages of this folder: `python -m docs.generate`, from the root of the repository."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping

from docs import troubles

FOLDER = pathlib.Path(__file__).resolve().parent
PAGES: Mapping[str, Callable[[], str]] = {"troubleshooting.md": troubles.page}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page())
