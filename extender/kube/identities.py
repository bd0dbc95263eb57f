"""Which objects a watch has told of.

Takes: the metadata of objects as they come. Gives: what changed, in particular what vanished or was
replaced under its name while nobody looked. Must not: keep whole objects; there may be ten thousand, and
their owner keeps what it needs of them.
"""

import dataclasses
from collections.abc import Iterable
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class Identity:
    """What stays known of an object after it is gone."""

    uid: str
    namespace: str
    name: str
    resource_version: str

    def stub(self) -> dict[str, Any]:
        """The least object that has this identity."""
        return {
            "metadata": {
                "uid": self.uid,
                "namespace": self.namespace,
                "name": self.name,
                "resourceVersion": self.resource_version,
            }
        }


class Malformed(Exception):
    """An object without the metadata that every object has."""


def identity_of(content: object) -> Identity:
    """The identity of a decoded object, or Malformed."""
    metadata = content.get("metadata") if isinstance(content, dict) else None
    if not isinstance(metadata, dict):
        raise Malformed("no metadata")
    uid, name = metadata.get("uid"), metadata.get("name")
    namespace, version = metadata.get("namespace", ""), metadata.get("resourceVersion", "")
    if not (isinstance(uid, str) and uid and isinstance(name, str) and name):
        raise Malformed("no uid or name")
    if not (isinstance(namespace, str) and isinstance(version, str)):
        raise Malformed("namespace or resourceVersion is no text")
    return Identity(uid, namespace, name, version)


class Known:
    """The identities seen and not gone. Invariant: a (namespace, name) belongs to one uid at a time."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Identity] = {}
        self._uid_by_name: dict[tuple[str, str], str] = {}

    def get(self, uid: str) -> Identity | None:
        """The identity as it was last seen."""
        return self._by_uid.get(uid)

    def see(self, identity: Identity) -> Identity | None:
        """Note that the object exists; returns the one whose name it has taken, which is thus gone."""
        key = (identity.namespace, identity.name)
        holder = self._uid_by_name.get(key)
        replaced = self.forget(holder) if holder is not None and holder != identity.uid else None
        self._by_uid[identity.uid] = identity
        self._uid_by_name[key] = identity.uid
        return replaced

    def forget(self, uid: str) -> Identity | None:
        """Note that the object is gone; None if it was not known, or known to be gone."""
        identity = self._by_uid.pop(uid, None)
        if identity is not None:
            self._uid_by_name.pop((identity.namespace, identity.name), None)
        return identity

    def forget_others(self, present: Iterable[str]) -> list[Identity]:
        """Forget all but `present`; returns the vanished in the order in which they were first seen."""
        kept = frozenset(present)
        vanished = [identity for uid, identity in self._by_uid.items() if uid not in kept]
        for identity in vanished:
            self.forget(identity.uid)
        return vanished
