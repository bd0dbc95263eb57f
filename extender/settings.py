"""What the processes are told on their command lines.

Takes: the arguments of a command line and the host's name. Gives: one frozen value per process, of which
each part goes to whom it concerns. Must not: open connections, read the environment, or let a bad value
pass: argparse ends the process with status 2 and one line that names the option and how to mend it.
"""

from __future__ import annotations

import argparse
import dataclasses
import ipaddress
import os
import re
import urllib.parse
from collections.abc import Callable, Sequence
from typing import Any

NAMESPACE = "muster-system"
LEASE = "muster-scheduler"
EXTENDER_LISTEN = "127.0.0.1:8080"
GATE_LISTEN = "127.0.0.1:8081"
JOBS_LISTEN = "127.0.0.1:8083"
JOBS_LEASE = "muster-jobs"
SCHEDULER = "https://127.0.0.1:10259"
NOMINATE_ABOVE_NODES = 1000
HTTP_TIMEOUT_SECONDS = 600
JOBS_WORKERS = 32
DECISION_LOG_MEBIBYTES, DECISION_LOG_FILES = 32, 8
LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("json", "text")

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class Unusable(Exception):
    """A setting that proved unusable when it was put to use; the text names the option and the mend."""


@dataclasses.dataclass(frozen=True, slots=True)
class Listen:
    """Where a server listens."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """True when only processes of this host (or pod) reach it."""
        return is_loopback(self.host)


@dataclasses.dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM: our certificate, its key, and the authority that signs the other side's certificate."""

    cert: str
    key: str
    client_ca: str


@dataclasses.dataclass(frozen=True, slots=True)
class KeyPair:
    """Files in PEM: a certificate and its key. They need not be there yet."""

    cert: str
    key: str


@dataclasses.dataclass(frozen=True, slots=True)
class Answers:
    """Where live answers are served, and with which certificate."""

    listen: Listen
    pair: KeyPair


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """Where the web page is served, and with which certificate; None: to this host (or pod) alone, without TLS."""

    listen: Listen
    pair: KeyPair | None


@dataclasses.dataclass(frozen=True, slots=True)
class DecisionLog:
    """Where decisions are put on record, how large a file becomes, and how many there are at most."""

    folder: str
    file_mebibytes: int
    files: int


@dataclasses.dataclass(frozen=True, slots=True)
class Cluster:
    """The API server, and our place in it; `kubeconfig` None means the service account of our pod."""

    kubeconfig: str | None
    context: str | None
    namespace: str
    lease: str


@dataclasses.dataclass(frozen=True, slots=True)
class Logging:
    """How much is logged, and in which form."""

    level: str
    format: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """What all processes are told."""

    cluster: Cluster
    listen: Listen
    tls: Tls | None
    logging: Logging
    hostname: str
    #: where metrics, and nothing else, are served in the open too
    metrics_listen: Listen | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderSettings(Process):
    """All that the extender is told; `gate` and `scheduler` are base URLs, the latter of our kube-scheduler.

    `answers` None: live answers are not served; `page` None: nor is the web page. `decision_log` None: there is none.
    """

    gate: str
    scheduler: str
    nominate_above_nodes: int
    answers: Answers | None
    page: Page | None
    decision_log: DecisionLog | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GateSettings(Process):
    """All that the permit gate is told; `extender` is the base URL of the extender.

    `http_timeout` is the httpTimeout, in seconds, of the bind entry in the scheduler's configuration.
    """

    extender: str
    http_timeout: int
    #: base URL of HAMi's extender, where its filter chooses the cards of pods
    hami: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JobsSettings(Process):
    """All that the job controller is told; `workers` Jobs are worked on at the same time."""

    workers: int


