"""What scenarios are played on: the virtual cluster, or a real one behind the same few methods.

Takes nothing, gives Protocols; must not hold behaviour. The methods give no answer of the API server: on a real
cluster it comes later. What a user wrote in vain stands in `refusals`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from extender.sim import report
from extender.sim.agenda import Agenda
from extender.sim.api import Json
from extender.sim.lives import Life, Lives
from extender.sim.objects import Making


class Objects(Protocol):
    """Objects as they stand, by kind and by the name that the report gives them."""

    def get(self, kind: str, name: str) -> Json | None:
        """An object, or None."""

    def list(self, kind: str) -> Iterator[Json]:
        """All objects of a kind."""


class World(Protocol):
    """Nodes, users' objects and pods, with kubelets and owners."""

    @property
    def api(self) -> Objects:
        """What there is."""

    @property
    def agenda(self) -> Agenda:
        """What is due when."""

    @property
    def settings(self) -> report.Settings:
        """Numbers that the scenario sets."""

    @property
    def lives(self) -> Lives:
        """All pods that ever were."""

    @property
    def rejecting(self) -> set[str]:
        """Nodes whose kubelet ends every new pod."""

    @property
    def ended_groups(self) -> set[str]:
        """Groups of which no pod is made again."""

    @property
    def refusals(self) -> list[tuple[str, str]]:
        """Writes of users that were refused: what they wrote, and the answer."""

    def attempt(self, what: str, kind: str, thing: Json) -> None:
        """A user makes an object; what is refused is noted under `what`."""

    def write(self, what: str, kind: str, name: str, patch: Mapping[str, Any]) -> None:
        """A user changes an object; what is refused is noted under `what`."""

    def remove(self, kind: str, name: str) -> None:
        """A user deletes an object that is no pod."""

    def add_node(self, node: report.Node) -> None:
        """A node joins."""

    def label_node(self, name: str, labels: Mapping[str, str | None]) -> None:
        """Labels are set, or removed with None."""

    def cordon(self, name: str, cordoned: bool) -> None:
        """A node takes no new pods, or takes some again."""

    def ready(self, name: str, ready: bool) -> None:
        """A node's kubelet is well, or is not."""

    def set_card(self, node: str, card: str, healthy: bool, allocatable: Mapping[str, str]) -> None:
        """A card falls ill or recovers, and the node publishes it."""

    def make(self, making: Making) -> None:
        """A pod is created."""

    def make_running(self, making: Making, node: str) -> None:
        """A pod that runs on a node since long ago."""

    def delete(self, life: Life) -> None:
        """The pod is asked to end: a bound one takes its grace."""

    def vanish(self, life: Life, owed: bool = True) -> None:
        """The pod's object goes away at once; its owner may make another one."""

    def finish(self, life: Life, phase: str, reason: str = "") -> None:
        """The pod's containers have ended."""

    def delete_group(self, name: str, pods: Iterable[Life]) -> None:
        """The object and its pods go, and nobody makes new ones."""
