"""The API server and the extender behind the ports of `owner`.

Takes the Kubernetes client and an HTTP session, gives the core's values; must not decide, nor report a
binding as done that no answer proves.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import weakref
from collections.abc import Iterator, Mapping

import aiohttp

from extender.core import gate_messages as gm
from extender.core import messages
from extender.core.ids import GroupKey, PodUid, Source
from extender.core.model import Group, Pod
from extender.kube import bind, client, errors, evicting, feeds, makers, node_lock, resources, writes
from extender.wire import hami, objects, records
from extender.wire.extender_v1 import WireError
from permit_gate.forwarding import Hami
from permit_gate.owner import Unavailable

RELEASE_SECONDS = 1.0


class Kubernetes:
    """The API server."""

    def __init__(self, api: client.Api, known: makers.Makers, forwarding: Hami | None = None) -> None:
        self._api = api
        self._makers = known
        self._hami = forwarding
        self._served: dict[Source, resources.Served] = {}
        self._turns = _Turns()

    async def bind(self, effect: gm.Bind) -> gm.BindDone:
        """Bind a pod and prove it."""
        notes = dict(effect.annotations)
        if self._hami is not None:
            return await self._bind_by(self._hami, effect, notes)
        if hami.NODE in notes:
            return await self._bind_locked(effect, notes)
        return _done(effect, await bind.bind(*self._pod(effect), effect.uid, effect.node, notes))

    async def _bind_by(self, forwarding: Hami, effect: gm.Bind, notes: dict[str, str]) -> gm.BindDone:
        """Leave the binding to HAMi if its filter has chosen cards for the pod: one after the other on a node."""
        async with self._turns.of(effect.node):
            outcome = await forwarding.forward(self._api, effect)
        if outcome is None and hami.NODE in notes:
            return gm.BindDone(effect.uid, "muster: HAMi's filter has chosen no cards for it: is it configured?")
        if outcome is None:
            outcome = await bind.bind(*self._pod(effect), effect.uid, effect.node, notes)
        return _done(effect, outcome)

    async def _bind_locked(self, effect: gm.Bind, notes: Mapping[str, str]) -> gm.BindDone:
        """Bind a pod whose cards are handed out under the lock of its node: one after the other."""
        api, namespace, name = self._pod(effect)
        async with self._turns.of(effect.node):
            why = await node_lock.take(api, effect.node, namespace, name)
            if why:
                return gm.BindDone(effect.uid, f"muster: {why}")
            outcome = await bind.bind(api, namespace, name, effect.uid, effect.node, notes)
            if outcome.verdict not in (bind.Verdict.BOUND, bind.Verdict.UNSETTLED):
                await node_lock.give_back(api, effect.node, namespace, name)
            return _done(effect, outcome)

    def _pod(self, effect: gm.Bind) -> tuple[client.Api, str, str]:
        return self._api, effect.namespace, effect.name

    async def read_pod(self, namespace: str, name: str) -> Pod | None:
        """The live pod."""
        with _unavailable():
            content = await writes.read_pod(self._api, namespace, name)
            return None if content is None else self._makers.place(objects.decode_pod(content))

    async def read_group(self, key: GroupKey) -> Group | None:
        """The live group object; None also where the API server does not serve its kind."""
        with _unavailable():
            if key.source is Source.OWNER:
                return await self._makers.read_group(key)
            served = self._served.get(key.source) or await self._probe(key.source)
            if served is None:
                return None
            content = await writes.read_group(self._api, served, key.namespace, key.name)
            return None if content is None else objects.decode_group(key.source, content)

    async def _probe(self, source: Source) -> resources.Served | None:
        resource = feeds.GROUP_RESOURCES.get(source)
        served = await resources.probe(self._api, resource) if resource is not None else None
        if served is not None:
            self._served[source] = served
        return served

    async def evict(self, effect: messages.Evict) -> None:
        """Evict a pod; one that is gone already is a success."""
        with _unavailable():
            await evicting.evict(self._api, effect)

    async def state(self, effect: gm.StateCondition) -> None:
        """Write a named condition on a pod."""
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {
            "type": f"muster.dev/{effect.reason}",
            "status": "True",
            "reason": effect.reason,
            "message": effect.text,
            "lastTransitionTime": now,
        }
        with _unavailable():
            await writes.set_pod_condition(self._api, effect.namespace, effect.name, effect.uid, condition)


class Extender:
    """The extender, asked before each release."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self._session = session
        self._url = f"{base}/release"

    async def release(self, effect: gm.AskRelease) -> Mapping[PodUid, Mapping[str, str] | None]:
        """Each member's Binding annotations, or None for a veto."""
        members = tuple(records.Member(m.uid, m.namespace, m.name, m.node) for m in effect.members)
        body = records.encode_release(records.ReleaseRequest(effect.key, members))
        limit = aiohttp.ClientTimeout(total=RELEASE_SECONDS)
        try:
            async with self._session.post(self._url, data=body, timeout=limit) as response:
                response.raise_for_status()
                said = records.decode_release_answer(await response.read())
        except (aiohttp.ClientError, TimeoutError, WireError) as error:
            raise Unavailable(f"{type(error).__name__} {error}".strip()) from error
        return {
            uid: dict(verdict.annotations) if isinstance(verdict, records.Grant) else None
            for uid, verdict in said.items()
        }


def _done(effect: gm.Bind, outcome: bind.Outcome) -> gm.BindDone:
    if outcome.verdict is bind.Verdict.BOUND:
        return gm.BindDone(effect.uid)
    text = f"muster: {outcome.verdict}: {outcome.text}"
    return gm.BindDone(effect.uid, text, gone=outcome.verdict is bind.Verdict.GONE)


class _Turns:
    """Who may lock a node next, in the order of their calls."""

    def __init__(self) -> None:
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    def of(self, node: str) -> asyncio.Lock:
        """The turn of this node, which lives as long as somebody has it or waits for it."""
        return self._locks.setdefault(node, asyncio.Lock())


@contextlib.contextmanager
def _unavailable() -> Iterator[None]:
    """What the client and the decoders raise, as the port's own exception."""
    try:
        yield
    except (errors.KubeError, objects.DecodeError) as error:
        raise Unavailable(str(error)) from error
