"""The fewest evictions: an oracle that tries every set of victims agrees on small clusters, and all comes to rest.

The oracle knows the rules in its own words: it counts GPUs, not rows, and tries orders instead of sorting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from extender.core.reasons import Reason
from tests.builders import GPU
from tests.core.victim_cases import Played, Work, budget, queue, waits

PARENT = {"a": None, "b": None, "c": None, "top": None, "d": "top", "e": "top"}
LEAVES = ("a", "b", "c", "d", "e")


@dataclass(frozen=True)
class Small:
    """A cluster with everything that counts, in GPUs."""

    nodes: Mapping[str, int]
    owned: Mapping[str, int]
    caps: Mapping[str, int]
    works: Sequence[Work]
    waiting: Work
    #: group -> how many its budget lets go
    budgets: Mapping[str, int]

    def play(self) -> Played:
        """The engine's answer."""
        queues = [
            queue(
                name,
                self.owned.get(name),
                parent=PARENT[name],
                capability=((GPU, self.caps[name]),) if name in self.caps else (),
            )
            for name in PARENT
        ]
        budgets = tuple(budget(f"b-{name}", name, allowed, 0, 99) for name, allowed in self.budgets.items())
        return Played(self.nodes, queues, *self.works, self.waiting, budgets=budgets)


@st.composite
def smalls(draw: st.DrawFn) -> Small:
    """Nodes that are full or nearly, and a gang that waits."""
    nodes = {f"n{n}": draw(st.integers(1, 4)) for n in range(draw(st.integers(1, 3)))}
    free = dict(nodes)
    works, pods = [], 0
    for number in range(draw(st.integers(1, 4))):
        size, stands = draw(st.sampled_from((1, 1, 2))), []
        for _ in range(draw(st.integers(1, 4))):
            fitting = [name for name in free if free[name] >= size]
            if not fitting or pods == 9:
                break
            pods += 1
            stands.append(draw(st.sampled_from(fitting)))
            free[stands[-1]] -= size
        if stands:
            least = draw(st.integers(1, len(stands)))
            rigid = draw(st.integers(0, 5)) == 0
            works.append(
                Work(
                    f"w{number}",
                    draw(st.sampled_from(LEAVES)),
                    tuple(stands),
                    least,
                    priority=draw(st.integers(0, 1)),
                    gpus=size,
                    runs=float(draw(st.integers(1, 50))),
                    fields={"preemptible": False} if rigid else {},
                )
            )
    owned = {name: draw(st.integers(0, 6)) for name in PARENT if draw(st.booleans())}
    caps = {name: draw(st.integers(2, 8)) for name in PARENT if draw(st.integers(0, 4)) == 0}
    budgets = {work.name: draw(st.integers(0, 3)) for work in works if draw(st.integers(0, 5)) == 0}
    waiting = waits(
        "new",
        draw(st.sampled_from(LEAVES)),
        draw(st.integers(1, 3)),
        priority=draw(st.integers(0, 2)),
        gpus=draw(st.sampled_from((1, 1, 2, 3))),
    )
    return Small(nodes, owned, caps, works, waiting, budgets)


# --- the oracle -------------------------------------------------------------------------------------


def path(name: str) -> list[str]:
    """The queue and those above it."""
    parent = PARENT[name]
    return [name] if parent is None else [name, *path(parent)]


def fewest(small: Small) -> int | None:
    """The least number of pods that must go; None when no set of them will do."""
    pods = [(work.name, number) for work in small.works for number in range(len(work.nodes))]
    for size in range(len(pods) + 1):
        if any(_serves(small, set(chosen)) for chosen in combinations(pods, size)):
            return size
    return None


def _serves(small: Small, gone: set[tuple[str, int]]) -> bool:
    counts = Counter(name for name, _ in gone)
    of = {work.name: work for work in small.works}
    if any(count > small.budgets.get(name, count) for name, count in counts.items()):
        return False
    if any(not _may(small, of[name]) for name in counts):
        return False
    if any(counts[w.name] not in (0, len(w.nodes)) and len(w.nodes) - counts[w.name] < w.least for w in small.works):
        return False
    return _has_places(small, gone) and _is_owed(small, gone) and _in_some_order(small, counts)


def _may(small: Small, work: Work) -> bool:
    if work.fields.get("preemptible") is False:
        return False
    return work.queue != small.waiting.queue or work.priority < small.waiting.priority


