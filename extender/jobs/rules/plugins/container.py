"""A pod's spec while plugins change it: environment variables, ports, mounts, as Kubernetes has them.

Takes a spec of its own, changes it; must not touch the template that it was copied from.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_MAX_PORT = 65_535


@dataclass(frozen=True, slots=True)
class Pod:
    """The pod of a member: its task, its index, and a spec that may be changed."""

    task: str
    index: int
    spec: dict[str, Any]

    def containers(self, inits: bool = True) -> Iterable[dict[str, Any]]:
        """Its containers; init containers first, when they are wanted."""
        if inits:
            yield from self.spec.get("initContainers") or ()
        yield from self.spec["containers"]

    def set_env(self, *variables: dict[str, Any], inits: bool = True) -> None:
        """Add environment variables to its containers; of two with one name the later counts."""
        for container in self.containers(inits):
            container["env"] = [*(container.get("env") or ()), *variables]

    def open_port(self, name: str, port: int, inits: bool = True) -> None:
        """Name a port of its containers, unless they name that port already."""
        for container in self.containers(inits):
            open_port(container, name, port)

    def mount(self, volume: dict[str, Any], mount: dict[str, Any]) -> None:
        """Add a volume, mounted in all containers."""
        self.spec["volumes"] = [*(self.spec.get("volumes") or ()), volume]
        for container in self.containers():
            container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]


def open_port(container: dict[str, Any], name: str, port: int) -> None:
    """Name a port of a container, unless it names that port already."""
    ports = container.get("ports") or []
    if not any(isinstance(one, dict) and one.get("containerPort") == port for one in ports):
        container["ports"] = [*ports, {"name": name, "containerPort": port}]


def variable(name: str, value: object) -> dict[str, Any]:
    """An environment variable."""
    return {"name": name, "value": str(value)}


def is_port(text: str) -> bool:
    """Whether a text is the number of a port."""
    return text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) <= _MAX_PORT
