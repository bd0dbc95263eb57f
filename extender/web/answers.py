"""The live answers over HTTPS, as an API that kube-apiserver serves under its own address (an aggregated API).

Takes requests that kube-apiserver passes on, answers them out of the engine. Must not believe who asks unless the
connection shows the certificate of kube-apiserver's front proxy, answer what its authorizer does not allow, or
change anything. Refusals are Status objects, as of any API server.

Both replicas serve discovery: were the API unavailable, the whole cluster would feel it (namespaces could not be
deleted). The answers know only the one that acts. The other says 503 and Retry-After and ends the connection, so
that a client that asks again, as kubectl and all clients of client-go do by themselves, soon finds it.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import NoReturn, Protocol, TypeVar

from aiohttp import web

from extender.core import explain
from extender.core.answers import Answers
from extender.core.ids import GroupKey, QueueName, Source
from extender.core.reasons import Reason
from extender.core.series import Series
from extender.telemetry import logs
from extender.web import plans, serve
from extender.web.rehearsals import Rehearsals
from extender.wire import answers as wire
from extender.wire import usages
from extender.wire.delegation import Asked, Decision, FrontProxy, User, user_of

LOG = logs.Log(__name__)
#: so many objects a page, also where more are asked for
PAGE = 500
#: so many are made before filter calls get their turn
_TURN = 25
RETRY_AFTER_SECONDS = 1
_LATER: wire.Object = {"retryAfterSeconds": RETRY_AFTER_SECONDS}
HEALTH = "/healthz"
_ROOT = f"/apis/{wire.API_VERSION}"
_NOBODY = ("", "")
T = TypeVar("T")


class Metrics(Protocol):
    """What is told here."""

    def answer(self, resource: str, code: int, seconds: float) -> None:
        """A reader was answered, or refused."""


class Refused(Exception):
    """The reader is told this instead of an answer."""

    def __init__(self, code: int, reason: str, message: str, details: wire.Object | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.body = wire.status_object(code, reason, message, details)


class ReviewFailed(Exception):
    """The authorizer did not answer."""


class Handlers:
    """What is served. `silent` says why there is no answer now; `review` fails with ReviewFailed."""

    def __init__(
        self,
        answers: Answers,
        series: Series,
        *,
        front_proxy: Callable[[], FrontProxy | None],
        review: Callable[[User, Asked], Awaitable[Decision]],
        silent: Callable[[], Reason | None],
        wall: Callable[[], float],
        metrics: Metrics,
    ) -> None:
        self._answers = answers
        self._series = series
        self._front_proxy = front_proxy
        self._review = review
        self._silent = silent
        self._wall = wall
        self._metrics = metrics
        self._counting = asyncio.Lock()
        self._rehearsals = Rehearsals(answers.engine)

    def application(self) -> web.Application:
        """All paths, behind the check of who asks."""
        app = web.Application(middlewares=[self._guard], client_max_size=plans.BODY_LIMIT)
        group = f"/apis/{wire.GROUP}"
        routes: list[tuple[str, Callable[[web.Request], Awaitable[web.Response]]]] = [
            (HEALTH, _healthy),
            ("/openapi/v2", _constant(wire.openapi())),
            ("/apis", _constant(wire.group_list())),
            (group, _constant(wire.group())),
            (_ROOT, _constant(wire.resource_list())),
            (f"{_ROOT}/workloads", self.list_workloads),
            (f"{_ROOT}/namespaces/{{namespace}}/workloads", self.list_workloads),
            (f"{_ROOT}/namespaces/{{namespace}}/workloads/{{name}}", self.get_workload),
            (f"{_ROOT}/queues", self.list_queues),
            (f"{_ROOT}/queues/{{name}}", self.get_queue),
            (f"{_ROOT}/usages/{{name}}", self.get_usage),
        ]
        app.add_routes([web.get(path, handler, allow_head=False) for path, handler in routes])
        app.add_routes(
            [
                web.post(f"{_ROOT}/namespaces/{{namespace}}/plans", self.create_plan),
                web.post(f"{_ROOT}/drainplans", self.create_drain_plan),
                web.post(f"{_ROOT}/queueplans", self.create_queue_plan),
            ]
        )
        return app

    # --- answers --------------------------------------------------------------------------------

    async def get_workload(self, request: web.Request) -> web.Response:
        """One group of a namespace."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        await self._allow(request, wire.WORKLOADS, namespace, name)
        named, key = wire.parse_name(name), None
        if named is not None:
            async for one in stepwise(self._answers.find(namespace, *named)):
                key = one
        await self._count()
        found = (None if key is None else self._workload(key, closer=True)) or self._gone(namespace, named)
        if found is None:
            _not_found(wire.WORKLOADS, name)
        return self._shown(request, wire.WORKLOADS, [found])

    async def list_workloads(self, request: web.Request) -> web.Response:
        """The groups of one namespace, or of all."""
        namespace = request.match_info.get("namespace")
        await self._allow(request, wire.WORKLOADS, namespace or "", "")
        limit, behind = _wanted(request)
        page: list[tuple[str, str, GroupKey]] = []
        left = 0
        async for some in stepwise(self._answers.groups(namespace)):
            named = [(here, wire.name_of(source, name), key) for here, source, name, key in some]
            later = [one for one in named if one[:2] > behind]
            left += len(later)
            page = heapq.nsmallest(limit, page + later)
        await self._count()
        items = [one async for one in self._made(key for _, _, key in page)]
        return self._shown(request, wire.WORKLOADS, items, _more(left - len(page), page[-1][:2] if page else behind))

    async def get_queue(self, request: web.Request) -> web.Response:
        """One queue."""
        name = request.match_info["name"]
        await self._allow(request, wire.QUEUES, "", name)
        await self._count()
        found = self._queue(QueueName(name))
        if found is None:
            _not_found(wire.QUEUES, name)
        return self._shown(request, wire.QUEUES, [found])

    async def list_queues(self, request: web.Request) -> web.Response:
        """All queues."""
        await self._allow(request, wire.QUEUES, "", "")
        limit, (_, behind) = _wanted(request)
        rest = [name for name in self._answers.queues() if name > behind]
        page = rest[:limit]
        await self._count()
        items = [item async for name in stepwise(page) if (item := self._queue(name)) is not None]
        return self._shown(
            request, wire.QUEUES, items, _more(len(rest) - len(page), ("", page[-1] if page else behind))
        )

    async def get_usage(self, request: web.Request) -> web.Response:
        """What became of the GPUs between two times."""
        name = request.match_info["name"]
        await self._allow(request, wire.USAGES, "", name)
        if name != usages.GPUS:
            _not_found(wire.USAGES, name)
        _tabular(request)
        now = self._wall()
        try:
            asked = usages.asked(request.query, now)
        except ValueError as error:
            _bad(str(error))
        return serve.reply(usages.usage(self._series, asked, now))

    async def create_plan(self, request: web.Request) -> web.Response:
        """What would become of a group."""
        namespace = request.match_info["namespace"]
        await self._allow(request, wire.PLANS, namespace, "", verb="create")
        _tabular(request)
        try:
            content = await plans.body_of(request)
            return serve.reply(plans.answer(self._answers.engine, content, namespace, self._wall()), 201)
        except plans.Unanswerable as error:
            raise Refused(error.code, error.reason, str(error)) from None

    async def create_drain_plan(self, request: web.Request) -> web.Response:
        """What would become of the pods of a node."""
        return await self._rehearsed(request, wire.DRAIN_PLANS, self._rehearsals.drain)

    async def create_queue_plan(self, request: web.Request) -> web.Response:
        """What other queues would come to."""
        return await self._rehearsed(request, wire.QUEUE_PLANS, self._rehearsals.queues)

    async def _rehearsed(
        self, request: web.Request, resource: wire.Resource, make: Callable[[object, float], Awaitable[bytes]]
    ) -> web.Response:
        await self._allow(request, resource, "", "", verb="create")
        _tabular(request)
        try:
            found = await make(await plans.body_of(request), self._wall())
        except plans.Unanswerable as error:
            raise Refused(error.code, error.reason, str(error)) from None
        return web.Response(body=found, status=201, content_type="application/json")

    async def _count(self) -> None:
        """Bring positions up to date; who comes while that is done waits for it."""
        async with self._counting:
            async for _ in stepwise(self._answers.count(self._wall())):
                pass

    async def _made(self, keys: Iterable[GroupKey]) -> AsyncIterator[wire.Object]:
        """An object of each group, but for what has gone meanwhile."""
        for number, key in enumerate(keys, 1):
            item = self._workload(key)
            if item is not None:
                yield item
            if not number % _TURN:
                await asyncio.sleep(0)

    def _workload(self, key: GroupKey, closer: bool = False) -> wire.Object | None:
        found, now = self._answers.workload(key), self._wall()
        if found is None:
            return None
        return wire.workload(found, now, self._answers.closer(found, now) if closer else None)

    def _gone(self, namespace: str, named: tuple[Source, str] | None) -> wire.Object | None:
        evictions = () if named is None else self._answers.gone(namespace, *named)
        return (
            None
            if named is None or not evictions
            else wire.gone(named[0], namespace, named[1], evictions, self._wall())
        )

    def _queue(self, name: QueueName) -> wire.Object | None:
        now = self._wall()
        found = self._answers.queue(name, now)
        return None if found is None else wire.queue(found, now)

    def _shown(
        self,
        request: web.Request,
        resource: wire.Resource,
        items: Sequence[wire.Object],
        more: wire.Object | None = None,
    ) -> web.Response:
        """One object (`more` None) or a list, in the form that is asked for."""
        if _tabular(request):
            include = request.query.get("includeObject") or "Metadata"
            if include not in ("None", "Metadata", "Object"):
                _bad("includeObject: None, Metadata or Object")
            return serve.reply(wire.table(resource, items, more or {}, include, self._wall()))
        return serve.reply(items[0] if more is None else wire.listed(resource, items, more))

    # --- who may ask ----------------------------------------------------------------------------

    async def _allow(
        self, request: web.Request, resource: wire.Resource, namespace: str, name: str, verb: str = ""
    ) -> None:
        """Refuse what is not allowed first, then what cannot be answered."""
        verb = verb or ("get" if name else "list")
        asked = Asked(verb, wire.GROUP, wire.VERSION, resource.plural, namespace, name)
        user = self._authenticate(request)
        decision = await self._review(user, asked)
        if not decision.allowed:
            where = f' in the namespace "{namespace}"' if namespace else " at the cluster scope"
            whole = f"{resource.plural}.{wire.GROUP}" + (f' "{name}"' if name else "")
            what = f'{whole} is forbidden: User "{user.name}"'
            because = f": {decision.reason}" if decision.reason else ""
            message = f'{what} cannot {asked.verb} resource "{resource.plural}" in API group "{wire.GROUP}"{where}'
            raise Refused(403, "Forbidden", message + because, _details(resource, name))
        silent = self._silent()
        if silent is not None:
            raise Refused(503, "ServiceUnavailable", explain.TEXT[silent], _LATER)

    @web.middleware
    async def _guard(self, request: web.Request, handler: serve.Handler) -> web.StreamResponse:
        started = time.perf_counter()
        try:
            if request.path != HEALTH:
                self._authenticate(request)  # also where nothing is asked of the authorizer
            response = await handler(request)
        except Refused as error:
            response = _refusal(error)
        except ReviewFailed:
            response = _refusal(Refused(503, "ServiceUnavailable", "the authorizer does not answer", _LATER))
        except web.HTTPException as error:
            response = _refusal(Refused(error.status, error.reason.replace(" ", ""), f"{error.reason}: no such call"))
        except Exception as error:
            # the reader gets a constant text; names of files and lines are for the log
            LOG.error("an answer failed", fault=error, path=request.path)
            response = _refusal(Refused(500, "InternalError", "internal error; the extender's log says more"))
        self._metrics.answer(_resource_of(request), response.status, time.perf_counter() - started)
        return response

    def _authenticate(self, request: web.Request) -> User:
        """Whom the front proxy names; without its certificate headers say nothing."""
        proxy = self._front_proxy()
        names = _common_names(request)
        if proxy is not None and names and proxy.admits(names[-1]):
            user = user_of(proxy, request.headers.items())
            if user is not None:
                return user
        raise Refused(401, "Unauthorized", "Unauthorized")


