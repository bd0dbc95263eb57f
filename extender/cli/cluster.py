"""Reading the cluster for one command: objects as they stand, and live answers where they are installed.

Takes an Api, gives decoded JSON; what cannot be read becomes a Problem. Must not write: dry runs and plans are
answered and forgotten. Live answers come through the
API server, so that the user's credentials and rights count there as everywhere; where there are none a note says why,
and the command tells what stands in objects.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from extender.cli import problems
from extender.cli.problems import Problem
from extender.kube import client, errors, resources
from extender.wire import answers, objects, usages

Object = dict[str, Any]
T = TypeVar("T")
PAGE = 500
#: what a template's metadata says of its pods
_OF_TEMPLATE = ("labels", "annotations")
#: of two replicas one answers; the other says when to ask again
_ASKED_AGAIN = 8
#: what must be worked out takes its time; the API server itself gives up after a minute
_WORKED_OUT_SECONDS = 70.0


def each(decode: Callable[[Object], T], contents: Iterable[Object]) -> Iterator[T]:
    """What can be decoded; an object without a name or the like is left out."""
    for content in contents:
        with contextlib.suppress(objects.DecodeError):
            yield decode(content)


async def _answered(ask: Callable[[], Awaitable[T]]) -> T:
    """What the replica that acts answers; the other one says when to ask again."""
    for left in reversed(range(_ASKED_AGAIN)):
        try:
            return await ask()
        except errors.ServerError as error:
            if not left or error.retry_after is None:
                raise
            await asyncio.sleep(error.retry_after)
    raise AssertionError("the last one returns or raises")


@dataclass(slots=True)
class Cluster:
    """One API server, and the namespace of the command (None: all). `notes` are for whoever reads the output."""

    api: client.Api
    namespace: str | None
    notes: list[str] = field(default_factory=list)
    _no_live: bool = False

    # --- objects --------------------------------------------------------------------------------

    async def every(self, resource: resources.Resource, namespace: str | None = None) -> list[Object]:
        """All objects of a resource, or of a namespace; none where the API server does not serve it."""
        served = await self._served(resource)
        if served is None:
            return []
        where = f"{resource.label} in namespace {namespace}" if namespace else resource.label
        path = resources.Served(replace(resource, namespace=namespace or ""), served.version).collection
        found = await self._pages(path, resource.field_selector, where)
        for item in found:
            item.setdefault("apiVersion", served.api_version)
        return found

    async def get(self, resource: resources.Resource, namespace: str, name: str) -> Object | None:
        """One object; None where there is none of that name."""
        served = await self._served(resource)
        if served is None:
            return None
        try:
            return await self.api.read(served.path(namespace, name))
        except errors.NotFound:
            return None
        except errors.KubeError as error:
            raise self._problem(error, f'{resource.label} "{name}" in namespace {namespace}') from error

    async def installed(self) -> bool:
        """Whether the API server knows our kinds of objects."""
        return await self._served(resources.POD_GROUPS) is not None

    async def _served(self, resource: resources.Resource) -> resources.Served | None:
        try:
            return await resources.probe(self.api, resource)
        except errors.KubeError as error:
            raise self._problem(error, resource.label) from error

    async def _pages(self, path: str, selector: str, where: str) -> list[Object]:
        """All pages of a list; once more from the beginning where it has grown too old on the way."""
        for last in (False, True):
            try:
                return [item async for item in self._items(path, selector)]
            except errors.Gone as error:
                if last:
                    raise self._problem(error, where) from error
            except errors.KubeError as error:
                raise self._problem(error, where) from error
        raise AssertionError("the second time returns or raises")

    async def _items(self, path: str, selector: str = "") -> AsyncIterator[Object]:
        token = ""
        while True:
            query = {"limit": str(PAGE)} | ({"continue": token} if token else {})
            page = await self.api.read(path, query=query | ({"fieldSelector": selector} if selector else {}))
            items, meta = page.get("items"), page.get("metadata")
            for item in items if isinstance(items, list) else ():
                if isinstance(item, dict):
                    yield item
            token = str(meta.get("continue") or "") if isinstance(meta, dict) else ""
            if not token:
                return

    def _problem(self, error: errors.KubeError, asked: str) -> Problem:
        return problems.of(error, asked, self.api.access.host)

    # --- live answers ---------------------------------------------------------------------------

    async def workload(self, namespace: str, name: str) -> Object | None:
        """What is answered about one group (`muster:train`)."""
        path = f"namespaces/{resources.quote(namespace)}/workloads/{resources.quote(name)}"
        found = await self._live(path, one=True)
        return found[0] if found else None

    async def workloads(self, namespace: str | None) -> list[Object] | None:
        """What is answered about all groups of a namespace, or of all; None where nothing is."""
        return await self._live(f"namespaces/{resources.quote(namespace)}/workloads" if namespace else "workloads")

    async def queues(self) -> list[Object] | None:
        """What is answered about all queues; None where nothing is."""
        return await self._live("queues")

    async def _live(self, path: str, one: bool = False) -> list[Object] | None:
        if self._no_live:
            return None
        try:
            return await self._asked(f"/apis/{answers.API_VERSION}/{path}", one)
        except errors.NotFound as error:
            if answers.GROUP in error.message:
                return None
            self._without(problems.NO_LIVE, problems.INSTALL_LIVE)
        except errors.Forbidden as error:
            self.note(f"without live answers: {error.message}")
        except (errors.ServerError, errors.Unreadable, errors.TooManyRequests) as error:
            self._without(f"{problems.LIVE_AWAY} ({error})", problems.LIVE_MEND)
        except errors.KubeError as error:
            raise self._problem(error, f"{answers.GROUP} {path}") from error
        return None

    async def _asked(self, path: str, one: bool) -> list[Object]:
        async def ask() -> list[Object]:
            return [await self.api.read(path)] if one else [item async for item in self._items(path)]

        return await _answered(ask)

    # --- what if --------------------------------------------------------------------------------

    async def dry_run(self, namespace: str, name: str, template: Object) -> Object:
        """A pod as it would be created of a template; nothing is."""
        meta = template.get("metadata")
        kept = {key: value for key, value in (meta if isinstance(meta, dict) else {}).items() if key in _OF_TEMPLATE}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": kept | {"generateName": f"{name}-"}}
        path = f"/api/v1/namespaces/{resources.quote(namespace)}/pods"
        try:
            made = await self.api.request(
                "POST", path, query={"dryRun": "All"}, body=body | {"spec": template.get("spec")}
            )
        except errors.ApiError as error:
            what = f"the API server would not create a pod of {name} in namespace {namespace}: {error.message or error}"
            raise Problem(what) from error
        except errors.KubeError as error:
            raise self._problem(error, f"pods in namespace {namespace}") from error
        found = client.decode_object(made)
        found["metadata"] = {**found.get("metadata", {}), "name": name}
        return found

    async def plan(self, namespace: str, spec: Object) -> Object:
        """What would become of a group; a Problem where nothing answers, as objects do not tell."""
        return await self._supposed(answers.PLANS, f"namespaces/{resources.quote(namespace)}/", spec)

    async def drain_plan(self, node: str) -> Object:
        """What would become of the pods of a node."""
        return await self._supposed(answers.DRAIN_PLANS, "", {"node": node})

    async def queue_plan(self, queues: list[Object]) -> Object:
        """What these queues would come to."""
        return await self._supposed(answers.QUEUE_PLANS, "", {"queues": queues})

    async def usage(self, since: str, until: str) -> Object:
        """What became of the GPUs between two times; a Problem where nothing answers, as objects do not tell."""
        path, query = f"/apis/{answers.API_VERSION}/usages/{usages.GPUS}", {"since": since, "until": until}
        return _status_of(await self._needed(lambda: self.api.read(path, query=query), answers.USAGES))

    async def _supposed(self, resource: answers.Resource, where: str, spec: Object) -> Object:
        path = f"/apis/{answers.API_VERSION}/{where}{resource.plural}"
        body = {"apiVersion": answers.API_VERSION, "kind": resource.kind, "spec": spec}
        made = await self._needed(
            lambda: self.api.request("POST", path, body=body, timeout=_WORKED_OUT_SECONDS), resource
        )
        return _status_of(client.decode_object(made))

    async def _needed(self, ask: Callable[[], Awaitable[T]], resource: answers.Resource) -> T:
        """A live answer without which there is nothing to say."""
        try:
            return await _answered(ask)
        except errors.NotFound as error:
            if error.message.startswith("nodes "):
                raise Problem(f"there is no {error.message.removesuffix(' not found')}") from error
            raise Problem(problems.NO_LIVE, problems.INSTALL_LIVE) from error
        except (errors.Invalid, errors.Conflict) as error:
            raise Problem(error.message) from error
        except errors.ServerError as error:
            raise Problem(f"{problems.LIVE_AWAY} ({error})", problems.LIVE_MEND) from error
        except errors.KubeError as error:
            raise self._problem(error, f"{resource.plural}.{answers.GROUP}") from error

    def _without(self, what: str, mend: str) -> None:
        self._no_live = True
        self.note(f"{what}; {mend}")

    def note(self, text: str) -> None:
        """Say this beside the output, once."""
        if text not in self.notes:
            self.notes.append(text)


def _status_of(answer: Object) -> Object:
    """What it says."""
    status = answer.get("status")
    return status if isinstance(status, dict) else {}