def read_extender(argv: Sequence[str], hostname: str) -> ExtenderSettings:
    """The extender's settings, or the end of the process with a message."""
    parser = _parser("extender", "Decides which pods may start, where, and says why.", EXTENDER_LISTEN)
    parser.add_argument(
        "--gate",
        type=_base_url,
        default=f"http://{GATE_LISTEN}",
        help="base URL of the permit gate (%(default)s)",
    )
    parser.add_argument(
        "--scheduler",
        type=_base_url,
        default=SCHEDULER,
        help="base URL of the kube-scheduler that calls us, whose version and feature gates are read (%(default)s)",
    )
    parser.add_argument(
        "--nominate-above-nodes",
        type=_whole_number(0, 1_000_000),
        default=NOMINATE_ABOVE_NODES,
        metavar="NODES",
        help="with more nodes than this, lead the scheduler by nomination, else by filter (%(default)s)",
    )
    parser.add_argument(
        "--answers-listen",
        type=_listen,
        metavar="HOST:PORT",
        help="serve live answers to the API server on this address, once the certificate's files are there",
    )
    parser.add_argument("--answers-cert", type=_given, metavar="FILE", help="certificate of that server")
    parser.add_argument("--answers-key", type=_given, metavar="FILE", help="the certificate's key")
    parser.add_argument("--page-listen", type=_listen, metavar="HOST:PORT", help="serve the web page on this address")
    parser.add_argument("--page-cert", type=_readable_file, metavar="FILE", help="serve it by TLS, with this one")
    parser.add_argument("--page-key", type=_readable_file, metavar="FILE", help="the certificate's key")
    parser.add_argument(
        "--decision-log",
        type=_given,
        metavar="DIR",
        help="put on record there what is decided and on what, to be replayed (default: nowhere)",
    )
    parser.add_argument(
        "--decision-log-size",
        type=_whole_number(1, 4096),
        default=DECISION_LOG_MEBIBYTES,
        metavar="MIB",
        help="MiB after which a new file begins (%(default)s)",
    )
    parser.add_argument(
        "--decision-log-files",
        type=_whole_number(1, 1000),
        default=DECISION_LOG_FILES,
        metavar="NUMBER",
        help="files that are kept; the oldest goes first (%(default)s)",
    )
    told = parser.parse_args(argv)
    process = _process(parser, told, hostname)
    _check_peer(parser, "--gate", told.gate, process["tls"])
    _check_beside(parser, "--scheduler", told.scheduler)
    return ExtenderSettings(
        **process,
        gate=told.gate,
        scheduler=told.scheduler,
        nominate_above_nodes=told.nominate_above_nodes,
        answers=_answers(parser, told),
        page=_page(parser, told),
        decision_log=_decision_log(told),
    )


def read_gate(argv: Sequence[str], hostname: str) -> GateSettings:
    """The permit gate's settings, or the end of the process with a message."""
    parser = _parser("permit_gate", "Holds bind calls until a whole group can be bound.", GATE_LISTEN)
    parser.add_argument(
        "--extender",
        type=_base_url,
        default=f"http://{EXTENDER_LISTEN}",
        help="base URL of the extender (%(default)s)",
    )
    parser.add_argument(
        "--http-timeout",
        type=_whole_number(5, 3600),
        default=HTTP_TIMEOUT_SECONDS,
        metavar="SECONDS",
        help="httpTimeout of the bind entry in the scheduler's configuration (%(default)s)",
    )
    parser.add_argument(
        "--hami",
        type=_base_url,
        metavar="URL",
        help="base URL of HAMi's extender, whose filter chooses cards: bindings of its pods are left to it",
    )
    told = parser.parse_args(argv)
    process = _process(parser, told, hostname)
    _check_peer(parser, "--extender", told.extender, process["tls"])
    return GateSettings(**process, extender=told.extender, http_timeout=told.http_timeout, hami=told.hami)


def read_jobs(argv: Sequence[str], hostname: str) -> JobsSettings:
    """The job controller's settings, or the end of the process with a message."""
    parser = _parser("extender.jobs", "Runs Volcano's Jobs whose scheduler is Muster.", JOBS_LISTEN, JOBS_LEASE)
    parser.add_argument(
        "--workers",
        type=_whole_number(1, 256),
        default=JOBS_WORKERS,
        metavar="NUMBER",
        help="Jobs that are worked on at the same time (%(default)s)",
    )
    told = parser.parse_args(argv)
    return JobsSettings(**_process(parser, told, hostname), workers=told.workers)


