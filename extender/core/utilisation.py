"""What becomes of the GPUs at this moment: by node pool, where each counts once, and by queue.

Takes the engine to read, gives numbers of GPUs; must not change anything. A MIG instance is its part of a GPU. Of cards
that pods share it is the memory that counts. What a queue has is what is charged to it, with what is below it.

Sums over all nodes: slow, as a snapshot is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from extender.core import fragmentation, pools, queue_stating
from extender.core.cards import MEMORY, Cards, loads
from extender.core.engine import Engine
from extender.core.ids import QueueName
from extender.core.ledger import Reservation
from extender.core.matching import Mask
from extender.core.model import Trouble
from extender.core.node_table import NodeTable
from extender.core.resources import GPU, GPU_PARTS, GPU_SHARE, MIG, Columns, parts_in, parts_of
from extender.core.series import OTHER
from extender.core.snapshot import Matrix

Floats = npt.NDArray[np.float64]
Figures = dict[str, tuple[float, ...]]


def of_pools(engine: Engine) -> Figures:
    """GPUs by pool, for each of series.STATES; pools without any are left out."""
    world, view, room = engine.world, engine.view, engine.view.room()
    table, rows = world.nodes, len(world.nodes.names)
    cards = table.cards.free(rows)
    count = _Count(world.columns, np.zeros(rows, dtype=bool) if cards is None else cards.there)
    has, used = count.of(table.allocatable[:rows]), count.of(table.used[:rows])
    held, kept = (count.reserved(table, some) for some in (view.reservations(), view.earmarked()))
    if cards is not None:
        held += (on_cards := _held_on_cards(engine, view.reservations(), rows))
        has += _by_row(cards, [1.0 for _ in cards.roll.cards], rows)
        used += _by_row(cards, _taken(cards), rows) - on_cards
    # what is kept may stand where those who leave still are, so each takes of what those before it leave
    allocated = np.clip(used, 0, has)
    held = np.minimum(held, has - allocated)
    reserved = np.minimum(kept, has - allocated - held)
    free = has - allocated - held - reserved
    out = np.where(room.snapshot.facts.open, 0.0, free)
    lost = np.minimum(fragmentation.by_row(room), free - out)
    figures = np.stack([allocated, held, reserved, lost, free - out - lost, out])
    found: dict[str, Floats] = {}
    for row, name in enumerate(pools.of_nodes(table.nodes, (has > 0).tolist())):
        if has[row] > 0:
            found[name] = found.get(name, np.zeros(len(figures))) + figures[:, row]
    return {name: tuple(float(value) for value in values) for name, values in found.items()}


def of_queues(engine: Engine) -> Figures:
    """GPUs by queue, for each of series.OF_QUEUE; queues that neither have nor want nor own any are left out."""
    usage, backlog, view = engine.usage, engine.backlog, engine.view
    shares = queue_stating.shares_of(usage, backlog, usage.shared(view.free()))
    held, kept = (_by_queue(engine, some) for some in (view.reservations(), view.earmarked()))
    waiting: dict[QueueName, float] = {}
    for queue, asked in backlog.asked.items():
        for name in usage.tree.path(queue):
            waiting[name] = waiting.get(name, 0.0) + gpus_of(asked)
    found: Figures = {}
    for name in usage.tree.downwards:
        at, used = usage.tree.at(name), gpus_of(usage.of(name))
        owned = gpus_of(at.owned) if at is not None else 0.0
        promised = held.get(name, 0.0), kept.get(name, 0.0)
        allocated = max(0.0, used - sum(promised))
        figures = (
            *(allocated, *promised, waiting.get(name, 0.0)),
            *(gpus_of(shares.get(name, {})), max(0.0, owned - used)),
        )
        if any(figures):
            found[str(name)] = figures
    return found


def oldest(engine: Engine, now: float) -> dict[str, float]:
    """For how many seconds the group of each queue has waited that has waited longest. What waits in queues that there
    are not counts as `other`: anybody may name any."""
    found: dict[str, float] = {}
    for key, entry in engine.entries.items():
        if entry.refusal is not None and entry.waits_since is not None:
            queue = engine.world.queue_of(key)
            name = OTHER if engine.usage.tree.at(queue) is None else str(queue)
            since = entry.waits_since if entry.started else min(entry.arrival, entry.waits_since)
            found[name] = max(found.get(name, 0.0), now - since)
    return found


def gpus_of(sums: Mapping[str, int]) -> float:
    """GPUs in these amounts: as shares where they are counted so."""
    parts = sums.get(GPU_SHARE) or parts_in(sums.items())
    return parts / GPU_PARTS


class _Count:
    """Counts amounts on nodes as GPUs, but for whole ones of nodes that publish cards: those are counted by card."""

    def __init__(self, columns: Columns, by_card: Mask) -> None:
        self._by_card = by_card
        self._gpu = columns.of(GPU)
        self._instances = {
            c: parts_of(name) / GPU_PARTS for c, name in enumerate(columns.names) if name.startswith(MIG)
        }

    def of(self, amounts: Matrix) -> Floats:
        """Of rows of the node table."""
        found = np.zeros(len(amounts))
        if self._gpu is not None and self._gpu < amounts.shape[1]:
            found += np.where(self._by_card, 0, amounts[:, self._gpu])
        for column, part in self._instances.items():
            if column < amounts.shape[1]:
                found += amounts[:, column] * part
        return found

    def reserved(self, table: NodeTable, reservations: Iterable[Reservation]) -> Floats:
        """The same of reservations, by row."""
        sums = np.zeros((len(table.names), table.used.shape[1]), dtype=np.int64)
        for one in reservations:
            row = table.row_of.get(one.node)
            if row is not None:
                sums[row, : len(one.request)] += one.request
        return self.of(sums)


def _taken(cards: Cards) -> Iterator[float]:
    """The part of each card's memory that is not free."""
    for card, free in zip(cards.roll.cards, cards.free[:, MEMORY], strict=True):
        yield 1 - float(free) / card.memory if card.memory else 0.0


def _by_row(cards: Cards, values: Iterable[float], rows: int) -> Floats:
    """Sums over the cards of each row; those that are gone, or cut into instances, are left out."""
    found = np.zeros(rows)
    for card, row, value in zip(cards.roll.cards, cards.roll.row, values, strict=True):
        if card.trouble not in (Trouble.GONE, Trouble.MIG):
            found[row] += value
    return found


def _held_on_cards(engine: Engine, reservations: Iterable[Reservation], rows: int) -> Floats:
    """What plans hold of cards, by row."""
    found = np.zeros(rows)
    for one in reservations:
        node = engine.world.node(one.node) if one.shares else None
        if node is not None and node.cards:
            size = {card.id: card.memory for card in node.cards}
            row = engine.world.nodes.row_of[node.name]
            found[row] += sum(memory / size[card] for card, _, memory, _, _ in loads(one.shares) if size.get(card))
    return found


def _by_queue(engine: Engine, reservations: Iterable[Reservation]) -> dict[QueueName, float]:
    """GPUs in these, by queue and by the queues above it."""
    found: dict[QueueName, float] = {}
    for one in reservations:
        sums = dict(one.shape.request)
        if not engine.usage.tree.by_share:
            sums.pop(GPU_SHARE, None)
        for name in engine.usage.tree.path(engine.world.queue_of(one.group)):
            found[name] = found.get(name, 0.0) + gpus_of(sums)
    return found
