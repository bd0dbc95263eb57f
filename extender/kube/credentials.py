"""Who we are for the API server.

Takes: a kubeconfig file, or the service account of our pod. Gives: the server's address, an SSL context,
and the Authorization header of the moment. Must not: send requests.

Bound service account tokens rotate on disk and tokens of exec plugins expire, so the header is read again
from its source each minute, and at once when the API server refuses it. kubernetes_asyncio does the
reading.
"""

import asyncio
import os
import pathlib
import ssl
from collections.abc import Awaitable, Callable, Mapping

from kubernetes_asyncio import config
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import incluster_config, kube_config

from extender.kube import errors

REREAD_SECONDS = 60.0
REFUSED_AGAIN_SECONDS = 1.0
_NAMESPACE_FILE = pathlib.Path(incluster_config.SERVICE_TOKEN_FILENAME).with_name("namespace")

Load = Callable[[bool], Awaitable[Configuration]]
"""Reads the credentials; the argument says that what a plugin remembers must not be trusted."""


class Credentials:
    """The header that calls bear, kept fresh. Only its own methods write its attributes."""

    def __init__(self, load: Load, first: Configuration, now: float) -> None:
        self.configuration = first
        self.host = (first.host or "").rstrip("/")
        self._load = load
        self._header = _header_of(first)
        self._read_at = now
        self._refused_at = float("-inf")
        #: one reading at a time: a plugin may take seconds, and 256 calls may be refused at once
        self._lock = asyncio.Lock()

    async def header(self) -> str | None:
        """The Authorization header to use now."""
        if _now() - self._read_at >= REREAD_SECONDS:
            async with self._lock:
                if _now() - self._read_at >= REREAD_SECONDS:
                    await self._reread(anew=False)
        return self._header

    async def refused(self, header: str | None) -> bool:
        """Tell that `header` was answered with 401; true if another one can be tried."""
        async with self._lock:
            if self._header == header and _now() - self._refused_at >= REFUSED_AGAIN_SECONDS:
                self._refused_at = _now()
                await self._reread(anew=True)
            return self._header != header

    async def _reread(self, anew: bool) -> None:
        """A source that cannot be read leaves the old header: a 401 will tell if it is no longer good."""
        self._read_at = _now()
        try:
            self._header = _header_of(await self._load(anew))
        except errors.Unconfigured:
            return


async def load(kubeconfig: str | None, context: str | None) -> Credentials:
    """Credentials from a kubeconfig file, or from our pod's service account when no file is named."""
    if kubeconfig is None:
        return await _start(service_account())
    return await _start(_kubeconfig(kubeconfig, context))


async def _start(source: Load) -> Credentials:
    return Credentials(source, await source(True), _now())


def find_kubeconfig(named: str | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """The file (or files) that kubectl would take; None: we are a pod. Unconfigured when there is nothing at all."""
    if named or environ.get("KUBECONFIG"):
        return named or environ["KUBECONFIG"]
    usual = pathlib.Path.home() / ".kube" / "config"
    if usual.exists():
        return str(usual)
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return None
    raise errors.Unconfigured(f"there is no kubeconfig: {usual} does not exist")


def namespace_of(kubeconfig: str | None, context: str | None) -> str:
    """The namespace of a context, or of our pod; `default` where none is said."""
    if kubeconfig is None:
        try:
            return _NAMESPACE_FILE.read_text().strip() or "default"
        except OSError:
            return "default"
    try:
        contexts, current = config.list_kube_config_contexts(kubeconfig)
        found = current if context is None else next(one for one in contexts if one["name"] == context)
        return str(found["context"].get("namespace") or "default") if found is not None else "default"
    except StopIteration:
        raise errors.Unconfigured(f"kubeconfig {kubeconfig}: it has no context {context!r}") from None
    except Exception as error:  # the library raises TypeError and the like for files that lack a section
        raise errors.Unconfigured(f"kubeconfig {kubeconfig}: {error}") from error


def service_account(
    token_file: str = incluster_config.SERVICE_TOKEN_FILENAME,
    ca_file: str = incluster_config.SERVICE_CERT_FILENAME,
    environ: Mapping[str, str] = os.environ,
) -> Load:
    """A source that reads the files which the kubelet keeps up to date in our pod."""

    async def read(anew: bool) -> Configuration:
        loaded = Configuration()
        try:
            incluster_config.InClusterConfigLoader(
                token_filename=token_file,
                cert_filename=ca_file,
                try_refresh_token=False,
                environ=dict(environ),
            ).load_and_set(loaded)
        except (config.ConfigException, OSError) as error:
            raise errors.Unconfigured(f"service account: {error}") from error
        return loaded

    return read


def _kubeconfig(path: str, context: str | None) -> Load:
    loader: kube_config.KubeConfigLoader | None = None

    async def read(anew: bool) -> Configuration:
        nonlocal loader
        loaded = Configuration()
        try:
            if loader is None or anew:
                loader = await config.load_kube_config(path, context, client_configuration=loaded)
            else:
                await loader.load_and_set(loaded)
        except Exception as error:  # the library raises TypeError and the like for files that lack a section
            raise errors.Unconfigured(f"kubeconfig {path}: {error}") from error
        return loaded

    return read


def ssl_context(configuration: Configuration) -> ssl.SSLContext:
    """As strict as client-go: many clusters' authorities lack what VERIFY_X509_STRICT demands."""
    made = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    made.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if configuration.cert_file:
        made.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    return made


def _header_of(configuration: Configuration) -> str | None:
    token = configuration.api_key.get("BearerToken")
    return token.strip() if token else None


def _now() -> float:
    return asyncio.get_running_loop().time()