def is_loopback(host: str) -> bool:
    """True for a loopback address or `localhost`; any other name may resolve to anything, so it is false."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _parser(module: str, description: str, listen: str, lease: str = LEASE) -> argparse.ArgumentParser:
    """The options that all processes have."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description, allow_abbrev=False)
    add = parser.add_argument
    add("--kubeconfig", type=_readable_file, metavar="FILE", help="reach the API server by it (else as a pod)")
    add("--context", type=_given, metavar="NAME", help="context of the kubeconfig (its current one)")
    add("--namespace", type=_name(_LABEL, 63), default=NAMESPACE, help="namespace of Muster (%(default)s)")
    add(
        "--lease",
        type=_name(_SUBDOMAIN, 253),
        default=lease,
        help="the Lease there by which one replica acts (%(default)s)",
    )
    add(
        "--listen",
        type=_listen,
        default=_listen(listen),
        metavar="HOST:PORT",
        help=f"address to serve on ({listen})",
    )
    add("--metrics-listen", type=_listen, metavar="HOST:PORT", help="serve /metrics alone, to anybody, here too")
    add("--tls-cert", type=_readable_file, metavar="FILE", help="serve TLS with this certificate")
    add("--tls-key", type=_readable_file, metavar="FILE", help="the certificate's key")
    add(
        "--client-ca",
        type=_readable_file,
        metavar="FILE",
        help="authority that signs the certificates of clients",
    )
    add("--log-level", choices=LOG_LEVELS, default="info", help="least severity that is logged (%(default)s)")
    add(
        "--log-format",
        choices=LOG_FORMATS,
        default="json",
        help="one JSON object or one text a line (%(default)s)",
    )
    return parser


def _process(parser: argparse.ArgumentParser, told: argparse.Namespace, hostname: str) -> dict[str, Any]:
    """The fields of `Process`."""
    return {
        "cluster": _cluster(parser, told),
        "listen": told.listen,
        "tls": _tls(parser, told),
        "logging": Logging(told.log_level, told.log_format),
        "hostname": hostname,
        "metrics_listen": told.metrics_listen,
    }


# --- rules over more than one option ---------------------------------------------------------------


def _cluster(parser: argparse.ArgumentParser, told: argparse.Namespace) -> Cluster:
    if told.context is not None and told.kubeconfig is None:
        parser.error("--context: there is no kubeconfig that has it; add --kubeconfig FILE")
    return Cluster(told.kubeconfig, told.context, told.namespace, told.lease)


def _tls(parser: argparse.ArgumentParser, told: argparse.Namespace) -> Tls | None:
    files = {"--tls-cert": told.tls_cert, "--tls-key": told.tls_key, "--client-ca": told.client_ca}
    missing = [option for option, file in files.items() if file is None]
    if not missing:
        return Tls(told.tls_cert, told.tls_key, told.client_ca)
    if len(missing) < len(files):
        parser.error(f"{missing[0]}: is missing; TLS needs all of {', '.join(files)}")
    if not told.listen.loopback:
        parser.error(
            f"--listen: {told.listen.host} can be reached from other hosts, who could then bind pods; "
            f"add {', '.join(files)}, or listen on 127.0.0.1"
        )
    return None


def _answers(parser: argparse.ArgumentParser, told: argparse.Namespace) -> Answers | None:
    given = {
        "--answers-listen": told.answers_listen,
        "--answers-cert": told.answers_cert,
        "--answers-key": told.answers_key,
    }
    missing = [option for option, value in given.items() if value is None]
    if len(missing) == len(given):
        return None
    if missing:
        parser.error(f"{missing[0]}: is missing; live answers need all of {', '.join(given)}")
    return Answers(told.answers_listen, KeyPair(told.answers_cert, told.answers_key))


