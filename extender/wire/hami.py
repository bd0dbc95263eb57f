"""HAMi's annotations: the cards that a node publishes, what a pod asks of cards, and what it was given.

Takes annotations and containers, gives values of the core, and annotations of given shares; must not choose cards.
What cannot be read is noted: a node's cards then count as none, so that nothing is placed by a wrong sum.

Three texts publish cards: JSON, in which every field may be left out (health that is not stated is no health), and
`id,slots,memory,cores,type,numa,health[,index,mode]:` for each card, of seven or nine fields.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import orjson

from extender.core.model import Card, CardAsk, CardRequest, Share, Shares, Trouble
from extender.core.resources import GPU, GPU_CORES, GPU_MEMORY, GPU_PERCENT
from extender.wire import quantity
from extender.wire.fields import Object, Reader, seconds_of

REGISTER = "hami.io/node-nvidia-register"
CORDON = "hami.io/device-cordon"
ALLOCATED = "hami.io/vgpu-devices-allocated"
TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
NODE, TIME = "hami.io/vgpu-node", "hami.io/vgpu-time"
PHASE, BIND_TIME = "hami.io/bind-phase", "hami.io/bind-time"
LOCK = "hami.io/mutex.lock"
MODE = "nvidia.com/vgpu-mode"
ALLOCATING, SUCCESS, FAILED = "allocating", "success", "failed"
#: the word that the device plugin looks for
_WORD = "NVIDIA"
#: the mode in which pods share a card that is not cut into instances
_MODE = "hami-core"
_SELECTORS = ("use-gputype", "nouse-gputype", "use-gpuuuid", "nouse-gpuuuid")
_MAX_CARDS = 64
_MAX_SLOTS = 2**14
_MAX_SIZE = 2**31
_MAX_CONTAINERS = 64
_MAX_SELECTED = 64
_FULL = 100


class _Unreadable(ValueError):
    """A text that is none of the formats."""


@dataclass(frozen=True, slots=True)
class Lock:
    """The lock that a node bears while a pod's cards are handed out there. Older ones name no pod."""

    since: float
    namespace: str = ""
    name: str = ""


# --- nodes -----------------------------------------------------------------------------------------


def decode_cards(reader: Reader, notes: Object) -> tuple[Card, ...] | None:
    """The cards that a node's annotations publish, by index; None when they publish none."""
    if REGISTER not in notes:
        return None
    text = reader.text(notes, REGISTER, f"annotation {REGISTER}")
    cordoned = frozenset(_words(reader.text(notes, CORDON, f"annotation {CORDON}"), ","))
    try:
        cards = _cards(text)
    except _Unreadable as error:
        reader.say(f"annotation {REGISTER}", str(error))
        return ()
    return tuple(_cordon(card) if card.id in cordoned and not card.trouble else card for card in cards)


def _cordon(card: Card) -> Card:
    return Card(card.id, card.slots, card.memory, card.cores, card.kind, Trouble.CORDONED)


@lru_cache(maxsize=16384)
def _cards(text: str) -> tuple[Card, ...]:
    """Nodes are seen far more often than their cards change."""
    found = _of_json(text) if text.lstrip().startswith("[") else _of_fields(text)
    if len(found) > _MAX_CARDS:
        raise _Unreadable(f"{len(found)} cards are more than {_MAX_CARDS}")
    if len({card.id for _, card in found}) != len(found):
        raise _Unreadable("a card is named twice")
    return tuple(card for _, card in sorted(found, key=lambda one: one[0]))


def _of_json(text: str) -> list[tuple[int, Card]]:
    try:
        items = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise _Unreadable(f"no JSON: {error}") from None
    return [_of_object(item) for item in items]


def _of_object(item: object) -> tuple[int, Card]:
    if not isinstance(item, dict):
        raise _Unreadable("a card is no object")
    name, kind, mode = (_text(item, key) for key in ("id", "type", "mode"))
    health = item.get("health", False)
    if not isinstance(health, bool):
        raise _Unreadable("health is not true or false")
    numbers = [_number(item.get(key, 0), key) for key in ("index", "count", "devmem", "devcore")]
    return _card(name, kind, mode, health, numbers)


