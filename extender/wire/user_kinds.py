"""Kinds of makers that a site adds: the same table as `kinds`, out of a ConfigMap.

Takes the ConfigMap's JSON object, gives kinds and what is wrong; must not raise for a bad one: it is named, and the
others count. Each key of its data holds one kind as YAML:

    apiVersion: example.com/v1          # or a list, the preferred version first
    kind: Training
    plural: trainings
    roles:
      - {at: "spec.workers", name: worker, number: [replicas], least: minReplicas}

More fields are those of `Kind`, `Role` and `Together`, in camel case. A kind of the built-in table is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import yaml

from extender.wire.fields import Object, Reader, api_group
from extender.wire.kinds import KINDS, Kind, Role, Together

#: name of the ConfigMap
USER_KINDS = "muster-owner-kinds"
MAX_KINDS = 64
_MAX_PARTS = 16
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}", re.ASCII)
_PLURAL = re.compile(r"[a-z][a-z0-9]{0,62}", re.ASCII)
_VERSION = re.compile(r"[a-z0-9.-]{1,253}(/v[a-z0-9]{1,30})?", re.ASCII)
_PATH = re.compile(r"[A-Za-z0-9_.|=\[\]{}!-]{0,250}", re.ASCII)
_FIELD = re.compile(r"([A-Za-z0-9_]{1,63}(\.[A-Za-z0-9_]{1,63}){0,9})?", re.ASCII)
_LABEL = re.compile(r"[A-Za-z0-9_./-]{0,317}", re.ASCII)
_ROLE = re.compile(r"\.?[A-Za-z0-9_-]{0,63}", re.ASCII)
_FIELDS = frozenset(
    ("apiVersion", "kind", "plural", "roles", "controllers", "namedBy", "copyBy", "copies", "minimum", "queue")
) | {"apart", "inTurn", "elastic", "suspend"}
_ROLE_FIELDS = frozenset(("at", "name", "template", "number", "most", "least", "optional", "less"))


def decode_kinds(obj: object) -> tuple[tuple[Kind, ...], tuple[str, ...]]:
    """The kinds that a ConfigMap adds, in the order of its keys, and a sentence for each thing that is wrong."""
    data = obj.get("data") if isinstance(obj, dict) else None
    found: dict[str, Kind] = {}
    problems: list[str] = []
    for key, text in sorted(data.items() if isinstance(data, dict) else ()):
        kind, wrong = _read(text)
        if kind is not None and kind.word not in found and len(found) < MAX_KINDS:
            found[kind.word] = kind
        elif kind is not None:
            wrong = [f"kind: {kind.name} is given before, or it is one more than {MAX_KINDS}"]
        problems += [f"{str(key)[:63]}: {what}" for what in wrong]
    return tuple(found.values()), tuple(problems)


def merged(added: Iterable[Kind]) -> tuple[Kind, ...]:
    """The built-in kinds whose pods start together, with those that a site adds or puts in their place."""
    kinds = {kind.word: kind for kind in KINDS if kind.together is not None}
    return tuple((kinds | {kind.word: kind for kind in added}).values())


def _read(text: object) -> tuple[Kind | None, list[str]]:
    try:
        found = yaml.safe_load(text) if isinstance(text, str) else None
    except (yaml.YAMLError, RecursionError, ValueError):
        return None, ["this is not YAML"]
    if not isinstance(found, dict):
        return None, ["this is no object"]
    reader = Reader()
    for key in found.keys() - _FIELDS:
        reader.say(str(key), "is no field of a kind")
    kind = _kind(reader, found)
    return (None if reader.problems else kind), reader.problems


def _kind(reader: Reader, found: Object) -> Kind:
    versions = [_checked(reader, "apiVersion", one, _VERSION) for one in _many(reader, found, "apiVersion")]
    groups = {api_group(version) for version in versions}
    if len(groups) != 1 or not all("/" in version for version in versions):
        reader.say("apiVersion", "is not group/version, or versions of one group")
    name = _checked(reader, "kind", found.get("kind"), _WORD)
    kind = Kind(
        next(iter(groups), ""),
        name,
        tuple(_role(reader, one) for one in reader.objects(found, "roles", "roles")[:_MAX_PARTS]),
        copies=_path(reader, found, "copies"),
        minimum=_path(reader, found, "minimum"),
        queue=_path(reader, found, "queue"),
        together=_together(reader, found, versions),
    )
    if kind.together is not None:  # what is known of its pods' labels: those by which they are found
        marks = ((kind.together.named_by, "{name}"), (kind.together.copy_by, "{copy}"))
        kind = replace(kind, labels=tuple((label, text) for label, text in marks if label))
    if not kind.roles:
        reader.say("roles", "is missing")
    taken = next((one for one in KINDS if one.word == kind.word and one.group != kind.group), None)
    if taken is not None and taken.together is not None:
        reader.say("kind", f"{taken.group}/{taken.name} has this name")
    return kind


def _together(reader: Reader, found: Object, versions: Iterable[str]) -> Together:
    if found.get("suspend") and found.get("copies"):
        reader.say("suspend", "does not go with copies, which start one by one")
    apart = reader.objects(found, "apart", "apart")
    controllers = reader.objects(found, "controllers", "controllers")
    return Together(
        plural=_checked(reader, "plural", found.get("plural"), _PLURAL),
        versions=tuple(version.rpartition("/")[2] for version in versions),
        controllers=tuple(
            (
                api_group(_checked(reader, "controllers.apiVersion", one.get("apiVersion", "v1"), _VERSION)),
                _checked(reader, "controllers.kind", one.get("kind"), _WORD),
            )
            for one in controllers[:_MAX_PARTS]
        ),
        named_by=_checked(reader, "namedBy", found.get("namedBy", ""), _LABEL),
        copy_by=_checked(reader, "copyBy", found.get("copyBy", ""), _LABEL),
        apart=tuple((_word(reader, one, "role", _ROLE), _path(reader, one, "when")) for one in apart[:_MAX_PARTS]),
        in_turn=tuple(_checked(reader, "inTurn", one, _PATH) for one in _many(reader, found, "inTurn")),
        elastic=_path(reader, found, "elastic"),
        suspend=_word(reader, found, "suspend", _FIELD),
    )


def _role(reader: Reader, found: Object) -> Role:
    for key in found.keys() - _ROLE_FIELDS:
        reader.say(f"roles.{key}", "is no field of a role")
    role = Role()
    given: dict[str, Any] = {
        name: _path(reader, found, name) for name in ("at", "template", "most", "least") if name in found
    }
    if "name" in found:
        given["name"] = _word(reader, found, "name", _ROLE)
    if "number" in found:
        given["number"] = tuple(_checked(reader, "number", one, _PATH) for one in _many(reader, found, "number"))
    if "less" in found:
        given["less"] = reader.integer(found, "less", "less", 0, 1000) or 0
    if "optional" in found:
        given["optional"] = reader.flag(found, "optional", "optional") or False
    role = replace(role, **given)
    for number in (*role.number, role.least):
        _, equals, value = number.partition("=")
        if equals and not value.isdecimal():
            reader.say("roles", f"{number[:60]!r}: what stands behind = is no number")
    return role


def _many(reader: Reader, found: Mapping[str, Any], key: str) -> list[object]:
    """A value, or each of a list."""
    value = found.get(key)
    if value is None:
        return []
    values = value if isinstance(value, list) else [value]
    if len(values) > _MAX_PARTS:
        reader.say(key, f"has more than {_MAX_PARTS} items")
    return values[:_MAX_PARTS]


def _path(reader: Reader, found: Object, key: str) -> str:
    return _word(reader, found, key, _PATH)


def _word(reader: Reader, found: Object, key: str, pattern: re.Pattern[str]) -> str:
    return _checked(reader, key, found.get(key, ""), pattern)


def _checked(reader: Reader, path: str, value: object, pattern: re.Pattern[str]) -> str:
    if isinstance(value, str) and pattern.fullmatch(value):
        return value
    reader.note(path, value, "text of the kind that stands here")
    return ""
