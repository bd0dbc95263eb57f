"""A cluster below the port of `extender.sim.real`: objects in a dict, watches as queues, a Muster that binds at once.

Takes writes, gives objects and changes as an API server does; must not judge.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from typing import Any

from extender.kube import errors, identities, watch
from extender.sim.api import Json, merged
from extender.sim.real.cluster import Write
from extender.sim.real.hands import WATCHED

#: what controllers, KWOK and Muster say of a new object
SAID: dict[str, Json] = {
    "Node": {"conditions": [{"type": "Ready", "status": "True"}]},
    "Queue": {"state": "Open"},
    "PodGroup": {"phase": "Pending", "reason": "WaitingForMembers", "message": "have 0, minimum 2"},
    "Pod": {"phase": "Pending"},
}


class FakePort:
    """One run's cluster. `silent` kinds are never said anything of, `refused` names are not taken."""

    def __init__(self, *, silent: frozenset[str] = frozenset(), refused: frozenset[str] = frozenset()) -> None:
        self.things: dict[tuple[str, str], Json] = {}
        self.writes: list[Write] = []
        self.cleaned = 0
        self.binds = True
        #: live answers, None where they are not installed
        self.told: list[Json] | None = None
        self._silent = silent
        self._refused = refused
        self._version = 0
        self._awaited: dict[str, asyncio.Event] = {}
        self._feeds: dict[str, asyncio.Queue[watch.Event]] = {kind: asyncio.Queue() for kind in WATCHED}

    # --- the port -------------------------------------------------------------------------------

    async def carry_out(self, write: Write) -> Json:
        await asyncio.sleep(0)
        self.writes.append(write)
        if write.name in self._refused:
            raise errors.from_status(422, {"message": f"{write.name} is not wanted"})
        key = (write.kind, write.name)
        if write.verb == "create":
            return self._create(key, write)
        found = self.things.get(key)
        if found is None or write.uid not in ("", found["metadata"]["uid"]):
            raise errors.from_status(404, {"message": f"{write.name} not found"})
        if write.verb == "patch":
            return self.store(key, merged(found, write.body))
        if write.now or not found["spec"].get("nodeName") or not found["spec"]["terminationGracePeriodSeconds"]:
            return self.remove(key)
        return self.store(key, merged(found, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}))

    async def read(self, kind: str, name: str) -> Json | None:
        await asyncio.sleep(0)
        return {} if kind == "ServiceAccount" else self.things.get((kind, name))

    async def follow(self, kind: str) -> AsyncIterator[watch.Event]:
        yield watch.Synced()
        while True:
            yield await self._feeds[kind].get()

    async def answers(self) -> list[Json] | None:
        await asyncio.sleep(0)
        return self.told

    async def clean(self) -> None:
        await asyncio.sleep(0)
        self.cleaned += 1
        self.things.clear()

    # --- what happens in it ---------------------------------------------------------------------

    async def created(self, name: str) -> None:
        """Return once there is an object of this name."""
        await self._awaited.setdefault(name, asyncio.Event()).wait()

    def evict(self, name: str) -> None:
        """Somebody evicts a pod."""
        key = ("Pod", name)
        target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        self.store(key, merged(self.things[key], {"status": {"conditions": [target]}}))
        self.remove(key)

    def store(self, key: tuple[str, str], thing: Json) -> Json:
        """Put a new state of an object in its place, and tell."""
        type_ = watch.MODIFIED if key in self.things else watch.ADDED
        self._version += 1
        thing = merged(thing, {"metadata": {"resourceVersion": str(self._version)}})
        self.things[key] = thing
        self._tell(key[0], type_, thing)
        return thing

    def remove(self, key: tuple[str, str]) -> Json:
        """Take an object away, and tell."""
        thing = self.things.pop(key)
        self._tell(key[0], watch.DELETED, thing)
        return thing

    def _create(self, key: tuple[str, str], write: Write) -> Json:
        if key in self.things:
            raise errors.from_status(409, {"message": f"{write.name} already exists"})
        assert write.body is not None
        new = copy.deepcopy(write.body)
        new["metadata"] |= {"uid": f"uid-{self._version}"}
        if key[0] in SAID and key[0] not in self._silent:
            new["status"] = {**new.get("status", {}), **SAID[key[0]]}
        thing = self.store(key, new)
        self._awaited.setdefault(write.name, asyncio.Event()).set()
        if key[0] == "Pod" and self.binds and not thing["spec"].get("nodeName"):
            nodes = [name for kind, name in self.things if kind == "Node"]
            return self.store(key, merged(thing, {"spec": {"nodeName": nodes[0]}}))
        return thing

    def _tell(self, kind: str, type_: watch.Kind, thing: Json) -> None:
        if kind not in self._feeds:
            return
        identity = identities.identity_of(thing)
        told: Any = identity.stub() if type_ == watch.DELETED else thing
        self._feeds[kind].put_nowait(watch.Change(type_, told, identity))
