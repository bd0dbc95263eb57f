"""Who asks, and whether that is allowed, in the words of the API server that sends us the question.

Takes the ConfigMap that tells how the API server's front proxy is known, headers of a request, tokens, and answers of
the authorizer and the authenticator; gives values. Must not trust a header by itself: whether its sender is the front
proxy is seen elsewhere.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from extender.wire.fields import DecodeError, Object, Reader

#: where the API server tells it
NAMESPACE, CONFIG_MAP = "kube-system", "extension-apiserver-authentication"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path


@dataclass(frozen=True, slots=True)
class FrontProxy:
    """How the front proxy is known: by a certificate of this authority (PEM), of one of these names or of any.

    Header names are in lower case; of `username` and `uid` the first that is there counts.
    """

    authority: str
    names: frozenset[str]
    username: tuple[str, ...]
    uid: tuple[str, ...]
    group: tuple[str, ...]
    extra_prefix: tuple[str, ...]

    def admits(self, common_name: str) -> bool:
        """True when a certificate of the authority with this name is the front proxy's."""
        return not self.names or common_name in self.names


@dataclass(frozen=True, slots=True)
class User:
    """Whom the front proxy, or the API server by a token, has authenticated."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """What a user wants to read; no namespace means all, no name means the list."""

    verb: str
    group: str
    version: str
    resource: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What the authorizer says."""

    allowed: bool
    reason: str = ""


def decode_front_proxy(obj: object) -> FrontProxy:
    """The ConfigMap's content; DecodeError when it names no authority or no header for the user's name."""
    if not isinstance(obj, dict):
        raise DecodeError("not an object")
    reader = Reader()
    data = reader.mapping(obj, "data", "data")
    told = FrontProxy(
        authority=reader.text(data, "requestheader-client-ca-file", "requestheader-client-ca-file"),
        names=frozenset(_names(reader, data, "requestheader-allowed-names")),
        username=_lower(_names(reader, data, "requestheader-username-headers")),
        uid=_lower(_names(reader, data, "requestheader-uid-headers")),
        group=_lower(_names(reader, data, "requestheader-group-headers")),
        extra_prefix=_lower(_names(reader, data, "requestheader-extra-headers-prefix")),
    )
    if reader.problems:
        raise DecodeError(reader.problems[0])
    if not (told.authority and told.username):
        raise DecodeError("it names no authority of the front proxy, or no header for the user's name")
    return told


def user_of(proxy: FrontProxy, headers: Iterable[tuple[str, str]]) -> User | None:
    """Whom the headers name; None when they name nobody, or not in UTF-8."""
    values: dict[str, list[str]] = {}
    for name, value in headers:
        values.setdefault(name.lower(), []).append(value)
    found = User(
        name=_first(values, proxy.username),
        uid=_first(values, proxy.uid),
        groups=tuple(group for name in proxy.group for group in values.get(name, ())),
        extra=_extra(proxy, values),
    )
    try:
        repr_of(found).encode()
    except UnicodeEncodeError:
        return None
    return found if found.name else None


def repr_of(user: User) -> str:
    """All texts of a user, in one."""
    return "\0".join([user.name, user.uid, *user.groups, *(t for key, texts in user.extra for t in (key, *texts))])


def encode_review(user: User, asked: Asked) -> bytes:
    """The body that asks the API server's authorizer."""
    attributes = {
        "verb": asked.verb,
        "group": asked.group,
        "version": asked.version,
        "resource": asked.resource,
        "namespace": asked.namespace,
        "name": asked.name,
    }
    spec = {
        "user": user.name,
        "uid": user.uid,
        "groups": user.groups,
        "extra": dict(user.extra),
        "resourceAttributes": attributes,
    }
    return orjson.dumps({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})


def decode_review(body: bytes) -> Decision:
    """What the authorizer says; an answer that cannot be read allows nothing."""
    try:
        content: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return Decision(False)
    if not isinstance(content, dict):
        return Decision(False)
    reader = Reader()
    status = reader.mapping(content, "status", "status")
    allowed = status.get("allowed") is True and status.get("denied") is not True
    return Decision(allowed, reader.text(status, "reason", "status.reason"))


def encode_token_review(token: str) -> bytes:
    """The body that asks the API server whose token this is."""
    return orjson.dumps(
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}},
    )


def decode_token_review(body: bytes) -> User | None:
    """Whose token it is; None when it is nobody's, or the answer cannot be read."""
    try:
        content: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(content, dict):
        return None
    reader = Reader()
    status = reader.mapping(content, "status", "status")
    user = reader.mapping(status, "user", "status.user")
    extra = reader.mapping(user, "extra", "status.user.extra")
    found = User(
        name=reader.text(user, "username", "status.user.username"),
        uid=reader.text(user, "uid", "status.user.uid"),
        groups=reader.texts(user, "groups", "status.user.groups"),
        extra=tuple((key, reader.texts(extra, key, "status.user.extra")) for key in sorted(extra)),
    )
    sound = status.get("authenticated") is True and not reader.problems
    return found if sound and found.name else None


def _names(reader: Reader, data: Object, key: str) -> tuple[str, ...]:
    """A list of texts, itself written as JSON in a text."""
    text = reader.text(data, key, key)
    try:
        content = orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        reader.note(key, text, "JSON")
        return ()
    return reader.texts({key: content}, key, key)


def _lower(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.lower() for name in names)


def _first(values: dict[str, list[str]], names: tuple[str, ...]) -> str:
    return next((value for name in names for value in values.get(name, ()) if value), "")


def _extra(proxy: FrontProxy, values: dict[str, list[str]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found: dict[str, tuple[str, ...]] = {}
    for prefix in proxy.extra_prefix:
        for name, texts in values.items():
            if name.startswith(prefix):
                key = urllib.parse.unquote(name.removeprefix(prefix), errors="surrogateescape")
                found[key] = found.get(key, ()) + tuple(texts)
    return tuple(sorted(found.items()))
