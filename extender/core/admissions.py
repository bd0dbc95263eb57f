"""Which nodes and cards the kubelet refuses: pods of ours that it did not admit, one after the other.

Takes pods and nodes as they are seen, gives the node as it is to be counted; must not decide where pods go. A node, or
a card, that refused so many in a row gets nothing more until the node reports a change of what pods need there; labels
do not count, since some of them hold the time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from extender.core.ids import NodeName
from extender.core.model import Card, Node, Pod, Trouble
from extender.core.world import World

#: a node, or one of its cards
_Place = tuple[NodeName, str | None]


class Admissions:
    """Refusals in a row by node and card, since the node last reported a change or took such a pod."""

    def __init__(self, world: World, most: int) -> None:
        self._world = world
        self._most = most
        self._refused: Counter[_Place] = Counter()
        #: nodes that refused pods which asked for devices: only such pods prove the contrary
        self._devices: set[NodeName] = set()

    def judged(self, before: Pod | None, pod: Pod | None) -> Node | None:
        """A pod has changed: the node as it is to be counted now, if it is one that gets nothing more."""
        if pod is None or pod.node is None or not pod.ours:
            return None
        if pod.not_admitted:
            return None if before is not None and before.not_admitted else self._refuse(pod, pod.node)
        if self._refused and pod.phase in ("Running", "Succeeded") and (before is None or before.phase == "Pending"):
            self._take(pod, pod.node)
        return None

    def _refuse(self, pod: Pod, name: NodeName) -> Node | None:
        places = [(name, None), *_cards(pod, name)]
        self._refused.update(places)
        if _asks_devices(pod):
            self._devices.add(name)
        node = self._world.node(name)
        if node is None or not any(self._refused[place] == self._most for place in places):
            return None
        return self._marked(node)

    def _take(self, pod: Pod, name: NodeName) -> None:
        if name not in self._devices or _asks_devices(pod):
            for place in ((name, None), *_cards(pod, name)):
                self._refused.pop(place, None)

    def seen(self, before: Node | None, node: Node) -> Node:
        """A node was seen: as it is to be counted."""
        if before is not None and _report(before) == _report(node):
            return self._marked(node)
        self.gone(node.name)
        return node

    def gone(self, name: NodeName) -> None:
        """Forget what was counted of a node."""
        self._devices.discard(name)
        for place in [place for place in self._refused if place[0] == name]:
            del self._refused[place]

    def _marked(self, node: Node) -> Node:
        if not self._refused:
            return node
        out = {card for (name, card), times in self._refused.items() if name == node.name and times >= self._most}
        if not out:
            return node
        cards = node.cards and tuple(_mark(card) if card.id in out else card for card in node.cards)
        return replace(node, refusing=None in out, cards=cards)


def _mark(card: Card) -> Card:
    return card if card.trouble else replace(card, trouble=Trouble.REFUSED)


def _unmark(card: Card) -> Card:
    return replace(card, trouble=Trouble.NONE) if card.trouble is Trouble.REFUSED else card


def _report(node: Node) -> tuple[object, ...]:
    """What a node says that may matter to its kubelet."""
    cards = node.cards and tuple(map(_unmark, node.cards))
    return (node.allocatable, node.taints, node.unschedulable, node.ready, cards)


def _cards(pod: Pod, name: NodeName) -> list[_Place]:
    return [(name, card) for card in dict.fromkeys(share.card for shares in pod.shares for share in shares)]


def _asks_devices(pod: Pod) -> bool:
    return any("/" in name for name, _ in pod.shape.request)
