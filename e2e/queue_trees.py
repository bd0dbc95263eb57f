"""The queues of one test: made below a prefix of its own, asked for what their objects say, deleted with it.

Takes API access and a prefix; gives names and states. Must not decide what is right.
"""

from __future__ import annotations

from typing import Any

from e2e import kube as kube_module
from e2e import objects, waiting
from e2e.scenes import SOON

Object = dict[str, Any]


class Queues:
    """The queues of one test; names are given without the prefix that makes them the test's own."""

    def __init__(self, api: kube_module.Kube, prefix: str) -> None:
        self._kube = api
        self._prefix = prefix
        self._made: list[str] = []

    def name(self, short: str) -> str:
        """The full name."""
        return f"{self._prefix}-{short}"

    def make(self, short: str, parent: str = "", **spec: Any) -> str:
        """Create a queue, below another one of this test."""
        above = {"parent": self.name(parent)} if parent else {}
        self._kube.create(objects.queue(self.name(short), **(above | spec)))
        self._made.append(self.name(short))
        return self.name(short)

    def patch(self, short: str, **spec: Any) -> None:
        """Change a queue."""
        self._kube.patch("queues.muster.dev", self.name(short), {"spec": spec})

    def status(self, short: str) -> Object:
        """What the queue's object says."""
        return self._kube.get("queues.muster.dev", self.name(short)).get("status") or {}

    def condition(self, short: str, kind: str) -> Object:
        """One condition of the queue."""
        return next((one for one in self.status(short).get("conditions", []) if one["type"] == kind), {})

    def wait_status(self, short: str, **fields: Any) -> None:
        """Wait until the status has these fields; `gpus` stands for what is allocated of them."""

        def told() -> Object:
            status = self.status(short)
            return status | {"gpus": int(status.get("allocated", {}).get(objects.GPU, 0))}

        waiting.wait_for(
            told,
            SOON,
            f"queue {short} says {fields}",
            until=lambda status: all(status.get(name) == value for name, value in fields.items()),
        )

    def delete(self) -> None:
        """Delete all of them."""
        for name in self._made:
            self._kube.delete("queues.muster.dev", name)
