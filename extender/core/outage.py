"""What is out of use, and whether it is what a group waits for: nodes that take no pods now, cards that take no shares.

Takes a room, gives the room as it would be with all of that in use, and the refusal that names what made the
difference; must not place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extender.core.model import MIG_STATE_LABEL, Node, Shares, Trouble
from extender.core.reasons import Detail, Reason, Refusal
from extender.core.snapshot import Room

#: refusals that more nodes and cards in use could change
MENDABLE = frozenset({Reason.RESOURCES, Reason.FRAGMENTED, Reason.CONSTRAINTS, Reason.TOPOLOGY, Reason.DEVICE_NO_FIT})
#: so many nodes or cards are named
_NAMED = 3


def refusal(room: Room, places: Sequence[tuple[int, Shares]]) -> Refusal:
    """Why there are no places but these, which only are some with everything in use: rows, and what they give."""
    facts = room.snapshot.facts
    there = list(dict.fromkeys(row for row, _ in places))
    out = [node for row in there if facts.outage[row] and (node := facts.nodes[row]) is not None]
    if out:
        named = sorted(out, key=lambda node: node.name)[:_NAMED]
        nodes = tuple(("node", node.name) for node in named)
        return Refusal(Reason.NODE_UNAVAILABLE, (*nodes, ("problem", _problem(named[0]))))
    return Refusal(Reason.DEVICE_UNHEALTHY, _cards(facts.nodes, there, places))


def _cards(nodes: Sequence[Node | None], rows: Sequence[int], places: Iterable[tuple[int, Shares]]) -> Detail:
    """The cards out of use that it would get; else all those on its nodes, whose slots are missing there."""
    given = {(row, share.card) for row, containers in places for given in containers for share in given}
    ill = [
        (node, card)
        for row in rows
        if (node := nodes[row]) is not None
        for card in node.cards or ()
        if card.trouble in (Trouble.UNHEALTHY, Trouble.CORDONED, Trouble.REFUSED)
    ]
    row_of = {node.name: row for row in rows if (node := nodes[row]) is not None}
    wanted = [(node, card) for node, card in ill if (row_of[node.name], card.id) in given] or ill
    detail: Detail = ()
    for node, card in wanted[:_NAMED]:
        detail += (("node", node.name), ("card", card.id), ("problem", card.trouble.value))
    return detail


def _problem(node: Node) -> str:
    if node.refusing:
        return "its kubelet refused pods one after the other"
    if not node.ready:
        return "not ready"
    if node.mig_state:
        return f"its MIG layout is not in place: {MIG_STATE_LABEL} is {node.mig_state}"
    return "cordoned" if node.unschedulable else "tainted as in trouble"
