"""What the page shows, as tables: queues, nodes with who has their GPUs, groups, positions, evictions, and sums.

Takes the engine's answers to read; gives rows (see COLUMNS) and what is new in them, less what a reader may not see.
Must not decide, do I/O or read a clock. Bringing it up to date is an iterator that does a little at each step: filter
calls get their turn between two. What did not change costs a comparison only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from extender.core import explain
from extender.core.answers import Answers, Workload
from extender.core.ids import GroupKey, NodeName, QueueName
from extender.core.membership import Standing
from extender.core.model import Node, Queue
from extender.core.quota import Position
from extender.core.resources import GPU, GPU_PARTS, GPU_SHARE, Amounts, parts_in
from extender.web.tables import Change, Key, Row, Table

#: what the fields of each table's rows are, in order
COLUMNS: dict[str, tuple[str, ...]] = {
    "cluster": ("levels", "gpus", "used", "held", "free", "out", "nodes"),
    "queues": (
        *("parent", "state", "weight", "priority", "allocated", "fair", "guarantee", "deserved", "capability"),
        *("borrowed", "share", "pending", "wrong"),
    ),
    # used and held: pairs of a group's number and GPUs; number 0 stands for those that the reader may not see
    "nodes": ("path", "gpus", "free", "state", "used", "held"),
    "groups": (
        *("namespace", "source", "name", "queue", "phase", "reason", "kind", "message", "since"),
        *("have", "minimum", "planned", "bound", "succeeded", "failed"),
    ),
    "positions": ("position",),
    "evictions": ("at", "namespace", "source", "name", "queue", "rule", "message", "pods"),
}
#: the key of the one row of `cluster`
NOW = "now"
#: queues and positions are brought up to date so often
SLOW_SECONDS = 1.0
#: so much is done in one step: comparing a row is one, making one is COST
_STEP = 200
_COST = 20


@dataclass(frozen=True, slots=True)
class Sees:
    """What a reader may see. `namespaces`: of these the groups; None: of all."""

    namespaces: frozenset[str] | None = frozenset()
    queues: bool = False
    nodes: bool = False

    def __bool__(self) -> bool:
        return self.namespaces is None or bool(self.namespaces) or self.queues or self.nodes

    def scope(self, namespace: str) -> bool:
        """True when the groups of this namespace are seen."""
        return self.namespaces is None or namespace in self.namespaces


class Board:
    """The tables. `version` is that of the newest state that is complete; rows under way are of the next one."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.tables: dict[str, Table] = {name: Table() for name in COLUMNS}
        self.version = 0
        self._slow_at = float("-inf")
        #: numbers by which groups are named in rows; 0 is nobody's
        self._numbers: dict[GroupKey, int] = {}
        self._last_number = 0
        #: what each row was made of, so that it is made anew only when that changed
        self._group_facts: dict[GroupKey, tuple[object, ...]] = {}
        self._node_facts: dict[NodeName, tuple[object, ...]] = {}

    # --- reading --------------------------------------------------------------------------------

    def since(self, version: int, sees: Sees) -> dict[str, list[Change]] | None:
        """By table what is new since a version (0: all there is) of what this reader sees; None: it must begin anew."""
        if version and any(version < table.since_version for table in self.tables.values()):
            return None
        return {name: list(self._seen(name, table.since(version), sees)) for name, table in self.tables.items()}

    def _seen(self, name: str, changes: Iterator[Change], sees: Sees) -> Iterator[Change]:
        if name == "queues":
            return changes if sees.queues else iter(())
        if name in ("nodes", "cluster"):
            return map(lambda one: self._veiled(name, one, sees), changes) if sees.nodes else iter(())
        return (one for one in changes if sees.scope(one.scope))

    def _veiled(self, name: str, change: Change, sees: Sees) -> Change:
        """A node's row without the numbers of groups that are not seen."""
        if name == "cluster" or sees.namespaces is None or change.row is None:
            return change
        *rest, used, held = change.row
        return Change(change.key, (*rest, self._veil(used, sees), self._veil(held, sees)), change.scope)

    def _veil(self, pairs: Row, sees: Sees) -> Row:
        sums: dict[int, float] = {}
        for number, gpus in pairs:
            row = self.tables["groups"].rows.get(number)
            shown = number if row is not None and sees.scope(row[0]) else 0
            sums[shown] = sums.get(shown, 0) + gpus
        return tuple(sums.items())

    # --- bringing up to date --------------------------------------------------------------------

    def renew(self, now: float) -> Iterator[None]:
        """Bring all tables up to date, in steps."""
        version = self.version + 1
        self._renew_evictions(version)
        yield from self._renew_groups(version)
        yield from self._renew_nodes(version)
        if now >= self._slow_at + SLOW_SECONDS:
            self._slow_at = now
            yield from self._renew_queues(version, now)
            yield from self._renew_positions(version, now)
        self.version = version

    def _renew_evictions(self, version: int) -> None:
        table, seen = self.tables["evictions"], set[Key]()
        for one in self._answers.engine.evictions:
            seen.add(one.number)
            row: Row = (
                *(one.at, one.group.namespace, one.group.source.value, one.name, one.queue, one.ground.value),
                *(explain.why_evicted(one.ground, one.detail), one.pods),
            )
            table.put(one.number, row, version, one.group.namespace)
        table.keep(seen, version)

    def _renew_queues(self, version: int, now: float) -> Iterator[None]:
        table, names = self.tables["queues"], self._answers.queues()
        for done, name in enumerate(names):
            if not done % (_STEP // _COST):
                yield
            row = self._queue_row(name, now)
            if row is not None:
                table.put(name, row, version)
        table.keep(set(names), version)

    def _renew_positions(self, version: int, now: float) -> Iterator[None]:
        yield from self._answers.count(now)
        table = self.tables["positions"]
        positions = list(self._answers.positions.items())
        seen: set[Key] = set()
        for done, (key, position) in enumerate(positions):
            if not done % _STEP:
                yield
            number = self._numbers.get(key)
            if number is not None:
                seen.add(number)
                table.put(number, (position,), version, key.namespace)
        yield
        table.keep(seen, version)

    def _renew_groups(self, version: int) -> Iterator[None]:
        table, todo = self.tables["groups"], 0
        keys = self._answers.keys()
        for key in keys:
            todo += 1
            facts = self._facts_of(key)
            if self._group_facts.get(key) != facts:
                todo += _COST
                self._put_group(key, table, version)
                self._group_facts[key] = facts
            if todo >= _STEP:
                todo = 0
                yield
        for key in self._numbers.keys() - set(keys):
            self._forget(key, table, version)
        yield

    def _put_group(self, key: GroupKey, table: Table, version: int) -> None:
        found = self._answers.workload(key)
        if found is None:
            self._forget(key, table, version)
            return
        number = self._numbers.get(key)
        if number is None:
            self._last_number += 1
            number = self._numbers[key] = self._last_number
            for node in self._answers.engine.view.nodes_of(key):  # where it was nobody's until now
                self._node_facts.pop(node, None)
        table.put(number, _group_row(found), version, key.namespace)

    def _forget(self, key: GroupKey, table: Table, version: int) -> None:
        number = self._numbers.pop(key, None)
        self._group_facts.pop(key, None)
        if number is not None:
            table.drop(number, version)

    def _facts_of(self, key: GroupKey) -> tuple[object, ...]:
        """All that a group's row is made of."""
        engine = self._answers.engine
        world, entry, tally = engine.world, engine.entries.get(key), engine.world.tallies.get(key)
        standings = {} if tally is None else tally.totals()
        return (
            engine.view.why(key) if entry is None else entry.refusal,
            None if entry is None else (entry.refused_at, entry.planned_at, entry.running),
            standings,
            world.groups.get(key),
            world.need(key),
            world.queue_of(key),
            len(engine.view.places(key)),
            self._answers.gates(key) if Standing.BLOCKED in standings else (),
        )

    def _renew_nodes(self, version: int) -> Iterator[None]:
        engine, table = self._answers.engine, self.tables["nodes"]
        world, todo = engine.world, 0
        keys, path = engine.view.paths()
        for name in list(world.nodes.row_of):
            node = world.node(name)
            if node is None:
                continue
            todo += 4
            on_node, held = world.on_node.get(name, {}), engine.view.held_on(name)
            facts = (node, keys, tuple(on_node.values()), tuple(held.values()))
            before = self._node_facts.get(name)
            if before is None or not _same(before, facts):
                todo += _COST
                self._node_facts[name] = facts
                table.put(name, self._node_row(node, path(name)), version)
            if todo >= _STEP:
                todo = 0
                yield
        for gone in table.rows.keys() - world.nodes.row_of.keys():
            self._node_facts.pop(NodeName(str(gone)), None)
            table.drop(gone, version)
        self.tables["cluster"].put(NOW, self._sums(keys), version)

    # --- rows -----------------------------------------------------------------------------------

    def _node_row(self, node: Node, path: tuple[str, ...]) -> Row:
        engine = self._answers.engine
        used: dict[int, float] = {}
        for pod in engine.world.on_node.get(node.name, {}).values():
            self._add(used, pod.group, pod.shape.request)
        held: dict[int, float] = {}
        for place in engine.view.held_on(node.name).values():
            self._add(held, place.group, place.shape.request)
        has, state = _gpus_of(node), _state(node)
        free = 0.0 if state else max(0.0, has - sum(used.values()) - sum(held.values()))
        return (path, has, _rounded(free), state, _pairs(used), _pairs(held))

    def _add(self, sums: dict[int, float], key: GroupKey, request: Amounts) -> None:
        gpus = _gpus(request)
        if gpus:
            number = self._numbers.get(key, 0)
            sums[number] = sums.get(number, 0.0) + gpus

    def _sums(self, keys: tuple[str, ...]) -> Row:
        has = used = held = free = out = 0.0
        rows = self.tables["nodes"].rows
        for _, gpus, left, state, taken, kept in rows.values():
            has, free = has + gpus, free + left
            used, held = used + _total(taken), held + _total(kept)
            out += max(0.0, gpus - _total(taken) - _total(kept)) if state else 0.0
        return (keys, *map(_rounded, (has, used, held, free, out)), len(rows))

    def _queue_row(self, name: QueueName, now: float) -> Row | None:
        at = self._answers.engine.usage.tree.at(name)
        found = self._answers.queue_status(name, now)
        if at is None or found is None:
            return None
        status, share = found
        queue = at.queue
        wrong = tuple(_words(one.kind, one.reason, one.message) for one in status.conditions if not one.true)
        return (
            *(_parent(at), status.state, queue.weight, queue.priority, _told(status.allocated), _told(share, queue)),
            *(_told(amounts, queue) for amounts in (queue.guarantee, queue.deserved, queue.capability)),
            *(_borrowed(queue, status.allocated), status.share, status.pending, wrong),
        )


def _group_row(found: Workload) -> Row:
    refusal, members = found.refusal, found.members
    return (
        *(found.key.namespace, found.key.source.value, found.name, found.queue, found.phase),
        "" if refusal is None else refusal.reason.value,
        "" if refusal is None else refusal.kind.value,
        "" if refusal is None else explain.sentence(refusal),
        found.since,
        *(members.have, members.minimum, members.planned, members.bound, members.succeeded, members.failed),
    )


def _parent(at: Position) -> str:
    """The queue above, as far as the tree is sound."""
    return at.path[1] if len(at.path) > 1 else ""


def _told(amounts: Amounts, queue: Queue | None = None) -> dict[str, float]:
    """Amounts in base units; parts of GPUs as GPUs, of a queue that counts them."""
    found: dict[str, float] = dict(amounts)
    parts = found.pop(GPU_SHARE, None)
    return found if parts is None or queue is None or not queue.by_share else found | {GPU: _rounded(parts / GPU_PARTS)}


def _borrowed(queue: Queue, allocated: Amounts) -> dict[str, float]:
    """What it uses beyond what it owns, of resources of which it owns something."""
    owned = _told(queue.guarantee, queue)
    owned |= {name: max(amount, owned.get(name, 0)) for name, amount in _told(queue.deserved, queue).items()}
    over = {name: _rounded(amount - owned[name]) for name, amount in _told(allocated).items() if name in owned}
    return {name: amount for name, amount in over.items() if amount > 0}


def _gpus(amounts: Amounts) -> float:
    """GPUs of a request, shares of them as what they are of one."""
    asked = dict(amounts)
    return asked[GPU_SHARE] / GPU_PARTS if GPU_SHARE in asked else _whole(asked)


def _whole(amounts: Mapping[str, int]) -> float:
    return parts_in(amounts.items()) / GPU_PARTS


def _gpus_of(node: Node) -> float:
    """What a node has: its cards, where it publishes them (its resource then counts their slots)."""
    return float(len(node.cards)) if node.cards else _rounded(_whole(dict(node.allocatable)))


def _state(node: Node) -> str:
    """Why it takes no pods; "" when it does."""
    if not node.ready:
        return "NotReady"
    if node.unschedulable:
        return "Cordoned"
    if node.refusing:
        return "Refusing"
    return "Repartitioning" if node.mig_state else ""


def _words(kind: str, reason: str, message: str) -> str:
    return f"{kind}: {reason}{f' ({message})' if message else ''}"


def _pairs(sums: Mapping[int, float]) -> Row:
    return tuple((number, _rounded(gpus)) for number, gpus in sums.items())


def _total(pairs: Row) -> float:
    return float(sum(gpus for _, gpus in pairs))


def _rounded(number: float) -> float:
    """To two places; whole numbers as such, which are shorter."""
    return int(number) if number == int(number) else round(number, 2)


def _same(before: tuple[object, ...], after: tuple[object, ...]) -> bool:
    """Whether a node and what stands there are the same objects: comparing their fields would cost more."""
    return all(_identical(one, other) for one, other in zip(before, after, strict=True))


def _identical(one: object, other: object) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))
    return one is other
