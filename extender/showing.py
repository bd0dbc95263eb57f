"""The web page as a whole: whose a token is, what that user may see, the tables, the server.

Takes an Api, the engine and the word whether it can answer, gives eternal tasks; must not know what is shown.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import NoReturn, TypeVar

from extender import settings
from extender.core.answers import Answers
from extender.core.engine import Engine
from extender.core.reasons import Reason
from extender.core.series import Series
from extender.kube import client, errors, reviews
from extender.runtime import tasks
from extender.telemetry import logs
from extender.web import access, answers, serve, streams, tls
from extender.wire import delegation

LOG = logs.Log(__name__)
T = TypeVar("T")


class Showing:
    """Serves the page."""

    def __init__(
        self,
        api: client.Api,
        told: settings.Page,
        engine: Engine,
        series: Series,
        *,
        silent: Callable[[], Reason | None],
        wall: Callable[[], float],
        metrics: answers.Metrics,
    ) -> None:
        self._told = told
        self._tokens = reviews.Tokens(api, time.monotonic)
        self._reviews = reviews.Reviews(api, time.monotonic)
        self._streams = streams.Streams(
            Answers(engine),
            series,
            access.Access(self._authenticate, self._review),
            silent=silent,
            wall=wall,
            metrics=metrics,
        )

    def start(self, running: tasks.Tasks) -> None:
        """Start what must not end."""
        running.start("page", self._serve())
        running.start("page tables", self._streams.run())

    async def _authenticate(self, token: str) -> delegation.User | None:
        return await _answered(self._tokens.user(token))

    async def _review(self, user: delegation.User, asked: delegation.Asked) -> delegation.Decision:
        return await _answered(self._reviews.review(user, asked))

    async def _serve(self) -> NoReturn:
        context = None if self._told.pair is None else tls.page_context(self._told.pair)
        app, listen = self._streams.application(), self._told.listen
        async with serve.serve(app, listen, context, cancel_abandoned=True, option="--page-listen"):
            LOG.info("the page is served", host=listen.host, port=listen.port)
            await asyncio.Event().wait()
        raise AssertionError("nothing sets this event")


async def _answered(call: Awaitable[T]) -> T:
    try:
        return await call
    except errors.KubeError as error:
        LOG.warning("the API server did not say who may see the page", error=error)
        raise answers.ReviewFailed from error
