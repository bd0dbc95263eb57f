"""What the API server's authorizer says of a user (SubjectAccessReview), remembered for some seconds.

Takes an Api, users and what they ask for, gives decisions, or an error of `errors`; must not decide anything itself.
Reviews share the connections of our writes, so only a few are under way at a time: who asks much waits for its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from extender.kube import client
from extender.wire import delegation

#: a right that was given or taken counts after this time
REMEMBER_SECONDS = 5.0
REMEMBERED = 1024
AT_ONCE = 4
#: for the answer, and again for the turn
REVIEW_SECONDS = 3.0

_Question = tuple[delegation.User, delegation.Asked]


class Reviews:
    """Asks and remembers. `clock` never goes back."""

    def __init__(self, api: client.Api, clock: Callable[[], float]) -> None:
        self._api = api
        self._clock = clock
        self._turns = asyncio.Semaphore(AT_ONCE)
        #: oldest first, with the time until which each counts
        self._known: dict[_Question, tuple[float, delegation.Decision]] = {}

    async def review(self, user: delegation.User, asked: delegation.Asked) -> delegation.Decision:
        """Whether this user may do what is asked."""
        question = (user, asked)
        known = self._recall(question)
        if known is None:
            async with self._turns:
                known = self._recall(question)  # the same may have been asked meanwhile
                if known is None:
                    known = await self._ask(question)
        return known

    async def _ask(self, question: _Question) -> delegation.Decision:
        asked_at = self._clock()
        body = delegation.encode_review(*question)
        answer = await self._api.request(
            "POST", delegation.REVIEWS, body=body, timeout=REVIEW_SECONDS, queue=REVIEW_SECONDS
        )
        decision = delegation.decode_review(answer)
        self._known.pop(question, None)
        if len(self._known) >= REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[question] = (asked_at + REMEMBER_SECONDS, decision)
        return decision

    def _recall(self, question: _Question) -> delegation.Decision | None:
        until, decision = self._known.get(question, (0.0, delegation.Decision(False)))
        return decision if self._clock() < until else None
