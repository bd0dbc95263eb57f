"""Charts as PNGs, photographed by a Chromium where there is one.

Takes charts as SVG by name, writes files; says why when it cannot. Must not be needed by anything: the page has all
charts. Two versions of Chromium may give different bytes.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Mapping

from extender.sim.trial import charts

NAMES = ("chromium", "chromium-browser", "google-chrome")
_SECONDS = 60
#: pixels by unit of the chart
_SCALE = 2
#: a window that is less high shows nothing
_LEAST_HEIGHT = 150


def find() -> str | None:
    """The program, by $CHROMIUM or on the PATH."""
    return os.environ.get("CHROMIUM") or next((path for name in NAMES if (path := shutil.which(name))), None)


def take(svgs: Mapping[str, str], folder: pathlib.Path) -> str:
    """Write a PNG for each chart; why there are none, if there are none."""
    program = find()
    if program is None:
        return f"no PNGs: there is no {', '.join(NAMES)} on the PATH, and CHROMIUM names none; the page has all charts"
    with tempfile.TemporaryDirectory() as work:
        for name, svg in svgs.items():
            page = pathlib.Path(work) / f"{name}.html"
            page.write_text(f"<!doctype html><style>body{{margin:0}}</style>{svg}", encoding="utf-8")
            try:
                subprocess.run(  # noqa: S603 - a browser that the user has, on a page of our own
                    _argv(program, work, page, folder / f"{name}.png", charts.size(svg)),
                    check=True, capture_output=True, timeout=_SECONDS,
                )  # fmt: skip
            except (OSError, subprocess.SubprocessError) as error:
                return f"no PNGs: {program} failed ({type(error).__name__}); the page has all charts"
    return ""


def _argv(program: str, work: str, page: pathlib.Path, path: pathlib.Path, size: tuple[int, int]) -> list[str]:
    # Chromium's sandbox does not run as root, and it loads nothing but this page
    flags = ["--headless=new", "--disable-gpu", "--no-sandbox", "--hide-scrollbars", "--no-first-run"]
    return [
        *(program, *flags, f"--user-data-dir={work}/profile", "--host-resolver-rules=MAP * ~NOTFOUND"),
        *(f"--force-device-scale-factor={_SCALE}", f"--window-size={size[0]},{max(size[1], _LEAST_HEIGHT)}"),
        *(f"--screenshot={path.resolve()}", page.resolve().as_uri()),
    ]