def _page(parser: argparse.ArgumentParser, told: argparse.Namespace) -> Page | None:
    given = [told.page_cert, told.page_key]
    if told.page_listen is None:
        if any(given):
            parser.error("--page-listen: is missing; say where the page is to be served")
        return None
    if any(given) and not all(given):
        parser.error("--page-cert, --page-key: one of them is missing; TLS needs both")
    if not any(given) and not told.page_listen.loopback:
        parser.error(
            f"--page-listen: {told.page_listen.host} can be reached from other hosts, and readers sign in by tokens; "
            "add --page-cert, --page-key, or listen on 127.0.0.1"
        )
    return Page(told.page_listen, KeyPair(told.page_cert, told.page_key) if all(given) else None)


def _decision_log(told: argparse.Namespace) -> DecisionLog | None:
    if told.decision_log is None:
        return None
    return DecisionLog(told.decision_log, told.decision_log_size, told.decision_log_files)


def _check_peer(parser: argparse.ArgumentParser, option: str, url: str, tls: Tls | None) -> None:
    """The other process is trusted with what it says, so it is on this host or proves who it is."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        parser.error(f"{option}: {parts.hostname} is another host and http is open; use https://, or a loopback one")
    if parts.scheme == "https" and tls is None:
        parser.error(f"{option}: https needs a certificate to show; add --tls-cert, --tls-key, --client-ca")


def _check_beside(parser: argparse.ArgumentParser, option: str, url: str) -> None:
    """kube-scheduler's own certificate proves nothing, and it is shown our token: no other host may get that."""
    host = urllib.parse.urlsplit(url).hostname or ""
    if not is_loopback(host):
        parser.error(f"{option}: {host} is another host, which would be shown our token; use a loopback one")


# --- single values ---------------------------------------------------------------------------------


def _given(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("is empty; give a value, or leave the option out")
    return text


def _readable_file(text: str) -> str:
    if not os.path.isfile(_given(text)):
        raise argparse.ArgumentTypeError(f"there is no file {text!r}; give the path of an existing one")
    if not os.access(text, os.R_OK):
        raise argparse.ArgumentTypeError(f"{text!r} may not be read by this user; mend its permissions")
    return text


def _name(pattern: re.Pattern[str], limit: int) -> Callable[[str], str]:
    def check(text: str) -> str:
        if len(text) > limit or not pattern.fullmatch(text):
            raise argparse.ArgumentTypeError(
                f"{text[:limit]!r} is no name that Kubernetes accepts; "
                f"use at most {limit} of a-z, 0-9 and '-', with a letter or digit at both ends"
            )
        return text

    return check


def _whole_number(least: int, most: int) -> Callable[[str], int]:
    def check(text: str) -> int:
        digits = text.isascii() and text.isdigit() and len(text) <= 18
        if not digits or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text[:32]!r} is not usable; give a whole number from {least} to {most}")
        return int(text)

    return check


def _listen(text: str) -> Listen:
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise argparse.ArgumentTypeError(f"{text!r} is ambiguous; write an IPv6 address as [::1]:8080")
    if not (colon and host):
        raise argparse.ArgumentTypeError(f"{text!r} is not host:port; write it like {EXTENDER_LISTEN}")
    return Listen(host, _whole_number(1, 65535)(port))


def _base_url(text: str) -> str:
    parts = _split_url(text)
    extras: tuple[Any, ...] = (
        parts.query,
        parts.fragment,
        parts.username,
        parts.password,
        parts.path.strip("/"),
    )
    if parts.scheme not in ("http", "https") or not parts.hostname or any(extras):
        raise argparse.ArgumentTypeError(
            f"{parts.scheme}://... is no base URL; write scheme, host and port only, like http://{EXTENDER_LISTEN}"
        )
    return text.rstrip("/")


def _split_url(text: str) -> urllib.parse.SplitResult:
    try:
        parts = urllib.parse.urlsplit(text)
        _ = parts.port  # raises when it is no number of a port
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not a URL: {error}; write it like http://{EXTENDER_LISTEN}") from error
    return parts
