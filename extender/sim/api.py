"""The API server of the virtual cluster: objects with versions, writes, refusals, and what watches see.

Takes writes, gives JSON objects as the real one does and tells of each change; must not know what becomes of
an object (that is the cluster's matter). Stored objects are never changed: a write makes a new one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Json = dict[str, Any]
Key = tuple[str, str, str]
#: when a run begins, in seconds since the epoch
EPOCH = 1_800_000_000.0
NAMESPACE = "default"
#: kinds that stand in no namespace
_CLUSTER_WIDE = frozenset({"Node", "Queue", "Topology", "Namespace"})
#: kinds whose `generation` counts changes of the spec
_CUSTOM = frozenset({"PodGroup", "Queue", "Topology"})


class Refused(Exception):
    """An answer that is no success, with its status code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class Change:
    """One event of a watch: ADDED, MODIFIED or DELETED, with the object's newest state."""

    type: str
    kind: str
    object: Json

    @property
    def key(self) -> Key:
        """Which object it is."""
        return key_of(self.kind, self.object)


@dataclass(frozen=True, slots=True)
class Request:
    """One write of the sidecar, answered well or not. `regarding` is what an Event speaks of."""

    at: float
    verb: str
    kind: str
    name: str
    subresource: str = ""
    uid: str = ""
    regarding: tuple[str, str] = ("", "")


def stamp(at: float) -> str:
    """Virtual seconds as a time in an object."""
    return datetime.fromtimestamp(int(EPOCH + at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def key_of(kind: str, thing: Json) -> Key:
    """Identity of an object among those that are there."""
    meta = thing["metadata"]
    return kind, meta.get("namespace", ""), meta["name"]


class Api:
    """All objects. `version` grows with each change."""

    def __init__(self, clock: Callable[[], float], admit: Callable[[str, Json], Json]) -> None:
        self._clock = clock
        self._admit = admit
        self._objects: dict[Key, Json] = {}
        self._watchers: list[Callable[[Change], None]] = []
        self.version = 0
        self._uids = 0

    def watch(self, tell: Callable[[Change], None]) -> None:
        """Hear of every change, at once."""
        self._watchers.append(tell)

    # --- reads ----------------------------------------------------------------------------------

    def get(self, kind: str, name: str, namespace: str = NAMESPACE) -> Json | None:
        """An object, or None."""
        return self._objects.get(_key(kind, namespace, name))

    def list(self, kind: str) -> Iterator[Json]:
        """All objects of a kind, in the order of their creation."""
        return (thing for key, thing in list(self._objects.items()) if key[0] == kind)

    # --- writes ---------------------------------------------------------------------------------

    def create(self, kind: str, thing: Json) -> Json:
        """Store a new object; Refused when there is one of its name, or when admission says no."""
        new = copy.deepcopy(thing)
        meta = new["metadata"]
        if kind not in _CLUSTER_WIDE:
            meta.setdefault("namespace", NAMESPACE)
        key = key_of(kind, new)
        if key in self._objects:
            raise Refused(409, f"{kind} {meta['name']} already exists")
        new = self._admit(kind, new)
        self._uids += 1
        new["metadata"].setdefault("uid", f"00000000-0000-4000-8000-{self._uids:012d}")
        new["metadata"].setdefault("creationTimestamp", stamp(self._clock()))
        if kind in _CUSTOM:
            new["metadata"]["generation"] = 1
        return self._store("ADDED", key, new)

    def patch(
        self, kind: str, name: str, patch: Mapping[str, Any], *, subresource: str = "", uid: str | None = None
    ) -> Json:
        """Merge a patch into an object: lists of conditions and gates by their keys, other lists whole."""
        key = _key(kind, NAMESPACE, name)
        before = self._objects.get(key)
        if before is None:
            raise Refused(404, f"{kind} {name} not found")
        if uid is not None and before["metadata"]["uid"] != uid:
            raise Refused(409, "the uid is another one")
        new = merged(before, patch)
        if subresource:
            new = {**before, "metadata": new["metadata"], "status": new.get("status", {})}
        if new == before:
            return before
        if kind in _CUSTOM and new.get("spec") != before.get("spec"):
            new = self._admit(kind, new)
            new["metadata"] = {**new["metadata"], "generation": before["metadata"]["generation"] + 1}
        return self._store("MODIFIED", key, new)

    def replace(self, kind: str, thing: Json) -> Json:
        """Put a new state in the place of an object's old one, as parts of the cluster itself do."""
        return self._store("MODIFIED", key_of(kind, thing), copy.deepcopy(thing))

    def remove(self, kind: str, name: str, namespace: str = NAMESPACE) -> Json | None:
        """Take an object away at once; None when there is none."""
        key = _key(kind, namespace, name)
        before = self._objects.pop(key, None)
        if before is not None:
            self._tell("DELETED", key, before)
        return before

    def _store(self, type: str, key: Key, thing: Json) -> Json:
        thing["metadata"] = {**thing["metadata"], "resourceVersion": str(self.version + 1)}
        self._objects[key] = thing
        self._tell(type, key, thing)
        return thing

    def _tell(self, type: str, key: Key, thing: Json) -> None:
        self.version += 1
        for tell in self._watchers:
            tell(Change(type, key[0], thing))


def _key(kind: str, namespace: str, name: str) -> Key:
    return kind, "" if kind in _CLUSTER_WIDE else namespace, name


def merged(thing: Any, patch: Any) -> Any:
    """The object with a patch merged in; None removes a field."""
    if not isinstance(patch, Mapping) or not isinstance(thing, Mapping):
        return copy.deepcopy(patch)
    result = dict(thing)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif key in _MERGE_KEYS and isinstance(value, list):
            result[key] = _merged_list(result.get(key, []), value, _MERGE_KEYS[key])
        else:
            result[key] = merged(result.get(key, {}), value)
    return result


#: lists that merge by a key of their elements
_MERGE_KEYS = {"schedulingGates": "name", "conditions": "type"}


def _merged_list(there: list[Json], patch: list[Json], key: str) -> list[Json]:
    result = {item[key]: item for item in there}
    for item in patch:
        if item.get("$patch") == "delete":
            result.pop(item[key], None)
        else:
            result[item[key]] = {**result.get(item[key], {}), **item}
    return list(result.values())