async def stepwise(steps: Iterable[T]) -> AsyncIterator[T]:
    """The steps, with a turn for filter calls after each."""
    for step in steps:
        yield step
        await asyncio.sleep(0)


def _common_names(request: web.Request) -> list[str]:
    """The common names of the client's certificate, which was found to be the authority's."""
    shown = request.transport.get_extra_info("peercert") if request.transport else None
    return [value for part in (shown or {}).get("subject", ()) for key, value in part if key == "commonName"]


# --- requests ----------------------------------------------------------------------------------------


def _wanted(request: web.Request) -> tuple[int, tuple[str, str]]:
    """How many objects a list may have, and behind which one it begins."""
    query = request.query
    if query.get("watch", "").lower() in ("1", "true"):
        raise Refused(405, "MethodNotAllowed", "live answers cannot be watched; ask again")
    for selector in ("labelSelector", "fieldSelector"):
        if query.get(selector):
            _bad(f"{selector}: live answers cannot be selected by it")
    limit = query.get("limit") or "0"
    if not (limit.isascii() and limit.isdigit() and len(limit) <= 18):
        _bad("limit: not a whole number")
    token = query.get("continue")
    behind = wire.decode_continue(token) if token else _NOBODY
    if behind is None:
        _bad("continue: not a token of this list")
    return min(int(limit) or PAGE, PAGE), behind


