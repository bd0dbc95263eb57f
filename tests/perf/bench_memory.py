"""Bytes per waiting group: `python -m tests.perf.bench_memory`. Prints, never asserts.

One engine for each number of groups; what 5000 nodes and 200 queues take without any is taken off. When the
figures of a column are equal, memory grows linearly.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

from extender.core.engine import Engine
from tests.perf import backlogs

WORLDS: dict[str, Callable[[int], Engine]] = {
    "equal pods": backlogs.equal_pods,
    "equal gangs of 4": backlogs.equal_gangs,
    "no two alike": backlogs.different,
    "realistic mix": backlogs.realistic,
}


def held(build: Callable[[int], Engine], waiting: int) -> int:
    """Bytes that an engine holds which has looked at all groups twice."""
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    engine = build(waiting)
    backlogs.all_looked_at(engine, 100.0)
    gc.collect()
    return tracemalloc.get_traced_memory()[0] - before


def main() -> None:
    """Run and print."""
    tracemalloc.start()
    numbers = (2_500, 5_000, 10_000)
    print(f"{'bytes per waiting group of':<26}" + "".join(f"{number:>10}" for number in numbers))
    for name, build in WORLDS.items():
        without = held(build, 0)
        each = [(held(build, number) - without) // number for number in numbers]
        print(f"{name:<26}" + "".join(f"{one:>10}" for one in each), flush=True)


if __name__ == "__main__":
    main()
