"""When each check is read, and what it comes to over a run.

Takes checks and moments, gives one result for each check; must not know what the kinds mean, but for
`bound_always`, which forgives what lasts no longer than one gang's binding or end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from extender.sim.checks import Verdict, read
from extender.sim.report import Check
from extender.sim.sight import Sight, Unread

#: counters are totals: without a time they are read at the end
_TOTALS = frozenset({"evicted", "evicted_total", "failed", "writes", "binding_posts", "answers"})
#: of what happened once it is asked whether it has happened by the end
_AT_LAST = frozenset({"order", "answer", "rejected"})


@dataclass(frozen=True, slots=True)
class Result:
    """What a check came to: the values seen, and the moment that decided. `read` is false if it cannot be read here."""

    check: Check
    held: bool
    seen: str
    read: bool = True

    @property
    def short(self) -> bool:
        """True when it was read and did not hold."""
        return self.read and not self.held


class Watch:
    """One check, read at the moments that it names. The first reading that falls short decides."""

    def __init__(self, check: Check, end: float, window: float) -> None:
        self.check = check
        self._window = window
        self._from, self._to = _moments(check, end)
        self._last: tuple[float, Verdict] | None = None
        self._short: tuple[float, Verdict] | None = None
        self._unread = ""
        self._since: float | None = None

    def look(self, now: float, sight: Sight) -> None:
        """Read the check if this is a moment of it."""
        if self._short is not None or not self._is_moment(now):
            return
        try:
            verdict = read(self.check.kind, self.check.fields, sight)
        except Unread as why:
            self._unread = str(why)
            return
        if self.check.kind == "bound_always":
            self._forgive(now, verdict)
        elif not verdict.held:
            self._short = (now, verdict)
        self._last = (now, verdict)

    def _is_moment(self, now: float) -> bool:
        return self._from <= now <= self._to and now != self.check.until

    def _forgive(self, now: float, verdict: Verdict) -> None:
        """What has fallen short for longer than the window has fallen short; between two looks nothing changes."""
        if self._since is not None and self._last is not None and now - self._since > self._window:
            self._short = (self._since, self._last[1])
        elif verdict.held:
            self._since = None
        elif self._since is None:
            self._since = now

    def result(self, loops_at: float | None) -> Result:
        """What it came to; nothing holds in a run that did not come to rest."""
        if loops_at is not None:
            return Result(self.check, False, f"no rest at {loops_at:g}: turn after turn something changes")
        if self._unread and self._short is None:
            return Result(self.check, False, self._unread, read=False)
        decided = self._short or self._last
        if decided is None:
            return Result(self.check, False, "was never read")
        when, verdict = decided
        return Result(self.check, self._short is None, f"{verdict.seen} at {when:g}")


class AnyOf:
    """Options, of which one must hold whole."""

    def __init__(self, check: Check, end: float, window: float) -> None:
        self.check = check
        self._options = [[watch_of(one, end, window) for one in option] for option in check.options]

    def look(self, now: float, sight: Sight) -> None:
        """Read all options."""
        for option in self._options:
            for watch in option:
                watch.look(now, sight)

    def result(self, loops_at: float | None) -> Result:
        """The first option that held, or what each fell short of; one that cannot be read may have held."""
        short, unread = [], False
        for number, option in enumerate(self._options, start=1):
            results = [watch.result(loops_at) for watch in option]
            first = next((result for result in sorted(results, key=_rank) if not result.held), None)
            if first is None:
                seen = "; ".join(result.seen for result in results)
                return Result(self.check, True, f"option {number}: {seen}")
            unread = unread or not any(result.short for result in results)
            short.append(f"option {number}: {first.check}: {first.seen}")
        return Result(self.check, False, "; ".join(short), read=not unread)


def watch_of(check: Check, end: float, window: float) -> Watch | AnyOf:
    """The watch for a check."""
    return (AnyOf if check.options else Watch)(check, end, window)


def _rank(result: Result) -> bool:
    """What fell short is named before what cannot be read."""
    return not result.short


def _moments(check: Check, end: float) -> tuple[float, float]:
    """The first and the last moment at which a check is read."""
    if check.at is not None:
        return check.at, check.at
    if check.by is None and check.until is None and check.kind in _TOTALS | _AT_LAST:
        return end, end
    return check.by or 0.0, end if check.until is None else check.until


def results(watches: Iterable[Watch | AnyOf], loops_at: float | None) -> list[Result]:
    """What the checks came to."""
    return [watch.result(loops_at) for watch in watches]
