"""The extender's live answers as a whole: how kube-apiserver is known, what its authorizer says, the server.

Takes an Api, the engine and the word whether it can answer, gives eternal tasks; must not know what is answered.
The certificate may come later than the process (the kubelet mounts a Secret that is optional): until then nothing
listens, and the rest of Muster does not care.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from typing import NoReturn

from extender import settings
from extender.core.answers import Answers
from extender.core.engine import Engine
from extender.core.reasons import Reason
from extender.core.series import Series
from extender.kube import client, errors, feeds, resources
from extender.kube.observing import Observer
from extender.kube.reviews import Reviews
from extender.runtime import tasks
from extender.telemetry import logs
from extender.web import answers, serve, tls
from extender.wire import delegation

LOG = logs.Log(__name__)
LOOK_SECONDS = 1.0


class Answering:
    """Follows what the API server says of its front proxy, and serves."""

    def __init__(
        self,
        api: client.Api,
        told: settings.Answers,
        engine: Engine,
        series: Series,
        *,
        silent: Callable[[], Reason | None],
        wall: Callable[[], float],
        metrics: answers.Metrics,
        observer: Observer,
    ) -> None:
        self._api = api
        self._told = told
        self._observer = observer
        self._reviews = Reviews(api, time.monotonic)
        self._front_proxy: delegation.FrontProxy | None = None
        self._handlers = answers.Handlers(
            Answers(engine),
            series,
            front_proxy=lambda: self._front_proxy,
            review=self._review,
            silent=silent,
            wall=wall,
            metrics=metrics,
        )

    def start(self, running: tasks.Tasks) -> None:
        """Start what must not end."""
        feed = feeds.Feed(
            resources.config_map(delegation.NAMESPACE, delegation.CONFIG_MAP),
            delegation.decode_front_proxy,
            lambda _: None,
        )
        running.start("feed front proxy", feeds.run(self._api, feed, self._seen, lambda: None, self._observer))
        running.start("answers", self._serve())

    def _seen(self, front_proxy: delegation.FrontProxy | None) -> None:
        self._front_proxy = front_proxy

    async def _review(self, user: delegation.User, asked: delegation.Asked) -> delegation.Decision:
        try:
            return await self._reviews.review(user, asked)
        except errors.KubeError as error:
            LOG.warning("the authorizer did not say who may read answers", error=error)
            raise answers.ReviewFailed from error

    async def _serve(self) -> NoReturn:
        context = await self._secure()
        async with serve.serve(self._handlers.application(), self._told.listen, context, option="--answers-listen"):
            LOG.info("live answers are served", host=self._told.listen.host, port=self._told.listen.port)
            await asyncio.Event().wait()
        raise AssertionError("nothing sets this event")

    async def _secure(self) -> ssl.SSLContext:
        """The server's TLS, as soon as its files can be used."""
        said = ""
        while True:
            try:
                return tls.asking_context(self._told.pair, self._authority)
            except settings.Unusable as error:
                if str(error) != said:
                    said = str(error)
                    LOG.info("live answers are not served yet", why=error)
            await asyncio.sleep(LOOK_SECONDS)

    def _authority(self) -> str:
        return "" if self._front_proxy is None else self._front_proxy.authority
