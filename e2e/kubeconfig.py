"""Reading and writing kubeconfig files.

Takes a path; gives server, trust and credentials as one frozen value, and the same as a new file. Must not talk to
anything.
"""

from __future__ import annotations

import base64
import dataclasses
import os
import pathlib
import ssl
import tempfile
from typing import Any

import yaml


@dataclasses.dataclass(frozen=True)
class Access:
    """How to reach an API server as somebody."""

    server: str
    ca: str = ""
    token: str = ""
    client_certificate: str = ""
    client_key: str = ""

    def ssl_context(self) -> ssl.SSLContext | None:
        """The TLS settings, None for plain HTTP."""
        if not self.server.startswith("https"):
            return None
        context = ssl.create_default_context(cadata=self.ca or None)
        if self.client_certificate:
            # load_cert_chain takes only files.
            with tempfile.NamedTemporaryFile("w", suffix=".pem") as handle:
                handle.write(self.client_certificate + "\n" + self.client_key)
                handle.flush()
                context.load_cert_chain(handle.name)
        return context

    def headers(self) -> dict[str, str]:
        """The credentials as request headers."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


def read(path: str | os.PathLike[str]) -> Access:
    """The access of the current context; raises ValueError for ways of logging in that are not supported here."""
    folder = pathlib.Path(path).resolve().parent
    config = yaml.safe_load(pathlib.Path(path).read_text())
    context = _named(config, "contexts", config["current-context"])["context"]
    cluster = _named(config, "clusters", context["cluster"])["cluster"]
    user = _named(config, "users", context["user"])["user"]
    if "exec" in user or "auth-provider" in user:
        raise ValueError(f"{path}: a kubeconfig with a token or client certificate is needed, not a login command")
    token = user.get("token", "")
    if not token and "tokenFile" in user:
        token = (folder / user["tokenFile"]).read_text().strip()
    return Access(
        server=cluster["server"].rstrip("/"),
        ca=_material(cluster, "certificate-authority", folder),
        token=token,
        client_certificate=_material(user, "client-certificate", folder),
        client_key=_material(user, "client-key", folder),
    )


def write(path: str | os.PathLike[str], access: Access) -> pathlib.Path:
    """Write a kubeconfig readable by its owner alone; returns its path."""
    cluster: dict[str, Any] = {"server": access.server}
    user: dict[str, Any] = {}
    for where, key, value in (
        (cluster, "certificate-authority-data", access.ca),
        (user, "client-certificate-data", access.client_certificate),
        (user, "client-key-data", access.client_key),
    ):
        if value:
            where[key] = base64.b64encode(value.encode()).decode()
    if access.token:
        user["token"] = access.token
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "muster",
        "clusters": [{"name": "muster", "cluster": cluster}],
        "users": [{"name": "muster", "user": user}],
        "contexts": [{"name": "muster", "context": {"cluster": "muster", "user": "muster"}}],
    }
    result = pathlib.Path(path)
    result.touch(mode=0o600)
    result.write_text(yaml.safe_dump(config))
    return result


def _named(config: dict[str, Any], section: str, name: str) -> dict[str, Any]:
    for entry in config.get(section) or []:
        if entry["name"] == name:
            return dict(entry)
    raise ValueError(f"kubeconfig: no {name!r} under {section}")


def _material(entry: dict[str, Any], key: str, folder: pathlib.Path) -> str:
    if f"{key}-data" in entry:
        return base64.b64decode(entry[f"{key}-data"]).decode()
    return (folder / entry[key]).read_text() if key in entry else ""
