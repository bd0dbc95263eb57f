"""All formats: which one a file is of is seen by its columns.

Takes paths and a seed, gives a Trace; must not know what a column means. A bad row is named and left out, and all
others are taken; of two jobs with one name the second is bad.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from extender.sim.fields import Fault
from extender.sim.traces import dlrm, made, openb, own, philly, shockwave, sia, table, tiresias
from extender.sim.traces.common import Ask, Bad, Host, Job, Source, Trace
from extender.sim.traces.table import BadRow, Row, Table

T = TypeVar("T")


def _as_they_are(jobs: Iterable[Job], seed: int) -> list[Job]:
    return list(jobs)


@dataclass(frozen=True, slots=True)
class JobFormat:
    """A file of jobs."""

    name: str
    columns: frozenset[str]
    takes: str
    makes: str
    job: Callable[[Row, int, int], Job]
    gangs: Callable[[Iterable[Job], int], list[Job]] = _as_they_are
    #: columns of a file that names none
    unnamed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostFormat:
    """A file of hosts."""

    name: str
    columns: frozenset[str]
    takes: str
    makes: str
    host: Callable[[Row, int, int], Host]


Format = JobFormat | HostFormat
#: in the order in which they are tried: one with more columns before one that has some of them
FORMATS: tuple[Format, ...] = (
    JobFormat("openb", openb.PODS, openb.TAKES, openb.MAKES, openb.pod, openb.gangs),
    HostFormat("openb nodes", openb.NODES, openb.NODES_TAKES, "nothing", openb.node),
    JobFormat("DLRM", dlrm.COLUMNS, dlrm.TAKES, dlrm.MAKES, dlrm.instance, dlrm.gangs),
    JobFormat("Philly arrivals", philly.ARRIVALS, philly.ARRIVALS_TAKE, philly.ARRIVALS_MAKE, philly.arrival),
    JobFormat("Philly runtimes", philly.RUNTIMES, philly.RUNTIMES_TAKE, philly.RUNTIMES_MAKE, philly.runtime),
    JobFormat("Sia", sia.COLUMNS, sia.TAKES, sia.MAKES, sia.job),
    JobFormat(
        *("Shockwave", shockwave.COLUMNS, shockwave.TAKES, shockwave.MAKES, shockwave.job),
        unnamed=shockwave.UNNAMED,
    ),
    JobFormat("Tiresias", tiresias.COLUMNS, tiresias.TAKES, tiresias.MAKES, tiresias.job),
    JobFormat("own jobs", own.JOBS, own.TAKES, own.MAKES, own.job),
    HostFormat("own hosts", own.HOSTS, own.HOSTS_TAKE, own.HOSTS_MAKE, own.host),
)
#: where no file names hosts there are so many for each GPU that the largest job asks for
_HOSTS_OF_LARGEST = 4
_FEWEST_HOSTS = 8


def load(paths: Sequence[str], seed: int, hosts: int | None = None) -> Trace:
    """What all files say together; `hosts`: so many are made up, or, where files name hosts, the first ones taken."""
    sources: list[Source] = []
    bad: list[Bad] = []
    jobs: list[Job] = []
    found: list[Host] = []
    for path in paths:
        read = table.read(path)
        format = _format_of(read)
        sources.append(Source(path, format.name, len(read.lines), format.takes, format.makes))
        if isinstance(format, HostFormat):
            found += _rows(read, format.host, (), seed, bad)
        else:
            jobs += format.gangs(_rows(read, format.job, format.unnamed, seed, bad), seed)
    jobs.sort(key=lambda job: (job.submitted, job.name))
    jobs = _unique(jobs, lambda job: job.name, bad)
    found = _unique(found, lambda host: host.name, bad)
    if not jobs:
        raise Fault(paths[0] if paths else "trace", "there is no job in it", "name a file of jobs too")
    rules = [made.RACKS_RULE]
    if not found:
        found = made.hosts(hosts or _enough(jobs))
        rules.insert(0, f"hosts: {len(found)} of {made.HOST_GPUS} GPUs, 192 cores and 2 TiB")
    elif hosts is not None and hosts < len(found):
        found = _spread(found, hosts)
        rules.insert(0, f"hosts: {hosts} of those that the file names, evenly spread over it")
    jobs = _fitting(jobs, found, bad)
    if not jobs:
        raise Fault(paths[0], "none of its jobs fits on the hosts", "give more or larger hosts")
    return Trace(tuple(sources), tuple(jobs), made.in_racks(found), tuple(bad), seed, tuple(rules))


def _format_of(read: Table) -> Format:
    columns = set(read.columns)
    for format in FORMATS:
        if columns:
            if format.columns <= columns:
                return format
        elif isinstance(format, JobFormat) and len(read.lines[0][1]) == len(format.unnamed):
            return format
    raise Fault(
        read.path,
        f"no format has the columns {', '.join(read.columns)[:200] or 'of its first line'}",
        "see `trace formats` for those that are known",
    )


def _rows(
    read: Table, make: Callable[[Row, int, int], T], columns: Sequence[str], seed: int, bad: list[Bad]
) -> list[T]:
    found = []
    for place, (line, row) in enumerate(read.rows(columns)):
        try:
            found.append(make(row, place, seed))
        except BadRow as error:
            bad.append(Bad(read.path, line, str(error)))
    return found


def _unique(items: Iterable[T], name_of: Callable[[T], str], bad: list[Bad]) -> list[T]:
    there: dict[str, T] = {}
    every = list(items)
    for item in every:
        there.setdefault(name_of(item), item)
    bad += [Bad("", 0, f"a second {name_of(item)}") for item in every if there[name_of(item)] is not item]
    return list(there.values())


def _fitting(jobs: Iterable[Job], hosts: Sequence[Host], bad: list[Bad]) -> list[Job]:
    """Jobs that could run if they were alone."""
    found = []
    room: dict[Ask, int] = {}
    for job in jobs:
        key = job.ask
        if key not in room:
            room[key] = sum(host.room(job.ask) for host in hosts)
        if room[key] >= job.pods:
            found.append(job)
        else:
            bad.append(Bad("", 0, f"{job.name}: of its {job.pods} pods {room[key]} fit on the empty hosts"))
    return found


def _enough(jobs: Iterable[Job]) -> int:
    largest = max(job.gpus for job in jobs)
    return max(_FEWEST_HOSTS, _HOSTS_OF_LARGEST * -(-largest // made.HOST_GPUS))


def _spread(found: Sequence[Host], number: int) -> list[Host]:
    return [found[place * len(found) // number] for place in range(number)]
