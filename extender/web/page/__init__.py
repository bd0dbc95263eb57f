"""The files of the page, as they are served: without a sign-in, since they say nothing of the cluster.

Takes the folder of this module, gives routes and the headers of every answer; must not serve any other file. The page
may load scripts and styles from here alone, and talk to here alone: what a name in the cluster holds cannot run.
"""

from __future__ import annotations

import hashlib
import pathlib
from collections.abc import Awaitable, Callable

from aiohttp import web

_HERE = pathlib.Path(__file__).parent
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_POLICY = "; ".join(
    (
        "default-src 'none'",
        *(f"{kind}-src 'self'" for kind in ("script", "style", "connect", "img")),
        *("base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"),
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def routes() -> list[web.RouteDef]:
    """GET of each file, and of / the page itself."""
    files = sorted(path for path in _HERE.iterdir() if path.suffix in _TYPES)
    return [web.get("/" if path.name == "index.html" else f"/{path.name}", _file(path)) for path in files]


async def protect(_request: web.Request, response: web.StreamResponse) -> None:
    """Headers that every answer bears."""
    response.headers.update(_HEADERS)
    response.headers.setdefault("Cache-Control", "no-store")


def _file(path: pathlib.Path) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    body, kind = path.read_bytes(), _TYPES[path.suffix]
    etag = hashlib.sha256(body).hexdigest()[:32]

    async def answer(request: web.Request) -> web.StreamResponse:
        known = any(one.value == etag for one in request.if_none_match or ())
        response = web.Response(status=304) if known else web.Response(body=body, content_type=kind, charset="utf-8")
        response.etag = etag
        response.headers["Cache-Control"] = "no-cache"
        return response

    return answer
