"""The loopback messages between extender and permit gate: holds, release, withdraw.

Takes values, gives bodies, and back; both ends use this file, and each refuses with WireError what the
other cannot have meant. Must not decide anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from extender.core.ids import GroupKey, NodeName, PodUid, Source
from extender.core.model import Hold
from extender.wire.extender_v1 import Object, WireError, load

_MAX_NUMBER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Member:
    """A member whose binding the gate is about to write."""

    uid: PodUid
    namespace: str
    name: str
    node: NodeName


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """The gate asks whether these members of a group may be bound."""

    group: GroupKey
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Grant:
    """The member may be bound; the annotations go with its binding."""

    annotations: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Veto:
    """The member stays held, and is asked for again."""

    text: str


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """The extender asks the gate to answer these held calls with an error."""

    uids: tuple[PodUid, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class HoldsAnswer:
    """All held calls; `sequence` grows with each change, so that an older answer is told from a newer."""

    holds: tuple[Hold, ...]
    sequence: int


# --- GET /holds ------------------------------------------------------------------------------------


def encode_holds(answer: HoldsAnswer) -> bytes:
    """Body of the gate's answer to GET /holds."""
    holds = [
        {
            "uid": hold.uid,
            "node": hold.node,
            "group": _group_object(hold.group),
            "round": hold.round,
            "releasing": hold.releasing,
        }
        for hold in answer.holds
    ]
    return orjson.dumps({"holds": holds, "sequence": answer.sequence})


def decode_holds(body: bytes) -> HoldsAnswer:
    """The gate's answer to GET /holds."""
    message = load(body)
    holds = tuple(
        Hold(
            uid=PodUid(_text(hold, "uid")),
            node=NodeName(_text(hold, "node")),
            group=_group(hold),
            round=_number(hold, "round"),
            releasing=_flag(hold, "releasing"),
        )
        for hold in _objects(message, "holds")
    )
    _distinct([hold.uid for hold in holds])
    return HoldsAnswer(holds, _number(message, "sequence"))


# --- POST /release ---------------------------------------------------------------------------------


def encode_release(request: ReleaseRequest) -> bytes:
    """Body of POST /release."""
    members = [
        {"uid": member.uid, "namespace": member.namespace, "name": member.name, "node": member.node}
        for member in request.members
    ]
    return orjson.dumps({"group": _group_object(request.group), "members": members})


def decode_release(body: bytes) -> ReleaseRequest:
    """The gate's request in POST /release."""
    message = load(body)
    members = tuple(
        Member(
            uid=PodUid(_text(member, "uid")),
            namespace=_text(member, "namespace"),
            name=_text(member, "name"),
            node=NodeName(_text(member, "node")),
        )
        for member in _objects(message, "members")
    )
    _distinct([member.uid for member in members])
    return ReleaseRequest(_group(message), members)


def encode_release_answer(answer: Mapping[PodUid, Grant | Veto]) -> bytes:
    """Body of the extender's answer to POST /release."""
    members = {
        uid: {"veto": verdict.text} if isinstance(verdict, Veto) else {"annotations": dict(verdict.annotations)}
        for uid, verdict in answer.items()
    }
    return orjson.dumps({"members": members})


def decode_release_answer(body: bytes) -> dict[PodUid, Grant | Veto]:
    """The extender's answer to POST /release. A member that it does not name is not granted."""
    members = load(body).get("members")
    if not isinstance(members, dict):
        raise WireError("members is not an object")
    return {PodUid(uid): _verdict(verdict) for uid, verdict in members.items()}


def _verdict(verdict: object) -> Grant | Veto:
    if not isinstance(verdict, dict) or ("veto" in verdict) == ("annotations" in verdict):
        raise WireError("a verdict is either a veto or annotations")
    if "veto" in verdict:
        return Veto(_text(verdict, "veto"))
    notes = verdict["annotations"]
    if not isinstance(notes, dict) or not all(isinstance(value, str) for value in notes.values()):
        raise WireError("annotations are not texts by name")
    return Grant(tuple(sorted(notes.items())))


# --- POST /withdraw --------------------------------------------------------------------------------


def encode_withdrawal(request: Withdrawal) -> bytes:
    """Body of POST /withdraw."""
    return orjson.dumps({"uids": request.uids, "reason": request.reason})


def decode_withdrawal(body: bytes) -> Withdrawal:
    """The extender's request in POST /withdraw."""
    message = load(body)
    uids = message.get("uids")
    if not isinstance(uids, list) or not all(isinstance(uid, str) and uid for uid in uids):
        raise WireError("uids is not a list of uids")
    return Withdrawal(tuple(dict.fromkeys(map(PodUid, uids))), _text(message, "reason"))


def encode_withdrawn(answered: int) -> bytes:
    """Body of the gate's answer to POST /withdraw: how many held calls it answered."""
    return orjson.dumps({"answered": answered})


def decode_withdrawn(body: bytes) -> int:
    """How many held calls the gate answered."""
    return _number(load(body), "answered")


# --- parts -----------------------------------------------------------------------------------------


def _group_object(key: GroupKey) -> dict[str, str]:
    return {"source": key.source.value, "namespace": key.namespace, "name": key.name}


def _group(message: Object) -> GroupKey:
    group = message.get("group")
    if not isinstance(group, dict):
        raise WireError("group is missing")
    try:
        source = Source(_text(group, "source"))
    except ValueError:
        raise WireError("group.source is unknown") from None
    return GroupKey(source, _text(group, "namespace"), _text(group, "name"))


def _objects(message: Object, key: str) -> Sequence[Object]:
    found = message.get(key)
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise WireError(f"{key} is not a list of objects")
    return found


def _text(message: Object, key: str) -> str:
    found = message.get(key)
    if not isinstance(found, str) or not found:
        raise WireError(f"{key} is missing")
    return found


def _number(message: Object, key: str) -> int:
    found: Any = message.get(key)
    if type(found) is not int or not 0 <= found <= _MAX_NUMBER:
        raise WireError(f"{key} is not a number")
    return found


def _flag(message: Object, key: str) -> bool:
    found = message.get(key)
    if not isinstance(found, bool):
        raise WireError(f"{key} is not true or false")
    return found


def _distinct(uids: list[PodUid]) -> None:
    if len(set(uids)) != len(uids):
        raise WireError("a uid is named twice")