def _tabular(request: web.Request) -> bool:
    """Whether a table is preferred to the objects themselves."""
    for part in request.headers.get("Accept", "*/*").split(","):
        kind, *rest = (one.strip() for one in part.split(";"))
        wanted = dict(one.partition("=")[::2] for one in rest)
        if kind not in ("application/json", "application/*", "*/*"):
            continue
        if "as" not in wanted:
            return False
        if (wanted["as"], wanted.get("g"), wanted.get("v")) == ("Table", "meta.k8s.io", "v1"):
            return True
    raise Refused(406, "NotAcceptable", "only application/json is served, and tables of meta.k8s.io/v1")


def _resource_of(request: web.Request) -> str:
    """What was asked for, as a label."""
    route = request.match_info.route.resource
    path = "" if route is None else route.canonical
    return next((one.plural for one in wire.RESOURCES if f"/{one.plural}" in path.removeprefix(_ROOT)), "other")


# --- replies -----------------------------------------------------------------------------------------


def _more(left: int, last: tuple[str, str]) -> wire.Object:
    if left <= 0:
        return {"resourceVersion": ""}
    return {"resourceVersion": "", "continue": wire.encode_continue(*last), "remainingItemCount": left}


def _refusal(error: Refused) -> web.Response:
    response = serve.reply(error.body, error.code)
    if error.code == 503:
        response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
        response.force_close()
    return response


def _details(resource: wire.Resource, name: str) -> wire.Object:
    return {"group": wire.GROUP, "kind": resource.plural} | ({"name": name} if name else {})


def _not_found(resource: wire.Resource, name: str) -> NoReturn:
    what = f'{resource.plural}.{wire.GROUP} "{name}" not found'
    raise Refused(404, "NotFound", what, _details(resource, name))


def _bad(message: str) -> NoReturn:
    raise Refused(400, "BadRequest", message)


def _constant(content: wire.Object) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        _tabular(request)  # refuses forms that are not served
        return serve.reply(content)

    return answer


async def _healthy(_request: web.Request) -> web.Response:
    return web.Response(text="ok")