def _has_places(small: Small, gone: set[tuple[str, int]]) -> bool:
    free = dict(small.nodes)
    for work in small.works:
        for number, node in enumerate(work.nodes):
            if (work.name, number) not in gone and node is not None:
                free[node] -= work.gpus
    asks, count = small.waiting.gpus, len(small.waiting.nodes)
    used = _used(small, gone)
    capped = all(used[n] + asks * count <= small.caps.get(n, 99) for n in path(small.waiting.queue))
    return capped and sum(room // asks for room in free.values()) >= count


def _used(small: Small, gone: set[tuple[str, int]]) -> Counter[str]:
    used: Counter[str] = Counter()
    for work in small.works:
        left = sum((work.name, number) not in gone for number in range(len(work.nodes)))
        for name in path(work.queue):
            used[name] += left * work.gpus
    return used


def _is_owed(small: Small, gone: set[tuple[str, int]]) -> bool:
    """With what it asks for, the side of the one that waits is inside what it owns, on each level that owns some."""
    used, asks = _used(small, gone), small.waiting.gpus * len(small.waiting.nodes)
    mine = path(small.waiting.queue)
    for work in small.works:
        if work.queue == small.waiting.queue or not any(name == work.name for name, _ in gone):
            continue
        levels = [name for name in mine if name not in path(work.queue)]
        owning = [name for name in levels if name in small.owned]
        if not owning or any(used[name] + asks > small.owned[name] for name in owning):
            return False
    return True


def _in_some_order(small: Small, counts: Counter[str]) -> bool:
    """Each that goes to another queue finds its own side above what it owns, also if all below it that may be evicted
    were gone: in one order at least."""
    units = []
    for work in small.works:
        if work.queue == small.waiting.queue:
            continue
        spare, count = len(work.nodes) - work.least, counts[work.name]
        alone = count if count <= spare else spare
        units += [(work, 1)] * alone
        if count > alone:
            units.append((work, count - alone))
    return any(True for _ in _orders(small, _used(small, set()), Counter(), units))


def _lower(small: Small, work: Work, gone: Counter[str]) -> int:
    """What could make room for this one in its own queue."""
    return sum(
        other.gpus * (len(other.nodes) - gone[other.name])
        for other in small.works
        if (other.queue, other.fields.get("preemptible")) == (work.queue, None)
        and other.priority < work.priority
        and small.budgets.get(other.name, 1)
    )


def _orders(small: Small, used: Counter[str], gone: Counter[str], units: list[tuple[Work, int]]) -> Iterator[bool]:
    if not units:
        yield True
    for unit in dict.fromkeys((work.name, number) for work, number in units):
        work, number = next(one for one in units if (one[0].name, one[1]) == unit)
        if number > 1 and any(other is work and n == 1 for other, n in units) and work.least > 1:
            continue  # surplus first
        theirs = [name for name in path(work.queue) if name not in path(small.waiting.queue)]
        lower = _lower(small, work, gone)
        if all(used[name] - lower > small.owned.get(name, 0) for name in theirs):
            after = used.copy()
            for name in path(work.queue):
                after[name] -= number * work.gpus
            rest = list(units)
            rest.remove((work, number))
            yield from _orders(small, after, gone + Counter({work.name: number}), rest)


# --- the tests --------------------------------------------------------------------------------------


@pytest.mark.timeout(120)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(smalls())
def test_no_set_of_victims_is_smaller(small: Small) -> None:
    found, wanted = small.play(), fewest(small)
    event(f"evicts {wanted}")
    if wanted is None:
        assert found.evicted == {}
        assert found.reason("new") in (Reason.RESOURCES, Reason.FRAGMENTED, Reason.QUOTA, Reason.NO_VICTIMS)
    else:
        assert sum(found.evicted.values()) == wanted
        assert found.reason("new") is (Reason.VICTIMS if wanted else None)


@pytest.mark.timeout(180)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(smalls())
def test_the_one_for_whom_they_go_starts_and_all_comes_to_rest(small: Small) -> None:
    found, wanted = small.play(), fewest(small)
    found.leave()
    found.start()
    if wanted is not None:
        assert found.bound("new") == len(small.waiting.nodes)
    for _ in range(30):  # whom the new ones take something from may take it from others in turn
        before = len(found.evictions)
        found.leave()
        found.start()
        if len(found.evictions) == before:
            break
    before = len(found.evictions)
    for _ in range(200):
        found.tick(20.0)
        found.leave()
        found.start()
    assert len(found.evictions) == before, "under constant input somebody is evicted"
    for work in (*small.works, small.waiting):
        assert found.bound(work.name) in range(work.least, len(work.nodes) + 1) or not found.bound(work.name)
