"""Whether the kube-scheduler beside us is one that Muster can lead.

Takes: an Api and the scheduler's base URL. Gives: word that it fits, or settings.Unusable with the mend. Must
not: end by itself, or take silence for a mismatch: the scheduler may start after us, and start again.

kube-scheduler tells its version and feature gates among its metrics, to those whom the API server lets read
them, so our own token is shown. Opening the path to all instead (--authorization-always-allow-paths) would
open it to the whole cluster: the port is on the pod's address, where the kubelet probes it. Its certificate
is one that it made up at its start and proves nothing, hence the URL must be one of this host, and the token
stays in the pod.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
import ssl
from collections.abc import Callable
from typing import NoReturn

import aiohttp

from extender import settings
from extender.kube import backoff, client, credentials, errors
from extender.telemetry import logs

LOG = logs.Log(__name__)
READ_SECONDS = 5.0
FIRST_DELAY, LONGEST_DELAY = 0.25, 5.0
#: it may be restarted with another version or other gates
LOOK_AGAIN_SECONDS = 60.0

#: one line each of the metrics; `[^}]*` is safe as no label of these two holds a brace
_VERSION = re.compile(r'^kubernetes_build_info\{[^}]*\bgit_version="v?(\d{1,6})\.(\d{1,6})', re.ASCII | re.MULTILINE)
_NATIVE_GANGS = re.compile(r'^kubernetes_feature_enabled\{[^}]*\bname="GenericWorkload"[^}]*\} 1\s*$', re.MULTILINE)

Version = tuple[int, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Scheduler:
    """What a kube-scheduler says of itself: major and minor, and whether GenericWorkload is on."""

    version: Version
    native_gangs: bool


async def follow(
    api: client.Api, url: str, fits: Callable[[], None], look_again: float = LOOK_AGAIN_SECONDS
) -> NoReturn:
    """Look at the scheduler for ever; `fits` is called after each look that found no fault.

    Raises settings.Unusable when it cannot be used. One that does not answer is asked again.
    """
    delays = backoff.Backoff(FIRST_DELAY, LONGEST_DELAY)
    async with _session(api) as session:
        while True:
            try:
                scheduler = decode_metrics(await _read_metrics(api, session, url))
                check(scheduler, await server_version(api), url)
            except errors.KubeError as error:
                say = LOG.info if isinstance(error, errors.Unreachable) else LOG.warning
                say("kube-scheduler does not tell its version and feature gates yet", url=url, error=error)
                await asyncio.sleep(delays.next())
                continue
            delays.reset()
            fits()
            await asyncio.sleep(look_again)


def check(scheduler: Scheduler, server: Version, url: str) -> None:
    """Raise settings.Unusable when this scheduler cannot be used with an API server of that version.

    Kubernetes itself supports no scheduler that is newer than its API server. With native gangs on, a group
    would be held back twice, and each side would wait for the other.
    """
    if scheduler.version > server:
        raise settings.Unusable(
            f"--scheduler: the kube-scheduler at {url} is {_text(scheduler.version)}, newer than the API server, "
            f"which is {_text(server)}; run a kube-scheduler of {_text(server)} "
            f"(apply manifests/overlays/{_text(server)}), or upgrade the API server first"
        )
    if scheduler.native_gangs:
        raise settings.Unusable(
            f"--scheduler: the kube-scheduler at {url} has the feature gate GenericWorkload on, and would wait for "
            "pod groups that Muster holds; start it with --feature-gates=GenericWorkload=false"
        )


def decode_metrics(text: str) -> Scheduler:
    """What the metrics say, or errors.Unreadable. A gate that is not named is unknown to it, so it is off."""
    version = _VERSION.search(text)
    if version is None:
        raise errors.Unreadable("metrics without the git_version of kubernetes_build_info")
    return Scheduler((int(version[1]), int(version[2])), _NATIVE_GANGS.search(text) is not None)


async def server_version(api: client.Api) -> Version:
    """Major and minor of the API server; vendors write `37+` for the minor."""
    content = await api.read("/version")
    return _number(content.get("major")), _number(content.get("minor"))


def _session(api: client.Api) -> aiohttp.ClientSession:
    context = credentials.ssl_context(api.access.configuration)  # with our certificate, where we have one
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))


async def _read_metrics(api: client.Api, session: aiohttp.ClientSession, url: str) -> str:
    token = await api.access.header()
    headers = {} if token is None else {"Authorization": token}
    limit = aiohttp.ClientTimeout(total=READ_SECONDS)
    try:
        async with session.get(f"{url}/metrics", headers=headers, timeout=limit, allow_redirects=False) as response:
            body = await client.read_bounded(response, client.BODY_LIMIT)
            if response.status == 401:
                await api.access.refused(token)  # the next look shows a fresh one
            if response.status != 200:
                raise errors.from_answer(response.status, response.headers, body)
            return body.decode("utf-8", "replace")
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise errors.Unreachable(f"GET {url}/metrics: {type(error).__name__} {error}".strip()) from error


def _text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def _number(value: object) -> int:
    digits = value.rstrip("+") if isinstance(value, str) else ""
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 6):
        raise errors.Unreadable(f"version {str(value)[:40]!r}")
    return int(digits)
