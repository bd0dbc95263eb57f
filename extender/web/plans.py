"""What if, over HTTPS: a Plan that is created is answered at once, and kept nowhere.

Takes the body of a request that was allowed, gives an object; must not change anything.
"""

from __future__ import annotations

from aiohttp import web

from extender.core.engine import Engine
from extender.core.whatif import taken, what_if
from extender.wire import plans
from extender.wire.fields import DecodeError

#: a pod with all that Kubernetes fills in is some KiB
BODY_LIMIT = 2**20


class Unanswerable(Exception):
    """The question cannot be answered: `code` and `reason` are those of a Status."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


async def body_of(request: web.Request) -> object:
    """The JSON of a request."""
    try:
        return await request.json()
    except ValueError:
        raise Unanswerable(400, "BadRequest", "the body is not JSON") from None


def answer(engine: Engine, content: object, namespace: str, now: float) -> dict[str, object]:
    """The outlook for the group that a body supposes."""
    try:
        group, pods = plans.decode_plan(content, namespace, now)
    except DecodeError as error:
        raise Unanswerable(422, "Invalid", str(error)) from None
    key = pods[0].group
    if taken(engine, key):
        raise Unanswerable(409, "Conflict", f"{key} has members already: ask why it waits")
    return plans.encode_outlook(what_if(engine, group, pods, now), pods[0].name if key.lone else key.name)
