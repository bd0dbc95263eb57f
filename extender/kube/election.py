"""One active replica among several, chosen by a Lease of our own.

Takes an Api, the Lease's place, our name and a clock; gives whether we act. Must not look at the Lease's own times,
which are of another machine's clock: a holder is taken for lost when its Lease has not changed for its whole duration,
as seen from here. We cease to act before anybody else may take the Lease.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

from extender.core.activity import Lease
from extender.kube import client, errors, resources
from extender.telemetry import logs
from extender.wire import objects
from extender.wire.answers import micro_time

LOG = logs.Log(__name__)
DURATION_SECONDS = 15
#: activity ends so long after the last renewal began
ACTIVE_SECONDS = 10.0
RENEW_SECONDS = 2.0
_CALL_SECONDS = 4.0


class Election:
    """Our place in the election. `identity` must belong to this process alone, and to its successor after a crash."""

    def __init__(
        self,
        api: client.Api,
        namespace: str,
        name: str,
        identity: str,
        clock: Callable[[], float],
    ) -> None:
        self._api = api
        self._path = resources.Served(resources.LEASES, "v1").path(namespace, name)
        self._name = name
        self._identity = identity
        self._clock = clock
        self._renewed_at = float("-inf")
        self._asked = False
        #: the newest record of the Lease, and when it was first seen
        self._record: Lease | None = None
        self._record_at = float("-inf")

    @property
    def active(self) -> bool:
        """Whether we may write now."""
        return self._clock() - self._renewed_at < ACTIVE_SECONDS

    def not_ready(self) -> str | None:
        """Says that the Lease was never read."""
        return None if self._asked else "waiting for the Lease"

    async def run(self) -> None:
        """Take the Lease when it is free and renew it, for ever."""
        while True:
            try:
                await self._turn()
                self._asked = True
            except (errors.KubeError, objects.DecodeError) as error:
                LOG.warning("the Lease cannot be renewed", lease=self._name, error=error)
            await asyncio.sleep(RENEW_SECONDS)

    async def release(self) -> None:
        """Give the Lease back, so that nobody waits for it to run out."""
        if not self.active:
            return
        self._renewed_at = float("-inf")
        with contextlib.suppress(errors.KubeError, objects.DecodeError):
            found = await self._api.read(self._path, timeout=_CALL_SECONDS)
            if objects.decode_lease(found).holder == self._identity:
                await self._put(found, {"holderIdentity": ""})

    async def _turn(self) -> None:
        started = self._clock()
        try:
            found = await self._api.read(self._path, timeout=_CALL_SECONDS)
        except errors.NotFound:
            await self._create()
        else:
            record = objects.decode_lease(found)
            if not self._is_free(record):
                return
            taken = {} if record.holder == self._identity else {"acquireTime": micro_time(time.time())}
            term = self._term()
            await self._put(found, term | taken)
        self._renewed_at = started

    def _term(self) -> dict[str, Any]:
        renewed = micro_time(time.time())
        return {"holderIdentity": self._identity, "renewTime": renewed, "leaseDurationSeconds": DURATION_SECONDS}

    async def _create(self) -> None:
        spec = self._term() | {"acquireTime": micro_time(time.time())}
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name},
            "spec": spec,
        }
        collection = self._path.rpartition("/")[0]
        await self._api.request("POST", collection, body=body, timeout=_CALL_SECONDS)

    async def _put(self, found: dict[str, Any], change: dict[str, Any]) -> None:
        """Replaces what was read, and nothing newer."""
        body = found | {"spec": _spec(found) | change}
        await self._api.request("PUT", self._path, body=body, timeout=_CALL_SECONDS)

    def _is_free(self, record: Lease) -> bool:
        if record != self._record:
            self._record, self._record_at = record, self._clock()
        return record.holder in ("", self._identity) or self._clock() - self._record_at >= record.duration


def _spec(found: dict[str, Any]) -> dict[str, Any]:
    spec = found.get("spec")
    return spec if isinstance(spec, dict) else {}
