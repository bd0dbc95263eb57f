"""The scheduler's verbs over HTTP: filter, prioritize, preempt; and /release for the permit gate.

Takes calls, answers them out of the engine's view; must not decide, and must not await anything but one
cycle of the engine, within a deadline. Failures are 200 with an Error field: kube-scheduler does not read
the body of another status. The replies of prioritize and preempt have no such field: 400.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol

from aiohttp import web

from extender.core import explain, messages, verbs
from extender.core.engine import Engine
from extender.core.ids import SCHEDULER_NAME, PodUid
from extender.core.reasons import Reason
from extender.core.view import Member
from extender.runtime.leadership import Leadership
from extender.runtime.owner import Owner
from extender.web import serve
from extender.wire import extender_v1, hami, objects, records

#: a filter call waits at most so long for the cycle that judges its pod
CYCLE_SECONDS = 0.05
#: bodies of 10,000 node names, and of whole nodes
BODY_LIMIT = 64 * 2**20


class Metrics(Protocol):
    """What the verbs tell."""

    def verb(self, verb: str, outcome: str, seconds: float) -> None:
        """A call was answered from the view."""

    def filter_awaited(self, seconds: float) -> None:
        """A filter call was answered after a cycle that it had to await."""


class Verbs:
    """Handlers of the scheduler's calls and of the gate's."""

    def __init__(
        self,
        engine: Engine,
        owner: Owner,
        leadership: Leadership,
        metrics: Metrics,
        in_groups: Callable[[messages.FilterCalled], list[Any]],
    ) -> None:
        """`in_groups`: a call with its pod in its group, behind what has to be told of that group first."""
        self._in_groups = in_groups
        self._engine = engine
        self._owner = owner
        self._leadership = leadership
        self._metrics = metrics
        #: set once all lists are read and the gate's holds are known
        self.ready = False

    def routes(self) -> list[web.RouteDef]:
        """The paths that the scheduler's configuration names, and the gate's."""
        return [
            web.post("/filter", self.filter),
            web.post("/prioritize", self.prioritize),
            web.post("/preempt", self.preempt),
            web.post("/release", self.release),
        ]

    async def filter(self, request: web.Request) -> web.Response:
        """Which of the offered nodes the pod may go to: the planned one, or none."""
        started = time.perf_counter()
        try:
            args = extender_v1.decode_node_args(await serve.read_body(request))
            if extender_v1.scheduler_of(args.pod) != SCHEDULER_NAME:
                body, outcome, awaited = extender_v1.encode_passed(args, args.offered), "foreign", False
            else:
                body, outcome, awaited = await self._filter_ours(args)
        except (extender_v1.WireError, objects.DecodeError) as error:
            body, outcome, awaited = extender_v1.encode_error(str(error)), "malformed", False
        seconds = time.perf_counter() - started
        if awaited:
            self._metrics.filter_awaited(seconds)
        else:
            self._metrics.verb("filter", outcome, seconds)
        return serve.reply(body)

    async def _filter_ours(self, args: extender_v1.NodeArgs) -> tuple[bytes, str, bool]:
        if not self.ready:
            return extender_v1.encode_error(explain.TEXT[Reason.NOT_READY]), "error", False
        awaited = not self._engine.active
        if awaited and not await self._become_active():
            return extender_v1.encode_error(explain.TEXT[Reason.INACTIVE]), "error", True
        uid = PodUid(objects.metadata(args.pod, "uid")["uid"])
        answer: verbs.Accept | verbs.Reject | verbs.Fail | verbs.Ask
        answer = verbs.filter_known(self._engine.view, uid, args.offered)
        if isinstance(answer, verbs.Ask):
            awaited = True
            await self._judge(args)
            answer = verbs.filter_judged(self._engine.view, uid, args.offered)
        if isinstance(answer, verbs.Reject):
            self._owner.post(messages.FilterRejected(uid))
        return *_encoded(args, answer), awaited

    async def _become_active(self) -> bool:
        """The lease may have become ours a moment ago: look, and let the engine know first."""
        if not await self._leadership.confirm():
            return False
        await self._owner.ask(messages.Tick())
        return self._engine.active

    async def _judge(self, args: extender_v1.NodeArgs) -> None:
        *news, called = self._in_groups(messages.FilterCalled(objects.decode_pod(args.pod), args.offered))
        for one in news:
            self._owner.post(one)
        try:
            async with asyncio.timeout(CYCLE_SECONDS):
                await self._owner.ask(called)
                while self._engine.view.pending(called.pod.uid):
                    await self._owner.ask(messages.Tick())
        except TimeoutError:
            return  # the pod is judged all the same, and woken when that admits it

    async def prioritize(self, request: web.Request) -> web.Response:
        """Scores for pods without queue or gang: fuller nodes are better."""
        started = time.perf_counter()
        try:
            args = extender_v1.decode_node_args(await serve.read_body(request))
            points = verbs.scores(self._engine.world, objects.decode_pod(args.pod), args.offered)
            body = extender_v1.encode_scores(zip(args.offered, points, strict=True))
        except (extender_v1.WireError, objects.DecodeError) as error:
            self._metrics.verb("prioritize", "malformed", time.perf_counter() - started)
            raise serve.BadRequest(str(error)) from None
        self._metrics.verb("prioritize", "placed", time.perf_counter() - started)
        return serve.reply(body)

    async def preempt(self, request: web.Request) -> web.Response:
        """A veto for pods of ours: whom to evict for a gang is not for one member to say. Others pass."""
        started = time.perf_counter()
        try:
            args = extender_v1.decode_preempt_args(await serve.read_body(request))
            ours = extender_v1.scheduler_of(args.pod) == SCHEDULER_NAME
            body = extender_v1.PREEMPT_VETO if ours else extender_v1.encode_candidates(args.victims)
            outcome = "refused" if ours else "foreign"
        except extender_v1.WireError as error:
            self._metrics.verb("preempt", "malformed", time.perf_counter() - started)
            raise serve.BadRequest(str(error)) from None
        self._metrics.verb("preempt", outcome, time.perf_counter() - started)
        return serve.reply(body)

    async def release(self, request: web.Request) -> web.Response:
        """Whether the members of a group may be bound now, for the permit gate."""
        try:
            asked = records.decode_release(await serve.read_body(request))
        except extender_v1.WireError as error:
            raise serve.BadRequest(str(error)) from None
        if not (self.ready and self._engine.active):
            raise web.HTTPServiceUnavailable
        await self._owner.ask(messages.Tick())
        vetoes = self._engine.view.vetoes(Member(member.uid, member.node) for member in asked.members)
        answers: dict[PodUid, records.Grant | records.Veto] = {
            member.uid: records.Veto(vetoes[member.uid]) if member.uid in vetoes else self._grant(member)
            for member in asked.members
        }
        return serve.reply(records.encode_release_answer(answers))

    def _grant(self, member: records.Member) -> records.Grant:
        """What goes with the member's Binding: the cards that it is to have, in the words of its device plugin."""
        shares = self._engine.view.shares(member.uid)
        notes = hami.binding_notes(shares, member.node, time.time()) if shares else {}
        return records.Grant(tuple(sorted(notes.items())))


def _encoded(
    args: extender_v1.NodeArgs, answer: verbs.Accept | verbs.Reject | verbs.Fail | verbs.Ask
) -> tuple[bytes, str]:
    match answer:
        case verbs.Accept(node):
            return extender_v1.encode_passed(args, (node,)), "placed"
        case verbs.Reject(text):
            return extender_v1.encode_rejected(args, text), "refused"
        case verbs.Fail(text):
            return extender_v1.encode_error(text), "error"
    raise TypeError(f"{answer} is no answer")
