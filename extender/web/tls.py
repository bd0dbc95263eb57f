"""TLS in which both sides show a certificate.

Takes: the three files. Gives: SSL contexts; that of a server follows the files when they are renewed. Must
not: accept a client without a certificate of the authority, or stop serving because renewed files are broken.

The server of the answers asks for a certificate without wanting one from everybody: whoever shows none has only
not said who it is. Its authority is not a file, but what the API server publishes.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from typing import Any

import aiohttp

from extender import settings
from extender.telemetry import logs

LOG = logs.Log(__name__)

_Stamp = tuple[tuple[int, int, int], ...]


def server_context(files: settings.Tls) -> ssl.SSLContext:
    """A context for a server, or settings.Unusable. Each new connection gets the files as they are then."""
    return _Renewed(
        lambda: _stamps(files.cert, files.key, files.client_ca),
        lambda: _load(files, ssl.PROTOCOL_TLS_SERVER),
    ).context


def client_context(files: settings.Tls) -> ssl.SSLContext:
    """A context for calls to the other process, which is shown the same certificate, or settings.Unusable."""
    return _load(files, ssl.PROTOCOL_TLS_CLIENT)


def client_session(files: settings.Tls | None) -> aiohttp.ClientSession:
    """A session for calls to the other process; with TLS files it shows our certificate and checks theirs."""
    connector = None if files is None else aiohttp.TCPConnector(ssl=client_context(files))
    return aiohttp.ClientSession(connector=connector)


def asking_context(pair: settings.KeyPair, authority: Callable[[], str]) -> ssl.SSLContext:
    """A context for a server that asks its clients for a certificate, or settings.Unusable.

    `authority` gives the one that signs them, in PEM, as it is at the time; empty while it is not known.
    """
    return _Renewed(
        lambda: (_stamps(pair.cert, pair.key), authority()),
        lambda: _load_asking(pair, authority()),
    ).context


def page_context(pair: settings.KeyPair) -> ssl.SSLContext:
    """A context for a server that asks its clients for no certificate, or settings.Unusable."""
    return _Renewed(
        lambda: _stamps(pair.cert, pair.key),
        lambda: _context(ssl.PROTOCOL_TLS_SERVER, pair, "--page-cert, --page-key"),
    ).context


class _Renewed:
    """Exchanges the context at the beginning of a handshake when what it is made of changed.

    A context cannot forget an authority, so the whole context is exchanged. Certificates are renewed while
    the process lives, and a restart would drop the calls that are held.
    """

    def __init__(self, stamp: Callable[[], object], load: Callable[[], ssl.SSLContext]) -> None:
        self._stamp = stamp
        self._load = load
        self._seen = stamp()
        self._newest = load()
        self.context = load()
        # called for clients that name no server, too
        self.context.sni_callback = self._exchange

    def _exchange(self, connection: Any, _name: str | None, _context: ssl.SSLContext) -> None:
        # a few stat calls, and at a change a few small files, on the event loop: less than a handshake costs
        stamp = self._stamp()
        if stamp != self._seen:
            self._seen = stamp
            self._renew()
        connection.context = self._newest

    def _renew(self) -> None:
        try:
            self._newest = self._load()
        except settings.Unusable as error:
            LOG.warning("renewed TLS files cannot be used; the old ones stay in use", error=error)
        else:
            LOG.info("renewed TLS files are in use")


def _load(files: settings.Tls, protocol: ssl._SSLMethod) -> ssl.SSLContext:
    context = _context(protocol, settings.KeyPair(files.cert, files.key), "--tls-cert, --tls-key")
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_verify_locations(files.client_ca)
    except (OSError, ValueError) as error:
        raise settings.Unusable(f"--client-ca: {error}; give the certificate of an authority in PEM") from error
    return context


def _load_asking(pair: settings.KeyPair, authority: str) -> ssl.SSLContext:
    context = _context(ssl.PROTOCOL_TLS_SERVER, pair, "--answers-cert, --answers-key")
    context.verify_mode = ssl.CERT_OPTIONAL
    try:
        if authority:
            context.load_verify_locations(cadata=authority)
    except (OSError, ValueError, TypeError) as error:  # the last for text that is not ASCII
        raise settings.Unusable(f"the authority of the API server's front proxy: {error}") from error
    return context


def _context(protocol: ssl._SSLMethod, pair: settings.KeyPair, options: str) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        # a resumed session would not be checked against a renewed authority
        context.num_tickets = 0
    try:
        context.load_cert_chain(pair.cert, pair.key, password=_no_password)
    except (OSError, ValueError) as error:
        raise settings.Unusable(
            f"{options}: {error}; give a certificate and its own key, without a password, in PEM"
        ) from error
    return context


def _no_password() -> str:
    """Keeps OpenSSL from asking for one at the terminal."""
    raise ValueError("the key has a password")


def _stamps(*files: str) -> _Stamp:
    """What tells one state of the files from another; a file that is missing for a moment is a state, too."""
    return tuple(_stamp_of(name) for name in files)


def _stamp_of(name: str) -> tuple[int, int, int]:
    try:
        found = os.stat(name)
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_ino, found.st_size)
