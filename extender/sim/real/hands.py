"""The requests of a run to the API server, through our own client.

Takes writes as values, gives the objects that came of them; a refusal is an exception of `extender.kube.errors`. Must
not decide, nor try again.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Protocol

from extender.kube import client, errors, observing, resources, watch
from extender.sim.api import Json
from extender.sim.real.cluster import Write
from extender.sim.real.translation import RUN
from extender.wire.answers import API_VERSION, WORKLOADS

_SCHEDULING = "/apis/scheduling.k8s.io/v1"
#: where each kind stands; %s is the namespace
_PATHS = {
    "Namespace": "/api/v1/namespaces",
    "Node": "/api/v1/nodes",
    "PriorityClass": f"{_SCHEDULING}/priorityclasses",
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
    "Queue": "/apis/muster.dev/v1alpha1/queues",
    "Topology": "/apis/muster.dev/v1alpha1/topologies",
    "PodGroup": "/apis/muster.dev/v1alpha1/namespaces/%s/podgroups",
    "Pod": "/api/v1/namespaces/%s/pods",
    "ConfigMap": "/api/v1/namespaces/%s/configmaps",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/%s/poddisruptionbudgets",
    "ServiceAccount": "/api/v1/namespaces/%s/serviceaccounts",
}
_CUSTOM = frozenset({"Queue", "Topology", "PodGroup"})
#: what is watched, by kind
WATCHED = {
    "Pod": resources.PODS,
    "PodGroup": resources.POD_GROUPS,
    "Queue": resources.QUEUES,
    "Event": resources.Resource("", ("v1",), "events", namespaced=True),
}
#: what a run leaves, in the order in which it is removed; the namespace takes the rest along
_LEFT = ("Pod", "PodGroup", "Queue", "Node", "Topology", "PriorityClass", "RuntimeClass")


class Port(Protocol):
    """What a run asks of a cluster."""

    async def carry_out(self, write: Write) -> Json:
        """Do one write; the object as it is then."""

    async def read(self, kind: str, name: str) -> Json | None:
        """An object as it is now, or None."""

    def follow(self, kind: str) -> AsyncIterator[watch.Event]:
        """All changes of a kind, raw, for ever."""

    async def answers(self) -> list[Json] | None:
        """The live answers about the run's workloads, or None where none are served."""

    async def clean(self) -> None:
        """Have all removed that the run has made; the namespace takes its time."""


class Hands:
    """One run's requests; `name` is its namespace."""

    def __init__(self, api: client.Api, name: str) -> None:
        self._api = api
        self._name = name

    async def carry_out(self, write: Write) -> Json:
        """Do one write; the object as it is then."""
        path = self._collection(write.kind)
        if write.verb == "create":
            answer = await self._api.request("POST", path, body=write.body)
        elif write.verb == "patch":
            path = f"{self._path(write.kind, write.name)}{'/' if write.subresource else ''}{write.subresource}"
            merge = client.MERGE_PATCH if write.kind in _CUSTOM else client.STRATEGIC_PATCH
            answer = await self._api.request("PATCH", path, body=write.body, content_type=merge)
        else:
            answer = await self._api.request("DELETE", self._path(write.kind, write.name), body=_deletion(write))
        return client.decode_object(answer)

    async def read(self, kind: str, name: str) -> Json | None:
        """An object as it is now, or None."""
        try:
            return await self._api.read(self._path(kind, name))
        except errors.NotFound:
            return None

    def follow(self, kind: str) -> AsyncIterator[watch.Event]:
        """All changes of a kind, raw, for ever."""
        row = WATCHED[kind]
        if row.namespaced:
            row = resources.Resource(
                row.group, row.versions, row.plural, namespaced=True, optional=row.optional, namespace=self._name
            )
        return watch.follow(self._api, row, observer=observing.Silent())

    async def answers(self) -> list[Json] | None:
        """The live answers about the run's workloads, or None where none are served; a run has one page of them."""
        path = f"/apis/{API_VERSION}/namespaces/{resources.quote(self._name)}/{WORKLOADS.plural}"
        try:
            found: list[Json] = (await self._api.read(path))["items"]
        except errors.NotFound:
            return None
        return found

    async def clean(self) -> None:
        """Have all removed that the run has made; the namespace takes its time."""
        for kind in _LEFT:
            query = {"labelSelector": f"{RUN}={self._name}"}
            body = {"gracePeriodSeconds": 0}
            with contextlib.suppress(errors.NotFound):  # Muster may not be installed
                await self._api.request("DELETE", self._collection(kind), query=query, body=body)
        with contextlib.suppress(errors.NotFound):
            await self._api.request("DELETE", self._path("Namespace", self._name))

    def _collection(self, kind: str) -> str:
        path = _PATHS[kind]
        return path % resources.quote(self._name) if "%s" in path else path

    def _path(self, kind: str, name: str) -> str:
        return f"{self._collection(kind)}/{resources.quote(name)}"


def _deletion(write: Write) -> dict[str, Any]:
    options: dict[str, Any] = {"preconditions": {"uid": write.uid}} if write.uid else {}
    return options | ({"gracePeriodSeconds": 0} if write.now else {})
