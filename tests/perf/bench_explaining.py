"""What explanations cost of a cycle: `python -m tests.perf.bench_explaining [--waiting 10000]`. Prints, never asserts.

A cycle over groups that wait, each with an object of ours, on 5000 nodes in 200 queues. What belongs to explaining is
what is done for people alone: statements for objects of groups and queues, and the history of reasons; that a group is
refused, and why, is deciding. The first cycle states all of them, later ones find that nothing is new.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from extender.core import messages, queue_stating, vacancy
from extender.core.cycle import Cycle
from extender.core.planning import Entry
from tests.builders import make_group
from tests.perf.backlogs import equal_gangs, node_renewed, realistic

#: methods in which nothing is decided
EXPLAINING = (
    (Cycle, "_state"),
    (Entry, "remember"),
    (vacancy.Vacancy, "statements"),
    (queue_stating.Statements, "due"),
)


class Spent:
    """CPU seconds in the methods above, in all."""

    def __init__(self) -> None:
        self.seconds = 0.0
        for owner, name in EXPLAINING:
            setattr(owner, name, self._timed(getattr(owner, name)))

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            begun = time.thread_time()
            try:
                return method(*arguments)
            finally:
                self.seconds += time.thread_time() - begun

        return timed


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waiting", type=int, default=10_000)
    waiting = parser.parse_args().waiting
    spent = Spent()
    print(f"{'a cycle: CPU ms, of these for explanations, share':<60} {'ms':>8} {'ms':>8} {'%':>6}")
    for say, build in (("equal gangs of 4", equal_gangs), ("a realistic mix", realistic)):
        engine = build(waiting, None)
        for key in [key for key in engine.entries if not key.lone]:
            group = make_group(key.name, len(engine.world.members[key]), namespace=key.namespace)
            engine.handle(messages.GroupSeen(group), 50.0)
        for number in range(4):
            now = 100.0 + 10 * number
            node_renewed(engine, now)
            spent.seconds, begun = 0.0, time.thread_time()
            engine.handle(messages.Tick(), now)
            whole = time.thread_time() - begun
            label = f"{waiting} waiting groups, {say}, {'first' if not number else 'later'}"
            print(f"{label:<60} {1e3 * whole:>8.1f} {1e3 * spent.seconds:>8.1f} {100 * spent.seconds / whole:>6.1f}")


if __name__ == "__main__":
    main()
