"""`python -m extender.sim day FILE... --queues FILE`: a recorded day with other queues, beside it with those of then.

Takes paths, gives a table and an exit status; must not decide. What cannot be read is a Fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TextIO

import yaml

from extender.core.ids import QueueName
from extender.core.model import Queue
from extender.core.queue_rehearsal import going_on
from extender.core.queue_warnings import Doubt
from extender.sim import day, logbook, replay
from extender.sim.day import Figures
from extender.sim.fields import Fault
from extender.sim.recorded import Recorded, recorded
from extender.wire import journal, rehearsals
from extender.wire.fields import DecodeError

COLUMNS = (
    "QUEUE",
    "STARTED",
    "AFTER",
    "WAITING",
    "AFTER",
    "MEAN WAIT",
    "AFTER",
    "EVICTED",
    "AFTER",
    "GPU HOURS",
    "AFTER",
)


def report(paths: Sequence[str], queues_path: str, out: TextIO, progress: Callable[[str], None]) -> None:
    """Both days, side by side; `progress` is told how far it is, in words, and that it is done by none."""
    queues = read_queues(queues_path)
    found, settings = _read(paths, progress)
    if found.first is None:
        raise Fault(paths[0], "nothing is on record there", "name a log that is longer")
    before = day.play(found, settings.engine(), (), lambda part: progress(f"with the queues of then: {part:.0%}"))
    words = f"with those of {queues_path}"
    after = day.play(found, settings.engine(), queues, lambda part: progress(f"{words}: {part:.0%}"))
    progress("")
    span = f"from {replay.time(found.first)} to {replay.time(found.last)}"
    print(
        f"{len(found.jobs)} pods {span}, decided anew with the queues of then, and with those of {queues_path}",
        file=out,
    )
    names = sorted(before.keys() | after.keys())
    for row in _aligned([COLUMNS, *(_row(name, before.get(name), after.get(name)) for name in names)]):
        print(row, file=out)
    for line in _loops(before, after):
        print(line, file=out)


def _loops(before: Mapping[QueueName, Figures], after: Mapping[QueueName, Figures]) -> Iterator[str]:
    """Warnings of queues in which evictions do not end, and whether they did before."""
    for name in sorted(after):
        often = sorted(after[name].often.items(), key=lambda one: (-one[1], one[0]))
        if often:
            then = before.get(name, Figures()).often
            same = f"as {len(then)} of its groups with the queues of then" if then else "not with the queues of then"
            yield f"warning: {Doubt.LOOPS}: {name}: {going_on(often)} within an hour, {same}"


def read_queues(path: str) -> list[Queue]:
    """The queues of a file."""
    try:
        with open(path, encoding="utf-8") as file:
            documents = [one for one in yaml.safe_load_all(file) if one is not None]
        return rehearsals.decode_queues({"spec": {"queues": [part for one in documents for part in _parts(one)]}})
    except (OSError, UnicodeDecodeError, yaml.YAMLError, DecodeError) as error:
        raise Fault(path, " ".join(str(error).split()), "give Queue objects as YAML") from error


def _parts(document: Any) -> list[Any]:
    items = document.get("items") if isinstance(document, dict) else None
    return items if isinstance(items, list) else [document]


def _read(paths: Sequence[str], progress: Callable[[str], None]) -> tuple[Recorded, journal.Settings]:
    """The workload of files that follow each other; where events are missing in between, of those behind."""
    books = [logbook.Book(path) for path in logbook.files(paths)]
    begins = max((n for n, book in enumerate(books) if book.header.begins != journal.FULL), default=0)
    first = books[begins]
    try:
        engine = first.header.engine()
    except journal.Unreadable as error:
        raise first.fault(1, str(error)) from error
    return recorded(_entries(books[begins:], progress), engine, first.header.at), first.header.settings


def _entries(books: Sequence[logbook.Book], progress: Callable[[str], None]) -> Iterator[journal.Entry]:
    for number, book in enumerate(books, 1):
        progress(f"reading file {number} of {len(books)}")
        for line in book.lines():
            if isinstance(line.found, journal.Entry):
                yield line.found


def _row(name: QueueName, before: Figures | None, after: Figures | None) -> tuple[str, ...]:
    both = (before or Figures(), after or Figures())
    cells = [
        *(str(len(one.waits)) for one in both),
        *(str(one.waiting) for one in both),
        *(f"{one.mean:.0f} s" for one in both),
        *(_evicted(one) for one in both),
        *(f"{one.used / 3600:.1f}" for one in both),
    ]
    return (name, *cells)


def _evicted(one: Figures) -> str:
    return f"{one.evicted} ({one.lost:.0f} s lost)" if one.evicted else "0"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    for row in rows:
        yield "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
