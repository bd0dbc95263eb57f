"""Where what is built for kind is kept, and how steps run.

Takes names and the files that decide a result; gives its folder in the per-user cache, a lock, and programs run with
their progress told. A result is in its place only when it is whole. Must not know what is built.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from e2e.cluster import build, steps


class KindError(Exception):
    """A step could not be done; the text names what to do."""


def root() -> pathlib.Path:
    """The folder of all that kind needs."""
    folder = build.cache_root() / "kind"
    folder.mkdir(exist_ok=True)
    return folder


def digest(files: Iterable[pathlib.Path], *words: str) -> str:
    """Twelve hex digits that change when a file's name or content, or a word, does."""
    whole = hashlib.sha256()
    for path in sorted(files):
        whole.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
    for word in words:
        whole.update(f"{word}\0".encode())
    return whole.hexdigest()[:12]


def once(path: pathlib.Path, make: Callable[[pathlib.Path], None]) -> pathlib.Path:
    """`path`, made now if it is missing: `make` writes another name, which is renamed when it is whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with build.lock(path.parent / f".{path.name}.lock"):
        if not path.exists():
            temporary = path.with_name(f".{path.name}.{os.getpid()}")
            try:
                make(temporary)
                temporary.replace(path)
            finally:
                shutil.rmtree(temporary) if temporary.is_dir() else temporary.unlink(missing_ok=True)
    return path


@contextlib.contextmanager
def scratch() -> Iterator[pathlib.Path]:
    """A temporary folder on the cache's own disk: /tmp may be small."""
    with tempfile.TemporaryDirectory(dir=root(), prefix=".work-") as name:
        yield pathlib.Path(name)


def run(what: str, argv: Sequence[str], *, env: Mapping[str, str] | None = None, mend: str = "") -> None:
    """Run one slow step: says that it begins, that it goes on, and how long it took; a failure shows its last lines."""
    say(what)
    started = time.monotonic()
    tail = steps.run(
        argv, lambda seconds: say(f"{what}: {seconds:.0f} s"), env=None if env is None else {**os.environ, **env}
    )
    if tail is not None:
        raise KindError(f"{what} failed:\n{tail}{mend}")
    say(f"{what}: done in {time.monotonic() - started:.0f} s")


def say(text: str) -> None:
    """One line of progress."""
    print(f"[kind] {text}", file=sys.stderr, flush=True)
