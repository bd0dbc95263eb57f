"""What becomes of pods by themselves: one with a runtime ends, and owners make new ones in the place of lost ones.

Takes lives, does to them what the class that builds on this can do; must not decide where a pod goes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from extender.sim.agenda import Agenda, Phase
from extender.sim.lives import Life, Lives
from extender.sim.objects import Making

#: an owner makes a new pod so long after the old one is gone or failed
REPLACE_SECONDS = 1.0


class Upkeep(ABC):
    """Runtimes and owners."""

    def __init__(self, agenda: Agenda) -> None:
        self.agenda = agenda
        self.lives = Lives()
        #: nodes whose kubelet ends every new pod
        self.rejecting: set[str] = set()
        #: groups of which no pod is made again
        self.ended_groups: set[str] = set()
        #: writes of users that were refused: what they wrote, and the answer
        self.refusals: list[tuple[str, str]] = []

    @abstractmethod
    def make(self, making: Making) -> None:
        """A pod is created; a second one of a name that is there is refused."""

    @abstractmethod
    def vanish(self, life: Life, owed: bool = True) -> None:
        """The pod's object goes away at once; its owner may make another one."""

    @abstractmethod
    def finish(self, life: Life, phase: str, reason: str = "") -> None:
        """The pod's containers have ended."""

    @abstractmethod
    def has_node(self, name: str) -> bool:
        """Whether the node is there."""

    def _end_later(self, life: Life) -> None:
        runtime = life.making.runtime
        if runtime is not None:
            self.agenda.at(self.agenda.now + runtime, Phase.ENDS, lambda: self._ran(life))

    def _ran(self, life: Life) -> None:
        if life.node is not None and self.has_node(life.node):
            self.finish(life, "Succeeded")

    def _owe(self, life: Life) -> None:
        if life.owed or life.phase == "Succeeded" or not life.making.recreated:
            return
        life.owed = True
        self.agenda.at(self.agenda.now + REPLACE_SECONDS, Phase.OWNERS, lambda: self._replace(life))

    def _replace(self, life: Life) -> None:
        group = life.making.group
        if group is None or group.name in self.ended_groups or self.lives.newest(life.making.name) is not life:
            return
        self.vanish(life, owed=False)
        self.make(life.making)
