"""An endless, gapless account of one kind of objects.

Takes: an Api and a Resource. Gives: changes, level-triggered: whoever applies them in order holds what the
API server holds. Must not: end by itself, lose a deletion, or let one bad object or answer stop the others.

Three generators, each with one reason to end. `follow` never ends: it asks for the served version, backs
off after failures and reports them. `_list_and_watch` ends with the first failure. `_watch_once` ends when
the API server closes the watch, which is normal: each lasts some minutes, and slow readers are closed at
once. What survives all that is in one Cursor.

After a relist, objects that vanished unseen come as DELETED, and unchanged ones do not come at all. An
object that was created again under its name is preceded by the DELETED of the old uid.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, Literal

import aiohttp

from extender.kube import backoff, client, errors, identities, observing, resources

ADDED: Literal["ADDED"] = "ADDED"
MODIFIED: Literal["MODIFIED"] = "MODIFIED"
DELETED: Literal["DELETED"] = "DELETED"
LINE_LIMIT = 16 * 2**20
#: objects handled between two turns for others on the event loop: some milliseconds
TURN = 20
#: refusals in a row after which the position is not trusted any more, as after a restore of etcd
DISTRUST_AFTER = 5

Kind = Literal["ADDED", "MODIFIED", "DELETED"]
Decode = Callable[[dict[str, Any]], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """One object is new, different, or gone.

    `object` is what `decode` made of it; of a DELETED one always the raw stub `{"metadata": {...}}`.
    """

    kind: Kind
    object: Any
    identity: identities.Identity


@dataclasses.dataclass(frozen=True, slots=True)
class Synced:
    """All that existed has been told; comes once. A resource that is not served is in sync with nothing."""


Event = Change | Synced


@dataclasses.dataclass(frozen=True, slots=True)
class Pace:
    """Sizes and times of a watch, in seconds."""

    page: int = 500
    list_timeout: float = 60.0
    #: how long the API server is asked to keep a watch, before the resource's own offset
    watch_timeout: int = 290
    #: bookmarks come each minute, so more silence than this is a dead connection
    idle: float = 150.0
    backoff_first: float = 0.1
    backoff_ceiling: float = 10.0
    #: a watch that told nothing, not even a bookmark, for so long is resumed by a list: after a restore of etcd the
    #: position may lie in the future, and the API server waits for it in silence
    silence: float = 120.0
    #: how often an optional resource that is not served is asked for
    reprobe: float = 30.0
    #: a watch that told nothing and was closed sooner than this counts as a failure
    shortest: float = 1.0


class Cursor:
    """Where one follower stands. Written by this module only; survives every reconnection."""

    def __init__(self, resource: resources.Resource, decode: Decode, observer: observing.Observer) -> None:
        self.label = resource.label
        self.decode = decode
        self.observer = observer
        self.known = identities.Known()
        #: where to resume watching; empty: list first
        self.position = ""
        #: the watch has told something since the last failure
        self.progressed = False
        self.refusals = 0
        self._synced = False

    def sync(self) -> Iterator[Synced]:
        """Synced, the first time."""
        if not self._synced:
            self._synced = True
            yield Synced()

    def apply(self, content: object) -> Iterator[Change]:
        """The changes that the existence of this object means."""
        try:
            identity = identities.identity_of(content)
        except identities.Malformed as error:
            self.observer.object_set_aside(self.label, "", error)
            return
        before = self.known.get(identity.uid)
        replaced = self.known.see(identity)
        if replaced is not None:
            yield Change(DELETED, replaced.stub(), replaced)
        if before is not None and before.resource_version == identity.resource_version != "":
            return
        try:
            decoded = self.decode(content)  # type: ignore[arg-type]  # identity_of has seen that it is a dict
        except Exception as error:  # whatever a decoder stumbles over is the fault of one object
            self.observer.object_set_aside(self.label, f"{identity.namespace}/{identity.name}", error)
            return
        yield Change(ADDED if before is None else MODIFIED, decoded, identity)

    def remove(self, content: object) -> Iterator[Change]:
        """The change that the deletion of this object means; none if it was not known."""
        try:
            identity = identities.identity_of(content)
        except identities.Malformed as error:
            self.observer.object_set_aside(self.label, "", error)
            return
        if self.known.forget(identity.uid) is not None:
            yield Change(DELETED, identity.stub(), identity)

    def keep_only(self, present: set[str]) -> Iterator[Change]:
        """The deletions of all objects that a complete list did not hold."""
        for identity in self.known.forget_others(present):
            yield Change(DELETED, identity.stub(), identity)


async def follow(
    api: client.Api,
    resource: resources.Resource,
    *,
    observer: observing.Observer,
    decode: Decode = lambda content: content,
    pace: Pace = Pace(),
) -> AsyncGenerator[Event, None]:
    """Tell of all objects of `resource`, for ever; ends by `aclose` or when the reader is cancelled.

    `decode` turns each raw object into what the reader wants; an object on which it raises is set aside,
    and an older state of it stays the newest that was told. Missing optional resources are asked for again
    and again.
    """
    cursor = Cursor(resource, decode, observer)
    delays = backoff.Backoff(pace.backoff_first, pace.backoff_ceiling)
    while True:
        try:
            served = await resources.probe(api, resource)
            if served is None:
                for event in _not_served(resource, cursor):
                    yield event
                await asyncio.sleep(pace.reprobe)
                continue
            async with contextlib.aclosing(_list_and_watch(api, served, cursor, pace)) as events:
                async for event in events:
                    yield event
            observer.watch_restarted(cursor.label, "silent")
        except errors.KubeError as error:
            observer.watch_restarted(cursor.label, error.kind)
            await asyncio.sleep(_delay_after(error, cursor, delays))


def _not_served(resource: resources.Resource, cursor: Cursor) -> Iterator[Event]:
    """What a missing resource means: no objects if it is optional; the others cannot be missing."""
    if not resource.optional:
        raise errors.NotServed(f"{resource.label} in any of {', '.join(resource.versions)}")
    cursor.position = ""
    yield from cursor.keep_only(set())
    yield from cursor.sync()


def _delay_after(error: errors.KubeError, cursor: Cursor, delays: backoff.Backoff) -> float:
    """Note a failure in the cursor; returns how long to wait."""
    unreadable = isinstance(error, errors.Unreadable)
    # an unreadable object is still there after the relist: slow down
    if cursor.progressed and not unreadable:
        delays.reset()
        cursor.refusals = 0
    cursor.progressed = False
    cursor.refusals += isinstance(error, errors.ApiError)
    if unreadable or isinstance(error, errors.Gone) or cursor.refusals >= DISTRUST_AFTER:
        cursor.position = ""
        cursor.refusals = 0
    asked = error.retry_after if isinstance(error, errors.ApiError) else None
    return max(delays.next(), asked or 0.0)


async def _list_and_watch(
    api: client.Api, served: resources.Served, cursor: Cursor, pace: Pace
) -> AsyncGenerator[Event, None]:
    """List if there is no position to resume from, then watch until that fails or was silent for too long."""
    if not cursor.position:
        async with contextlib.aclosing(_list(api, served, cursor, pace)) as events:
            async for event in events:
                yield event
        for synced in cursor.sync():
            yield synced
    while True:
        started, position = _now(), cursor.position
        try:
            async with contextlib.aclosing(_watch_once(api, served, cursor, pace)) as changes:
                async for change in changes:
                    yield change
        finally:
            if cursor.position == position and _now() - started >= pace.silence:
                cursor.position = ""
        if not cursor.position:
            return
        if cursor.position == position and _now() - started < pace.shortest:
            raise errors.Unreachable("watch closed at once")
        cursor.observer.watch_restarted(cursor.label, "closed")


async def _list(api: client.Api, served: resources.Served, cursor: Cursor, pace: Pace) -> AsyncGenerator[Change, None]:
    """One consistent list, page by page; deletions and the position are known after the last page."""
    present: set[str] = set()
    position = ""
    async with contextlib.aclosing(_pages(api, served, pace)) as pages:
        async for page in pages:
            for index, item in enumerate(_items(page, served)):
                if index % TURN == TURN - 1:
                    await asyncio.sleep(0)
                for change in cursor.apply(item):
                    yield change
                with contextlib.suppress(identities.Malformed):  # reported by apply
                    present.add(identities.identity_of(item).uid)
            position = _text(_metadata(page), "resourceVersion")
    if not position:
        raise errors.Unreadable("a list without resourceVersion")
    for change in cursor.keep_only(present):
        yield change
    cursor.position = position


async def _pages(api: client.Api, served: resources.Served, pace: Pace) -> AsyncGenerator[dict[str, Any], None]:
    """The pages of a list, all of the same state, the newest: that is what no resourceVersion means.

    A page that is too large is asked for again at half the length. An expired continue token raises Gone.
    """
    limit, token = pace.page, ""
    while True:
        query = {"limit": str(limit)} | ({"continue": token} if token else {}) | _selector(served.resource)
        try:
            page = await api.read(served.collection, query=query, timeout=pace.list_timeout)
        except errors.Unreadable:
            if limit == 1:
                raise
            limit = max(limit // 2, 1)
            continue
        yield page
        token = _text(_metadata(page), "continue")
        if not token:
            return


def _items(page: dict[str, Any], served: resources.Served) -> Iterator[object]:
    """The objects of a page; those of built-in kinds lack what the list says for all, and get it here."""
    items = page.get("items")
    kind = _text(page, "kind").removesuffix("List")
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict):
            item.setdefault("apiVersion", served.api_version)
            item.setdefault("kind", kind)
        yield item


async def _watch_once(
    api: client.Api, served: resources.Served, cursor: Cursor, pace: Pace
) -> AsyncGenerator[Change, None]:
    """One request: the changes since the position, until the API server closes it."""
    query = {
        "watch": "1",
        "resourceVersion": cursor.position,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(pace.watch_timeout + served.resource.stagger),
    } | _selector(served.resource)
    handled = 0
    async with (
        api.stream(served.collection, query, pace.idle) as content,
        contextlib.aclosing(_lines(content)) as chunks,
    ):
        async for lines, arrived in chunks:
            for line in lines:
                handled += 1
                if handled % TURN == 0:
                    await asyncio.sleep(0)
                for change in _changes(line, cursor):
                    cursor.observer.watch_event(cursor.label, _now() - arrived)
                    yield change


def _changes(line: bytes, cursor: Cursor) -> Iterator[Change]:
    """What one line of a watch means; the position moves on only after the reader has had it."""
    event = client.decode_object(line)
    kind, content = event.get("type"), event.get("object")
    if kind == "ERROR":
        raise _error_of(content)
    if kind in (ADDED, MODIFIED):
        yield from cursor.apply(content)
    elif kind == DELETED:
        yield from cursor.remove(content)
    elif kind != "BOOKMARK":
        raise errors.Unreadable(f"watch event of type {str(kind)[:40]}")
    position = _text(_metadata(content), "resourceVersion")
    if position:
        cursor.position = position
        cursor.progressed = True


def _error_of(content: object) -> errors.KubeError:
    code = content.get("code") if isinstance(content, dict) else None
    if not isinstance(content, dict) or not isinstance(code, int):
        return errors.Unreadable("watch error without a code")
    return errors.from_status(code, content)


async def _lines(content: aiohttp.StreamReader) -> AsyncGenerator[tuple[list[bytes], float], None]:
    """The complete lines of each chunk, with the time of its arrival; blank ones are left out.

    What follows the last line end of a closed stream is half an event: it comes again when the watch is
    resumed.
    """
    pending: list[bytes] = []
    size = 0
    async for chunk in content.iter_any():
        arrived = _now()
        first, *others = chunk.split(b"\n")
        pending.append(first)
        size += len(first)
        if others:
            *lines, rest = (b"".join(pending), *others)
            pending, size = [rest], len(rest)
            if any(len(line) > LINE_LIMIT for line in lines):
                raise errors.Unreadable(f"a watch event of more than {LINE_LIMIT} bytes")
            yield [line for line in lines if line.strip()], arrived
        if size > LINE_LIMIT:
            raise errors.Unreadable(f"a watch event of more than {LINE_LIMIT} bytes")


def _selector(resource: resources.Resource) -> dict[str, str]:
    selectors = {"fieldSelector": resource.field_selector, "labelSelector": resource.label_selector}
    return {name: selector for name, selector in selectors.items() if selector}


def _metadata(content: object) -> dict[str, Any]:
    metadata = content.get("metadata") if isinstance(content, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def _text(content: dict[str, Any], key: str) -> str:
    value = content.get(key)
    return value if isinstance(value, str) else ""


def _now() -> float:
    return asyncio.get_running_loop().time()
