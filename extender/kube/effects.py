"""The engine's effects as writes to the API server.

Takes effects, does their writes, and says by the exception whether trying again may help; must not decide.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable

from extender.core import explain, messages
from extender.core.switches import Switch
from extender.kube import client, errors, evicting, feeds, resources, writes
from extender.telemetry import logs
from extender.wire import evictions, objects, status

LOG = logs.Log(__name__)

_OfGroup = messages.StateGroup | messages.NoteEviction
_PODS = resources.Served(resources.PODS, "v1")


class Effects:
    """Writes effects of pods, groups, queues and the list of open queues."""

    def __init__(self, api: client.Api, namespace: str, utc: Callable[[], datetime.datetime]) -> None:
        self._api = api
        self._namespace = namespace
        self._utc = utc
        self._served: dict[resources.Resource, resources.Served] = {}

    async def write(self, effect: messages.Effect) -> None:
        """Carry out one effect; errors of extender.kube.errors pass through."""
        match effect:
            case messages.Ungate():
                await writes.ungate(self._api, effect.namespace, effect.name, effect.uid)
            case messages.Nominate():
                await writes.nominate(self._api, effect.namespace, effect.name, effect.uid, effect.node)
            case messages.Wake():
                await writes.wake(self._api, effect.namespace, effect.name, effect.uid, effect.token)
            case messages.Suspend():
                await self._suspend(effect.switch, effect.on, effect.at)
            case messages.SetOpenQueues():
                await writes.put_open_queues(self._api, self._namespace, effect.names)
            case messages.StateGroup():
                await self._state_group(effect)
            case messages.StateQueue():
                await self._state_queue(effect)
            case messages.Evict():
                await evicting.evict(self._api, effect, functools.partial(self._stop, effect.stop))
            case messages.NoteEviction():
                await self._note_eviction(effect)
            case _:
                raise TypeError(f"no write for {type(effect).__name__}")

    async def _stop(self, switch: Switch | None) -> None:
        """Suspend what makes a pod that is evicted, if it can be, and is."""
        try:
            if switch is not None:
                await self._suspend(switch, True)
        except errors.Forbidden as error:
            LOG.warning("its pods are evicted, and it is not suspended", of=str(switch), error=error)

    async def _suspend(self, switch: Switch, on: bool, at: float = 0.0) -> None:
        resource = resources.Resource(switch.group, switch.versions, switch.plural, namespaced=True, optional=True)
        served = await self._serving(resource)
        if served is None:
            raise errors.NotServed(f"the API server does not serve {resource.label}")
        await writes.suspend(self._api, served.path(switch.namespace, switch.name), switch, on, at)

    async def _state_group(self, effect: messages.StateGroup) -> None:
        served = await self._serving(feeds.GROUP_RESOURCES[effect.key.source])
        if served is None:
            return
        await self._patch_group(effect, served, status.patches(effect, self._time()))
        reason, text = status.reason_and_text(effect)
        await self._tell_of_group(effect, served, reason, text, "Normal" if effect.refusal is None else "Warning")

    async def _note_eviction(self, effect: messages.NoteEviction) -> None:
        why = explain.why_evicted(effect.ground, effect.detail)
        if effect.key.lone:
            await self._tell(effect, _PODS, "Pod", effect.name, effect.ground, why, "Warning")
            return
        served = await self._serving(feeds.GROUP_RESOURCES[effect.key.source])
        if served is None:
            return
        await self._patch_group(effect, served, evictions.patches(effect))
        await self._tell_of_group(effect, served, effect.ground, why, "Warning")

    async def _patch_group(self, effect: _OfGroup, served: resources.Served, patches: status.Patches) -> None:
        path = served.path(effect.key.namespace, effect.key.name)
        if patches.status is not None:
            body = patches.status | {"metadata": {"uid": effect.uid}}
            await writes.patch_status(self._api, path, body, strategic=patches.strategic)
        if patches.annotations is not None:
            await writes.patch_annotations(self._api, path, effect.uid, patches.annotations)

    async def _state_queue(self, effect: messages.StateQueue) -> None:
        served = await self._serving(resources.QUEUES)
        if served is not None:
            body = {"status": objects.encode_queue_status(effect.status, effect.before)}
            await writes.patch_status(self._api, served.path("", effect.name), body)

    async def _tell_of_group(
        self, effect: _OfGroup, served: resources.Served, reason: str, text: str, kind: str
    ) -> None:
        await self._tell(effect, served, "PodGroup", effect.key.name, reason, text, kind)

    async def _tell(
        self, effect: _OfGroup, served: resources.Served, what: str, name: str, reason: str, text: str, kind: str
    ) -> None:
        involved = {
            "apiVersion": served.api_version,
            "kind": what,
            "namespace": effect.key.namespace,
            "name": name,
            "uid": effect.uid,
        }
        await writes.create_event(self._api, effect.key.namespace, involved, reason, text, kind)

    def _time(self) -> str:
        return f"{self._utc():%Y-%m-%dT%H:%M:%SZ}"

    async def _serving(self, resource: resources.Resource) -> resources.Served | None:
        if resource not in self._served:
            found = await resources.probe(self._api, resource)
            if found is None:
                return None
            self._served[resource] = found
        return self._served[resource]


#: an authorizer that has just started needs a second or a few to read its rules
_FORBIDDEN_SECONDS = 1.0


def retry_of(error: errors.KubeError) -> float | None:
    """Seconds after which the same write may succeed; None when it never will."""
    if isinstance(error, errors.TooManyRequests):
        return error.retry_after or 0.0
    if isinstance(error, errors.Forbidden) and error.may_pass:
        return _FORBIDDEN_SECONDS
    if isinstance(error, errors.ServerError | errors.Unreachable | errors.Conflict | errors.Unauthorized):
        return 0.0
    return None
