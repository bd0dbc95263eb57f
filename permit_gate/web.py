"""The gate over HTTP: `bind` for kube-scheduler, `holds` and `withdraw` for the extender.

Takes calls, gives the owner's answers; must not decide. A refusal is 200 with an Error field, for
kube-scheduler does not read the body of another status; what is no message of the protocol gets a 400.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from aiohttp import web

from extender.core.gate_messages import Why
from extender.runtime.leadership import Leadership
from extender.web import serve
from extender.wire import extender_v1, records
from permit_gate.owner import Owner

#: a bind call names one pod, a withdrawal the pods of one group
BODY_LIMIT = 2**20
LONGEST_POLL_SECONDS = 25.0
SHOWN_STORIES = 200

_OUTCOMES = {
    "": "bound",
    Why.INCOMPLETE: "expired",
    Why.TOO_FEW: "failed",
    Why.WITHDRAWN: "withdrawn",
    Why.POD_GONE: "gone",
    Why.POD_LEAVING: "gone",
    Why.SUPERSEDED: "conflict",
    Why.NO_ROOM: "conflict",
    Why.NODE_GONE: "conflict",
    Why.NODE_CLOSED: "conflict",
}


class Metrics(Protocol):
    """What the handlers tell."""

    def bind_answered(self, outcome: str, seconds: float) -> None:
        """A bind call was answered."""


class Handlers:
    """The gate's routes."""

    def __init__(self, owner: Owner, leadership: Leadership, metrics: Metrics) -> None:
        self._owner = owner
        self._leadership = leadership
        self._metrics = metrics
        #: when the calls came that are not answered yet, the oldest first
        self._came: dict[object, float] = {}

    def oldest(self) -> float:
        """For how many seconds the oldest call has been held; 0 when none is."""
        came = next(iter(self._came.values()), None)
        return 0.0 if came is None else time.perf_counter() - came

    def routes(self) -> list[web.RouteDef]:
        """All paths of the gate but health and metrics."""
        return [
            web.post("/bind", self.bind),
            web.get("/holds", self.holds),
            web.post("/withdraw", self.withdraw),
            serve.debug_route("state", self.state),
        ]

    async def bind(self, request: web.Request) -> web.Response:
        """Hold the call until its pod is bound, or will not be."""
        started = time.perf_counter()
        try:
            args = extender_v1.decode_bind_args(await serve.read_body(request))
        except extender_v1.WireError as error:
            self._metrics.bind_answered("malformed", time.perf_counter() - started)
            raise serve.BadRequest(str(error)) from None
        call = object()
        self._came[call] = started
        try:
            if not self._leadership.active:
                await self._leadership.confirm()  # the gate learns of it before the call: one inbox
            error_text = await self._owner.hold(args.uid, args.namespace, args.name, args.node)
        except asyncio.CancelledError:
            self._metrics.bind_answered("abandoned", time.perf_counter() - started)
            raise
        finally:
            del self._came[call]
        self._metrics.bind_answered(_OUTCOMES.get(error_text, "error"), time.perf_counter() - started)
        return serve.reply(extender_v1.encode_error(error_text) if error_text else extender_v1.BOUND)

    async def holds(self, request: web.Request) -> web.Response:
        """All held calls; with `after` and `wait` not before they differ from that sequence."""
        after, wait = _number(request, "after"), _number(request, "wait")
        if after is not None and wait:
            await self._owner.changed(after, min(float(wait), LONGEST_POLL_SECONDS))
        gate = self._owner.gate
        return serve.reply(records.encode_holds(records.HoldsAnswer(gate.shown(), gate.version)))

    async def withdraw(self, request: web.Request) -> web.Response:
        """Refuse the held calls of these pods, but for those that are being bound."""
        try:
            asked = records.decode_withdrawal(await serve.read_body(request))
        except extender_v1.WireError as error:
            raise serve.BadRequest(str(error)) from None
        return serve.reply(records.encode_withdrawn(await self._owner.withdraw(asked.uids)))

    async def state(self, _request: web.Request) -> web.Response:
        """The newest holds and what happened to them."""
        gate = self._owner.gate
        return serve.reply(
            {
                "active": self._leadership.active,
                "holds": gate.held,
                "binding": gate.binding,
                "newest": gate.stories(SHOWN_STORIES),
            }
        )


def _number(request: web.Request, name: str) -> int | None:
    text = request.query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise serve.BadRequest(f"{name} is not a number")
    return int(text)
