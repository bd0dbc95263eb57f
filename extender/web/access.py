"""Who looks at the page, and what of it that reader may see.

Takes a request with a token, gives a user and rights, or Denied; must not believe anything but what the API server says
of the token and of the user, whichever address asks, or let a token get into a log or an answer.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web

from extender.web.board import Sees
from extender.wire import answers as wire
from extender.wire import usages
from extender.wire.delegation import Asked, Decision, User

#: longer ones are nobody's: a token that the API server makes has some hundreds of characters
TOKEN_LIMIT = 6000
#: a reader who may not see all namespaces may name so many
NAMESPACES = 32
_BEARER = re.compile(rf"Bearer ([\x21-\x7e]{{1,{TOKEN_LIMIT}}})")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_ACCOUNT = re.compile(r"system:serviceaccount:([^:]+):[^:]+")


class Denied(Exception):
    """The reader is told this, and nothing else."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Access:
    """Asks the API server. `authenticate` tells whose a token is, `review` what a user may do."""

    def __init__(
        self,
        authenticate: Callable[[str], Awaitable[User | None]],
        review: Callable[[User, Asked], Awaitable[Decision]],
    ) -> None:
        self._authenticate = authenticate
        self._review = review

    async def user(self, request: web.Request) -> User:
        """Whose token the request bears."""
        shown = _BEARER.fullmatch(request.headers.get("Authorization", ""))
        if shown is None:
            raise Denied(401, "sign in with a token of the cluster")
        user = await self._authenticate(shown[1])
        if user is None:
            raise Denied(401, "the API server does not accept this token; it may have expired")
        return user

    async def sees(self, user: User, named: Iterable[str]) -> Sees:
        """What this user may see: all namespaces, or those of the named ones that are allowed."""
        everything, queues, nodes = await asyncio.gather(
            self._allows(user, "list", wire.WORKLOADS.plural),
            self._allows(user, "list", wire.QUEUES.plural),
            self._allows(user, "list", "nodes", group="", version="v1"),
        )
        if everything:
            return Sees(None, queues, nodes)
        names = sorted(set(named))
        allowed = await asyncio.gather(*(self._allows(user, "list", wire.WORKLOADS.plural, name) for name in names))
        return Sees(frozenset(name for name, may in zip(names, allowed, strict=True) if may), queues, nodes)

    async def must_get(self, user: User, namespace: str, name: str) -> None:
        """Denied unless this user may read this workload."""
        if not await self._allows(user, "get", wire.WORKLOADS.plural, namespace, name):
            raise Denied(403, "you may not read this workload")

    async def must_get_usage(self, user: User) -> None:
        """Denied unless this user may read what becomes of GPUs over time."""
        if not await self._allows(user, "get", wire.USAGES.plural, name=usages.GPUS):
            raise Denied(403, "you may not read what becomes of the GPUs over time")

    async def _allows(
        self,
        user: User,
        verb: str,
        resource: str,
        namespace: str = "",
        name: str = "",
        *,
        group: str = wire.GROUP,
        version: str = wire.VERSION,
    ) -> bool:
        return (await self._review(user, Asked(verb, group, version, resource, namespace, name))).allowed


def namespaces_of(request: web.Request, user: User) -> frozenset[str]:
    """The namespaces that a reader names; of a service account that names none its own."""
    named = [name for name in request.query.get("namespaces", "").split(",") if name]
    if len(named) > NAMESPACES:
        raise Denied(400, f"name at most {NAMESPACES} namespaces")
    if not all(_NAMESPACE.fullmatch(name) for name in named):
        raise Denied(400, "namespaces: names of namespaces with commas between them")
    account = _ACCOUNT.fullmatch(user.name)
    return frozenset(named) if named or account is None else frozenset({account[1]})
