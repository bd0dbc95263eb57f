"""Where promtool is: on PATH, else taken out of Debian's package `prometheus` once per user; no service is installed.

Gives a path, or the reason why there is none. A file appears in the cache only when it is whole.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import tempfile

PACKAGE = "prometheus"
MEND = "install promtool (Debian's package `prometheus` has it) and put it on PATH"
SECONDS = 240


class Missing(Exception):
    """There is no promtool; the text says why, and the mend."""


def path() -> str:
    """The program; Missing when there is none."""
    found = shutil.which("promtool")
    if found is not None:
        return found
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "muster"
    kept = sorted(cache.glob("promtool-*/promtool"))
    return str(kept[-1] if kept else _fetched(cache))


def _fetched(cache: pathlib.Path) -> pathlib.Path:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise Missing(f"there is no promtool, and no apt-get to take it from: {MEND}")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".promtool-") as name:
        folder = pathlib.Path(name)
        # apt's own user, which downloads, must be able to write here
        folder.chmod(0o777)
        if not _run(["apt-get", "-q", "download", PACKAGE], folder):
            _run(["apt-get", "-q", "update"], folder)  # the lists may be old, or not there
            if not _run(["apt-get", "-q", "download", PACKAGE], folder):
                raise Missing(f"apt-get cannot download the package {PACKAGE}: {MEND}")
        (package,) = folder.glob("*.deb")
        version = package.name.split("_")[1].partition("%")[0]
        if not _run(["dpkg", "-x", str(package), "x"], folder):
            raise Missing(f"dpkg cannot unpack {package.name}: {MEND}")
        final = cache / f"promtool-{version}"
        final.mkdir(exist_ok=True)
        (folder / "x" / "usr" / "bin" / "promtool").replace(final / "promtool")
    return final / "promtool"


def _run(argv: list[str], folder: pathlib.Path) -> bool:
    try:
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