def _text(item: Mapping[str, object], key: str) -> str:
    value = item.get(key, "")
    if not isinstance(value, str):
        raise _Unreadable(f"{key} is not a text")
    return value


def _of_fields(text: str) -> list[tuple[int, Card]]:
    return [_of_line(position, line.split(",")) for position, line in enumerate(text.split(":")) if line.strip()]


def _of_line(position: int, fields: list[str]) -> tuple[int, Card]:
    if len(fields) not in (7, 9):
        raise _Unreadable(f"a card of {len(fields)} fields, not of 7 or 9")
    if fields[6] not in ("true", "false"):
        raise _Unreadable("health is not true or false")
    index, mode = (fields[7], fields[8]) if len(fields) == 9 else (str(position), "")
    named = zip(("index", "count", "memory", "cores"), (index, *fields[1:4]), strict=True)
    numbers = [_number(_integer(value), name) for name, value in named]
    return _card(fields[0].strip(), fields[4], mode, fields[6] == "true", numbers)


def _integer(text: str) -> object:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else text


def _number(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_SIZE:
        raise _Unreadable(f"{name} is not a number that a card may have")
    return value


def _card(name: str, kind: str, mode: str, health: bool, numbers: list[int]) -> tuple[int, Card]:
    index, slots, memory, cores = numbers
    if not name or set(name) & set(",:;"):
        raise _Unreadable("a card has no id that can be written")
    trouble = Trouble.NONE if health else Trouble.UNHEALTHY
    if mode == "mig":
        trouble = Trouble.MIG
    return index, Card(name, min(slots, _MAX_SLOTS), memory, cores, kind.upper(), trouble)


# --- what pods ask for -----------------------------------------------------------------------------


def card_request(reader: Reader, spec: Object, notes: Object) -> CardRequest | None:
    """What the pod asks of cards; None when it asks for no GPU."""
    first = reader.objects(spec, "initContainers", "spec.initContainers")
    every = [*first, *reader.objects(spec, "containers", "spec.containers")]
    containers = [container.get("resources") for container in every]
    lasts = [container.get("restartPolicy") == "Always" for container in first]
    chosen = [reader.text(notes, f"nvidia.com/{key}", f"annotation nvidia.com/{key}") for key in _SELECTORS]
    mode = reader.text(notes, MODE, f"annotation {MODE}")
    if mode not in ("", _MODE):
        reader.note(f"annotation {MODE}", mode, f"a mode in which cards are shared here: there is only {_MODE}")
    try:
        request, problems = _request_of_text(orjson.dumps([containers, chosen, lasts]))
    except TypeError:
        reader.say("spec", "nested too deeply")
        return None
    for problem in problems:
        reader.take(problem)
    return request


@lru_cache(maxsize=8192)
def _request_of_text(text: bytes) -> tuple[CardRequest | None, tuple[str, ...]]:
    """The text is a key that is quick to make: equal pods are read once."""
    containers, chosen, lasts = orjson.loads(text)
    reader = Reader()
    asks = tuple(_ask(reader, one) for one in containers)
    if not any(asks):
        return None, tuple(reader.problems)
    if len(asks) > _MAX_CONTAINERS:
        reader.say("spec.containers", f"more than {_MAX_CONTAINERS} of a pod that asks for GPUs")
    kinds, not_kinds, ids, not_ids = (tuple(_words(one, ",")[:_MAX_SELECTED]) for one in chosen)
    upper = tuple(map(str.upper, kinds)), tuple(map(str.upper, not_kinds))
    asked = asks[:_MAX_CONTAINERS]
    return CardRequest(asked, *upper, ids, not_ids, _ending(asked, lasts)), tuple(reader.problems)


def _ending(asks: tuple[CardAsk | None, ...], lasts: list[bool]) -> tuple[int, ...]:
    """The init containers that are over before the pod's own ones start; where a sidecar has cards too, which is there
    all the time, none is taken for one."""
    if any(ask is not None and last for ask, last in zip(asks, lasts, strict=False)):
        return ()
    return tuple(at for at, (ask, _) in enumerate(zip(asks, lasts, strict=False)) if ask is not None)


def _ask(reader: Reader, resources: object) -> CardAsk | None:
    path = "container.resources"
    parts = reader.mapping({"resources": resources}, "resources", path)
    stated = {
        **reader.mapping(parts, "requests", f"{path}.requests"),
        **reader.mapping(parts, "limits", f"{path}.limits"),
    }
    number, memory, percent, cores = (_whole(reader, stated, n) for n in (GPU, GPU_MEMORY, GPU_PERCENT, GPU_CORES))
    if not number:
        if memory or percent or cores:
            reader.say(path, f"a share of a card without {GPU}")
        return None
    if cores > _FULL:
        reader.say(f"{path}[{GPU_CORES}]", f"{cores} is more than the {_FULL} of a card")
    return CardAsk(number, memory or None, None if memory or not percent else min(percent, _FULL), cores)


def _whole(reader: Reader, stated: Object, name: str) -> int:
    if stated.get(name) is None:
        return 0
    try:
        found = quantity.units(name, quantity.nanos(stated[name]))
    except quantity.QuantityError as error:
        reader.say(f"container.resources[{name}]", str(error))
        return 0
    if 0 <= found <= _MAX_SIZE:
        return found
    reader.note(f"container.resources[{name}]", found, "a number that a card may have")
    return 0


def _words(text: str, separator: str) -> list[str]:
    return [word.strip() for word in text.split(separator) if word.strip()]


# --- what pods were given --------------------------------------------------------------------------


def decode_shares(notes: Object, request: CardRequest | None = None) -> Shares:
    """What the pod was given, by container as in its request; () when no annotation that can be read says so."""
    text = notes.get(ALLOCATED)
    if text.__class__ is not str:
        return ()
    shares = _shares(text)
    if request is None or not request.passing or len(shares) != len(request.containers):
        return shares
    return tuple(_passing(given) if at in request.passing else given for at, given in enumerate(shares))


def _passing(given: tuple[Share, ...]) -> tuple[Share, ...]:
    return tuple(replace(share, passing=True) for share in given)


@lru_cache(maxsize=16384)
def _shares(text: str) -> Shares:
    try:
        containers = text.split(";")
        found = tuple(tuple(_share(p.split(",")) for p in one.split(":") if p.strip()) for one in containers[:-1])
    except _Unreadable:
        return ()
    return found if not containers[-1].strip() and len(found) <= _MAX_CONTAINERS and any(found) else ()


def _share(fields: list[str]) -> Share:
    if len(fields) != 4 or not fields[0].strip():
        raise _Unreadable("a share that is not of four fields")
    memory, cores = (_number(_integer(field), "share") for field in fields[2:])
    return Share(fields[0].strip().partition("[")[0], memory, cores)


def encode_shares(shares: Shares) -> str:
    """The shares as a device plugin reads them: `;` ends each container, also one that has none."""
    return "".join(_container(one) + ";" for one in shares)


def _container(shares: Iterable[Share]) -> str:
    return "".join(f"{share.card},{_WORD},{share.memory},{share.cores}:" for share in shares)


def binding_notes(shares: Shares, node: str, now: float) -> dict[str, str]:
    """Annotations of a Binding by which the node's device plugin hands out these shares."""
    text, then = encode_shares(shares), str(int(now))
    return {
        NODE: node,
        TIME: then,
        TO_ALLOCATE: text,
        ALLOCATED: text,
        PHASE: ALLOCATING,
        BIND_TIME: then,
    }


# --- the lock of a node ----------------------------------------------------------------------------


def decode_lock(text: str) -> Lock | None:
    """Who holds the lock, and since when; None for a text that no lock has."""
    since, *owner = text.split(",")
    seconds = seconds_of(since)
    if seconds is None or len(owner) not in (0, 2) or not all(owner):
        return None
    return Lock(seconds, *owner)


def encode_lock(lock: Lock) -> str:
    """The lock as the device plugin reads it."""
    since = datetime.datetime.fromtimestamp(int(lock.since), datetime.UTC)
    return f"{since:%Y-%m-%dT%H:%M:%SZ},{lock.namespace},{lock.name}"
