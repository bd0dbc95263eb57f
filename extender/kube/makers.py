"""The objects that make pods, as events of the core: the kinds of the built-in table and those that a site adds.

Takes an Api, our namespace and what the watches show, gives it to a callback with each pod in its group, in order, and
for who asks with pods that are planned; must not decide. A kind that is not served has no objects, and is asked for
again and again. Pods of a kind that our account may not read stand alone, once it was refused for some seconds: an API
server that has just started refuses everybody.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from extender.core import makers
from extender.core.ids import GroupKey
from extender.core.makers import KindRead, MakerGone, MakerKey, MakerSeen, RecognitionsSeen
from extender.core.model import Group, Pod
from extender.core.suspended import Passed, Suspended
from extender.kube import client, errors, observing, resources, watch, writes
from extender.telemetry import logs
from extender.wire.kinds import Kind
from extender.wire.makers import decode_maker, key_of, recognitions_of
from extender.wire.user_kinds import USER_KINDS, decode_kinds, merged

LOG = logs.Log(__name__)
#: after so many seconds of refusals a right is taken as missing
REFUSED_SECONDS = 10.0
#: whether planned pods are still awaited is looked at so often
LOOK_SECONDS = 1.0
_FORBIDDEN = errors.Forbidden.kind


@dataclass(slots=True)
class _Kind:
    """A kind that is followed."""

    kind: Kind
    task: asyncio.Task[None]
    known: set[MakerKey] = field(default_factory=set)


class Makers:
    """Follows all kinds, and knows which pods are in which groups. `found` is called once, when every kind was listed,
    or cannot be."""

    def __init__(
        self,
        api: client.Api,
        namespace: str,
        put: Callable[[Any], None],
        found: Callable[[], None],
        observer: observing.Observer,
        wall: Callable[[], float] | None = None,
    ) -> None:
        """`wall` tells the time in seconds since the epoch to who also wants planned pods; None: who wants none."""
        self._api = api
        self._namespace = namespace
        self._pass_on = put
        self._wall = wall
        self._state = makers.Makers() if wall is None else Suspended()
        self._found = found
        self._observer = observer
        self._followed: dict[str, _Kind] = {}
        #: words of kinds that were not listed yet; None before it is known which kinds there are
        self._awaited: set[str] | None = None

    async def run(self) -> None:
        """Follow them for ever."""
        async with asyncio.TaskGroup() as running:
            if self._wall is not None:
                running.create_task(self._pass_time(self._wall), name="makers' time")
            resource = resources.config_map(self._namespace, USER_KINDS)
            refused = _Refused(self._observer, lambda: self._unread_names(running))
            events = watch.follow(self._api, resource, observer=refused, decode=decode_kinds)
            async with contextlib.aclosing(events):
                async for event in events:
                    if isinstance(event, watch.Change):
                        refused.over()
                        added, problems = ((), ()) if event.kind == watch.DELETED else event.object
                        for text in problems:
                            LOG.warning(f"a kind in the ConfigMap {USER_KINDS} is left out", problem=text)
                        self._follow(running, added)
                    elif not self._followed:
                        self._follow(running, ())

    def put(self, event: Any) -> None:
        """Hand on what a watch has shown."""
        for one in self.hear(event):
            self._pass_on(one)

    def hear(self, event: Any) -> list[Any]:
        """What an event means, for who is to hear of it in another way."""
        return self._state.hear(event)

    def place(self, pod: Pod) -> Pod:
        """A pod that was read, in its group."""
        return self._state.place(pod)

    async def read_group(self, key: GroupKey) -> Group | None:
        """The group as its maker wants it now; None when there is none. Raises KubeError and DecodeError."""
        of = makers.maker_key(key)
        kind = self._followed[of.kind].kind if of.kind in self._followed else None
        served = None if kind is None else await resources.probe(self._api, _resource(kind))
        if kind is None or served is None:
            return None
        content = await writes.read_group(self._api, served, of.namespace, of.name)
        return None if content is None else makers.group_of(decode_maker(kind, content), key)

    async def _pass_time(self, wall: Callable[[], float]) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.put(Passed(wall()))

    # --- which kinds ----------------------------------------------------------------------------

    def _unread_names(self, running: asyncio.TaskGroup) -> None:
        LOG.warning(f"the ConfigMap {USER_KINDS} may not be read: only the built-in kinds are known")
        if not self._followed:
            self._follow(running, ())

    def _follow(self, running: asyncio.TaskGroup, added: tuple[Kind, ...]) -> None:
        """From now on these kinds beside the built-in ones."""
        wanted = {kind.word: kind for kind in merged(added)}
        for word in [word for word, one in self._followed.items() if wanted.get(word) != one.kind]:
            self._stop(word)
        self.put(RecognitionsSeen(recognitions_of(wanted.values())))
        if self._awaited is None:
            self._awaited = set(wanted)
        for word, kind in wanted.items():
            if word not in self._followed:
                task = running.create_task(self._run(kind), name=f"makers {word}")
                self._followed[word] = _Kind(kind, task)

    def _stop(self, word: str) -> None:
        one = self._followed.pop(word)
        one.task.cancel()
        for key in one.known:
            self.put(MakerGone(key))
        self._listed(word)

    def _listed(self, word: str) -> None:
        if self._awaited and word in self._awaited:
            self._awaited.remove(word)
            if not self._awaited:
                self._found()

    # --- one kind -------------------------------------------------------------------------------

    async def _run(self, kind: Kind) -> None:
        refused = _Refused(self._observer, lambda: self._unread(kind))
        events = watch.follow(
            self._api, _resource(kind), observer=refused, decode=lambda content: decode_maker(kind, content)
        )
        async with contextlib.aclosing(events):
            async for event in events:
                if isinstance(event, watch.Change):
                    if refused.told:
                        LOG.info("makers of pods may be read now", kind=kind.name, group=kind.group)
                        self.put(KindRead(kind.word, True))
                    refused.over()
                self._tell(kind, event)

    def _tell(self, kind: Kind, event: watch.Event) -> None:
        known = self._followed[kind.word].known
        if isinstance(event, watch.Synced):
            self._listed(kind.word)
        elif event.kind == watch.DELETED:
            key = key_of(kind, event.identity.namespace, event.identity.name)
            known.discard(key)
            self.put(MakerGone(key))
        else:
            known.add(event.object.key)
            self.put(MakerSeen(event.object))

    def _unread(self, kind: Kind) -> None:
        LOG.warning(
            "makers of pods may not be read, so their pods stand alone: give our account get, list and watch",
            kind=kind.name,
            group=kind.group,
        )
        self.put(KindRead(kind.word, False))
        self._listed(kind.word)


def _resource(kind: Kind) -> resources.Resource:
    assert kind.together is not None
    together = kind.together
    return resources.Resource(kind.group, together.versions, together.plural, namespaced=True, optional=True)


class _Refused:
    """An observer that also notes for how long a right is missing, and tells it once."""

    def __init__(self, observer: observing.Observer, tell: Callable[[], None]) -> None:
        self._observer = observer
        self._tell = tell
        self._since: float | None = None
        self._read = False
        self.told = False
        self.request_done = observer.request_done
        self.watch_event = observer.watch_event
        self.object_set_aside = observer.object_set_aside

    def watch_restarted(self, resource: str, reason: str) -> None:
        """A list or watch ended."""
        self._observer.watch_restarted(resource, reason)
        if reason != _FORBIDDEN or self._read or self.told:
            return
        now = asyncio.get_running_loop().time()
        self._since = now if self._since is None else self._since
        if now - self._since >= REFUSED_SECONDS:
            self.told = True
            self._tell()

    def over(self) -> None:
        """Something was read: what is known stays good while it is refused later."""
        self._read, self._since, self.told = True, None, False
