"""What would follow from other queues: done on a copy of the engine, and told beside what is.

Takes an engine that is nobody's but ours (see `stage`: it is changed) and queues as they would be, gives each queue
before and after, and who starts, waits and is evicted in between; must not be given the engine that acts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from extender.core import fairshare, messages, queue_stating
from extender.core.engine import Engine
from extender.core.ids import GroupKey, QueueName
from extender.core.model import Queue
from extender.core.queue_warnings import Doubt, Warned, warnings_of
from extender.core.reasons import Refusal
from extender.core.rehearsal import SHOWN, STEP_SECONDS, STEPS, Loss, Named, losses, named
from extender.core.resources import Amounts, amounts
from extender.core.stage import Stage

#: so often within an hour is nobody evicted that would come to rest
TOO_OFTEN = 3


@dataclass(frozen=True, slots=True)
class Figures:
    """A queue at one moment. `share`: the largest part of its fair share in use; None: it has none and uses some."""

    used: Amounts
    fair: Amounts
    share: float | None
    waiting: int


@dataclass(frozen=True, slots=True)
class Compared:
    """A queue before and after; None where there was none."""

    name: QueueName
    before: Figures | None
    after: Figures | None


@dataclass(frozen=True, slots=True)
class Moved:
    """A group of which more, or less, has its places than before. `refusal`: why it, or some of it, waits."""

    of: Named
    before: int
    after: int
    refusal: Refusal | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What other queues come to. `seconds`: until nothing happened any more, or the hour was over (not `settled`)."""

    queues: tuple[Compared, ...]
    gains: tuple[Moved, ...]
    loses: tuple[Moved, ...]
    evictions: tuple[Loss, ...]
    #: how many groups gain and lose, and pods are evicted, named or not
    numbers: tuple[int, int, int]
    warnings: tuple[Warned, ...]
    settled: bool
    seconds: float


def rehearse(engine: Engine, queues: Sequence[Queue], now: float) -> Outcome:
    """What these queues would come to, each in the place of the one of its name, or new; after what is on its way."""
    stage = Stage(engine, now)
    stage.rest(STEP_SECONDS, STEPS)
    stage.evictions.clear()
    before, placed, began = _figures(engine), _placed(engine), stage.now
    stage.tell(*(messages.QueueSeen(queue) for queue in queues))
    stage.pass_by(0.0)
    found = warnings_of(engine, _concerned(engine, queues))
    settled = stage.rest(STEP_SECONDS, STEPS)
    after = _figures(engine)
    names = sorted(before.keys() | after.keys())
    lost = losses(stage.evictions)
    found += _loops(queues, lost, settled)
    gains, loses = _moved(engine, placed, _placed(engine))
    compared = tuple(Compared(name, before.get(name), after.get(name)) for name in names)
    numbers = len(gains), len(loses), len(stage.evictions)
    return Outcome(compared, gains[:SHOWN], loses[:SHOWN], lost, numbers, tuple(found), settled, stage.now - began)


def _concerned(engine: Engine, queues: Iterable[Queue]) -> set[QueueName]:
    """These queues and those next to and below them."""
    tree = engine.usage.tree
    found: set[QueueName] = set()
    for queue in queues:
        at = tree.at(queue.name)
        if at is not None:
            found |= {queue.name, *at.children}
    return found


def _loops(queues: Sequence[Queue], lost: Sequence[Loss], settled: bool) -> list[Warned]:
    often = [(one.of.name, one.times) for one in lost if one.times >= TOO_OFTEN]
    if settled and not often:
        return []
    return [Warned(queue.name, Doubt.LOOPS, going_on(often)) for queue in queues]


def going_on(often: Sequence[tuple[str, int]]) -> str:
    """That evictions do not end, in words: by name, how often each group was evicted."""
    names = ", ".join(f"{name} {times} times" for name, times in often[:5])
    more = f" and {len(often) - 5} more" if len(often) > 5 else ""
    return f"evictions go on and on: {names or 'no group more often than others'}{more}"


def _figures(engine: Engine) -> dict[QueueName, Figures]:
    usage, backlog = engine.usage, engine.backlog
    shares = queue_stating.shares_of(usage, backlog, usage.shared(engine.view.free()))
    found = {}
    for name in usage.tree.downwards:
        used, fair = usage.of(name), shares.get(name, {})
        share = fairshare.dominant(used, fair)
        number = None if share is None else float(share)
        found[name] = Figures(amounts(used), amounts(fair), number, backlog.groups[name])
    return found


def _placed(engine: Engine) -> dict[GroupKey, int]:
    """By group, how many members have a node."""
    found: dict[GroupKey, int] = {}
    for key, members in engine.world.members.items():
        if any(pod.ours for pod in members.values()):
            found[key] = sum(1 for pod in members.values() if pod.bound)
    return found


def _moved(
    engine: Engine, before: dict[GroupKey, int], after: dict[GroupKey, int]
) -> tuple[tuple[Moved, ...], tuple[Moved, ...]]:
    gains: list[Moved] = []
    loses: list[Moved] = []
    for key in before.keys() & after.keys():
        had, has = before[key], after[key]
        if had != has:
            of = named(engine, next(iter(engine.world.members[key].values())))
            (gains if has > had else loses).append(Moved(of, had, has, engine.view.why(key)))
    return tuple(sorted(gains, key=_order)), tuple(sorted(loses, key=_order))


def _order(one: Moved) -> tuple[QueueName, GroupKey]:
    return one.of.queue, one.of.key
