"""Single HTTP calls to the extender and the gate, as kube-scheduler or somebody hostile would make them.

Takes an address and what to send; gives status and body, whatever they are. Must not judge an answer, nor repeat a
call.
"""

from __future__ import annotations

import dataclasses
import http.client
import json
import socket
import urllib.parse
from typing import Any

SECONDS = 30


@dataclasses.dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    text: str

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.text)

    @property
    def refused(self) -> bool:
        """Whether it is a 4xx, or says in its Error field that something is wrong."""
        if 400 <= self.status < 500:
            return True
        try:
            content = self.json
        except ValueError:
            return False
        return self.status == 200 and isinstance(content, dict) and bool(content.get("Error"))


def call(url: str, method: str, path: str, body: bytes | Any = b"", **headers: str) -> Answer:
    """One call on a connection of its own; a body that is not bytes is sent as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=SECONDS)
    try:
        connection.request(method, path, data, {"Content-Type": "application/json", **headers})
        response = connection.getresponse()
        return Answer(response.status, response.read().decode(errors="replace"))
    finally:
        connection.close()


def post(url: str, path: str, body: Any) -> Answer:
    """A POST of JSON."""
    return call(url, "POST", path, body)


def raw(url: str, sent: bytes) -> Answer:
    """The answer to these very bytes, for what no client would send; the connection stays open until it is there."""
    parts = urllib.parse.urlsplit(url)
    with socket.create_connection((parts.hostname or "", parts.port or 80), timeout=SECONDS) as connection:
        connection.sendall(sent)
        response = http.client.HTTPResponse(connection)
        response.begin()
        return Answer(response.status, response.read().decode(errors="replace"))
