"""TLS: only clients with a certificate of the authority get in, and renewed files count from then on."""

import contextlib
import logging
import pathlib
import shutil
import ssl

import aiohttp
import pytest

from extender import settings
from extender.web import serve, tls

CERTS = pathlib.Path(__file__).parent / "certs"
HERE = settings.Listen("127.0.0.1", 0)


def files_of(role: str, signer: str, trusted: str) -> settings.Tls:
    return settings.Tls(
        str(CERTS / f"{role}-{signer}.crt"),
        str(CERTS / f"{role}-{signer}.key"),
        str(CERTS / f"ca-{trusted}.crt"),
    )


class Files:
    """The server's files as an operator (or the kubelet) renews them."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.told = settings.Tls(*(str(folder / name) for name in ("tls.crt", "tls.key", "ca.crt")))
        self.put("a")

    def put(self, authority: str) -> None:
        for source, target in (("server.crt", "cert"), ("server.key", "key"), ("ca.crt", "client_ca")):
            stem, suffix = source.split(".")
            self._exchange(CERTS / f"{stem}-{authority}.{suffix}", getattr(self.told, target))

    def spoil(self) -> None:
        self._exchange(CERTS / "ca-a.crt", self.told.key)

    def _exchange(self, source: pathlib.Path, target: str) -> None:
        fresh = pathlib.Path(f"{target}.new")
        shutil.copy(source, fresh)
        fresh.rename(target)


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


@pytest.fixture
async def port(files):
    app = serve.application([serve.debug_route("x", ok)])
    async with serve.serve(app, HERE, files.told) as port:
        yield port


async def ok(_request):
    return serve.reply({})


async def call(port: int, context: ssl.SSLContext | bool) -> int:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"https://127.0.0.1:{port}/debug/x", ssl=context) as answer,
    ):
        return answer.status


def client(signer: str, trusted: str) -> ssl.SSLContext:
    return tls.client_context(files_of("client", signer, trusted))


@contextlib.contextmanager
def refusal():
    """With TLS 1.3 a refused client learns of it at its first read, so the kind of the error is not fixed."""
    with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
        yield


async def test_a_client_with_a_certificate_of_the_authority_is_served(port):
    assert await call(port, client("a", trusted="a")) == 200


async def test_a_client_without_a_certificate_is_not(port):
    with refusal():
        await call(port, ssl.create_default_context(cafile=str(CERTS / "ca-a.crt")))


async def test_a_client_of_another_authority_is_not(port):
    with refusal():
        await call(port, client("b", trusted="a"))


async def test_a_server_of_another_authority_is_not_trusted(port):
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await call(port, client("a", trusted="b"))


async def test_a_server_s_certificate_is_none_for_a_client(port):
    with refusal():
        await call(port, tls.client_context(files_of("server", "a", "a")))


async def test_older_protocols_are_refused(port):
    context = client("a", trusted="a")
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with refusal():
        await call(port, context)


async def test_plain_http_on_the_port_harms_nobody(port):
    async with aiohttp.ClientSession() as session:
        with refusal():
            await session.get(f"http://127.0.0.1:{port}/debug/x")
    assert await call(port, client("a", trusted="a")) == 200


async def test_renewed_files_count_from_the_next_connection_on_and_the_old_authority_no_more(port, files):
    old = client("a", trusted="a")
    assert await call(port, old) == 200
    files.put("b")
    assert await call(port, client("b", trusted="b")) == 200
    with refusal():
        await call(port, old)
    with refusal():
        await call(port, client("a", trusted="b"))


async def test_a_connection_outlives_the_renewal(port, files):
    context, url = client("a", trusted="a"), f"https://127.0.0.1:{port}/debug/x"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        async with session.get(url):
            pass
        files.put("b")
        assert await call(port, client("b", trusted="b")) == 200
        async with session.get(url) as answer:
            assert answer.status == 200


async def test_renewed_files_that_are_broken_leave_the_old_ones_in_use(port, files, caplog):
    files.spoil()
    assert await call(port, client("a", trusted="a")) == 200
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "--tls-cert, --tls-key" in str(caplog.records[0].muster_fields["error"])
    files.put("b")
    assert await call(port, client("b", trusted="b")) == 200


BROKEN = {
    "a key that is not the certificate's": (
        "server-a.crt",
        "server-b.key",
        "ca-a.crt",
        "--tls-cert, --tls-key",
    ),
    "a certificate in place of the key": (
        "server-a.crt",
        "server-a.crt",
        "ca-a.crt",
        "--tls-cert, --tls-key",
    ),
    "a certificate that is not there": ("nothing.crt", "server-a.key", "ca-a.crt", "--tls-cert, --tls-key"),
    "an authority that is a key": ("server-a.crt", "server-a.key", "server-a.key", "--client-ca"),
    "an authority that is not there": ("server-a.crt", "server-a.key", "nothing.crt", "--client-ca"),
}


@pytest.mark.parametrize(("cert", "key", "authority", "want"), BROKEN.values(), ids=BROKEN.keys())
def test_files_that_cannot_be_used_are_told_at_the_start_with_the_option(cert, key, authority, want):
    told = settings.Tls(*(str(CERTS / name) for name in (cert, key, authority)))
    with pytest.raises(settings.Unusable, match=want):
        tls.server_context(told)
