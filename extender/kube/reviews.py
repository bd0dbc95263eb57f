"""What the API server says of a user (SubjectAccessReview) and of a token (TokenReview), remembered for some seconds.

Takes an Api, users and what they ask for, or tokens; gives decisions, users, or an error of `errors`; must not decide
anything itself, or keep a token. Reviews share the connections of our writes, so only a few are under way at a time:
who asks much waits for its own.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from extender.kube import client
from extender.wire import delegation

#: a right that was given or taken counts after this time
REMEMBER_SECONDS = 5.0
REMEMBERED = 1024
AT_ONCE = 4
#: for the answer, and again for the turn
REVIEW_SECONDS = 3.0

A = TypeVar("A")


class Reviews:
    """Asks what a user may do. `clock` never goes back."""

    def __init__(self, api: client.Api, clock: Callable[[], float]) -> None:
        self._api = api
        self._memory = _Memory[delegation.Decision](clock)

    async def review(self, user: delegation.User, asked: delegation.Asked) -> delegation.Decision:
        """Whether this user may do what is asked."""

        async def ask() -> delegation.Decision:
            body = delegation.encode_review(user, asked)
            return delegation.decode_review(await _post(self._api, delegation.REVIEWS, body))

        return await self._memory.recall((user, asked), ask)


class Tokens:
    """Asks whose a token is. `clock` never goes back."""

    def __init__(self, api: client.Api, clock: Callable[[], float]) -> None:
        self._api = api
        self._memory = _Memory[delegation.User | None](clock)

    async def user(self, token: str) -> delegation.User | None:
        """Whose token it is; None when the API server does not accept it."""

        async def ask() -> delegation.User | None:
            body = delegation.encode_token_review(token)
            return delegation.decode_token_review(await _post(self._api, delegation.TOKEN_REVIEWS, body))

        return await self._memory.recall(hashlib.sha256(token.encode()).digest(), ask)


class _Memory(Generic[A]):
    """Answers of some seconds, and turns of those who ask."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._turns = asyncio.Semaphore(AT_ONCE)
        #: oldest first, with the time until which each counts
        self._known: dict[Hashable, tuple[float, A]] = {}

    async def recall(self, question: Hashable, ask: Callable[[], Awaitable[A]]) -> A:
        """What is known, or else is said now."""
        if not self._knows(question):
            async with self._turns:
                if not self._knows(question):  # the same may have been asked meanwhile
                    await self._learn(question, ask)
                return self._known[question][1]
        return self._known[question][1]

    async def _learn(self, question: Hashable, ask: Callable[[], Awaitable[A]]) -> None:
        asked_at = self._clock()
        answer = await ask()
        self._known.pop(question, None)
        if len(self._known) >= REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[question] = (asked_at + REMEMBER_SECONDS, answer)

    def _knows(self, question: Hashable) -> bool:
        known = self._known.get(question)
        return known is not None and self._clock() < known[0]


async def _post(api: client.Api, path: str, body: bytes) -> bytes:
    return await api.request("POST", path, body=body, timeout=REVIEW_SECONDS, queue=REVIEW_SECONDS)
