"""Every pod that ever was, with what became of it: what the clusters' parts write and the checks read.

Takes notes, gives look-ups by uid, name and group; must not decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from extender.sim.cards import Share
from extender.sim.names import PodName
from extender.sim.objects import Making


@dataclass(slots=True, eq=False)
class Life:
    """One pod from its making to its end."""

    uid: str
    making: Making
    #: how manyth of its name, from 0
    ordinal: int
    node: str | None = None
    #: number of its binding among all
    bound_as: int | None = None
    shares: tuple[Share, ...] = ()
    #: Succeeded or Failed, once it has ended
    phase: str = ""
    failed_on_node: bool = False
    leaving: bool = False
    gone: bool = False
    #: by the sidecar
    evicted: bool = False
    #: its owner has been asked for another one
    owed: bool = False

    @property
    def takes(self) -> bool:
        """True while it counts on its node."""
        return self.node is not None and not self.phase and not self.gone

    @property
    def waits(self) -> bool:
        """True while it could still be bound."""
        return self.node is None and not (self.phase or self.gone or self.leaving)


@dataclass(slots=True)
class Lives:
    """All pods. Looked up by what a report calls them."""

    by_uid: dict[str, Life] = field(default_factory=dict)
    by_name: dict[str, list[Life]] = field(default_factory=dict)
    by_group: dict[str, list[Life]] = field(default_factory=dict)
    by_node: dict[str, dict[str, Life]] = field(default_factory=dict)
    bindings: int = 0

    def begin(self, uid: str, making: Making) -> Life:
        """A pod is made."""
        same = self.by_name.setdefault(making.name, [])
        life = Life(uid, making, len(same))
        same.append(life)
        self.by_uid[uid] = life
        if making.group is not None:
            self.by_group.setdefault(making.group.name, []).append(life)
        return life

    def bound(self, life: Life, node: str) -> None:
        """A pod is on a node."""
        life.node, life.bound_as = node, self.bindings
        self.by_node.setdefault(node, {})[life.uid] = life
        self.bindings += 1

    def newest(self, name: str) -> Life | None:
        """The pod that has this name, or had it last."""
        same = self.by_name.get(name)
        return same[-1] if same else None

    def meant(self, name: PodName) -> Life | None:
        """The one pod that a name means now."""
        if name.node:
            return next(reversed(self.by_node.get(name.node, {}).values()), None)
        if name.ordinal is None:
            return self.newest(name.name)
        same = self.by_name.get(name.name, [])
        return same[name.ordinal] if name.ordinal < len(same) else None

    def counted(self, name: PodName) -> list[Life]:
        """All pods that a counter means."""
        if name.node or name.ordinal is not None:
            found = self.meant(name)
            return [] if found is None else [found]
        return self.by_name.get(name.name, [])

    def on(self, node: str) -> Iterator[Life]:
        """The pods that count on a node."""
        return (life for life in self.by_node.get(node, {}).values() if life.takes)
