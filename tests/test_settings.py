"""The command lines: defaults, and that each bad value is refused with the option and the mend named."""

import dataclasses
import pathlib

import pytest

from extender import settings

HOST = "node-7"


@pytest.fixture
def files(tmp_path: pathlib.Path) -> dict[str, str]:
    """A file for each option that names one."""
    made = {}
    for name in ("kubeconfig", "tls-cert", "tls-key", "client-ca"):
        path = tmp_path / name
        path.write_text("x")
        made[name] = str(path)
    return made


def tls_options(files: dict[str, str]) -> list[str]:
    return [f"--{name}={files[name]}" for name in ("tls-cert", "tls-key", "client-ca")]


def test_the_gate_is_told_where_hami_binds():
    assert settings.read_gate([], HOST).hami is None
    assert settings.read_gate(["--hami=https://hami:443/"], HOST).hami == "https://hami:443"


@pytest.mark.parametrize("url", ["", "hami:443", "https://hami/bind", "ftp://hami"])
def test_a_place_of_hami_that_is_no_base_url_is_refused(url: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        settings.read_gate([f"--hami={url}"], HOST)
    assert "--hami" in capsys.readouterr().err


def test_the_extender_needs_no_option_in_a_pod():
    assert settings.read_extender([], HOST) == settings.ExtenderSettings(
        cluster=settings.Cluster(None, None, "muster-system", "muster-scheduler"),
        listen=settings.Listen("127.0.0.1", 8080),
        tls=None,
        logging=settings.Logging("info", "json"),
        hostname=HOST,
        gate="http://127.0.0.1:8081",
        scheduler="https://127.0.0.1:10259",
        nominate_above_nodes=1000,
        answers=None,
        page=None,
        decision_log=None,
    )


def test_the_gate_needs_no_option_in_a_pod():
    assert settings.read_gate([], HOST) == settings.GateSettings(
        cluster=settings.Cluster(None, None, "muster-system", "muster-scheduler"),
        listen=settings.Listen("127.0.0.1", 8081),
        tls=None,
        logging=settings.Logging("info", "json"),
        hostname=HOST,
        extender="http://127.0.0.1:8080",
        http_timeout=600,
    )


def test_the_job_controller_needs_no_option_in_a_pod():
    assert settings.read_jobs([], HOST) == settings.JobsSettings(
        cluster=settings.Cluster(None, None, "muster-system", "muster-jobs"),
        listen=settings.Listen("127.0.0.1", 8083),
        tls=None,
        logging=settings.Logging("info", "json"),
        hostname=HOST,
        workers=32,
    )


@pytest.mark.parametrize(
    "argv", [["--workers=0"], ["--workers=257"], ["--workers=x"], ["--lease="], ["--listen=0.0.0.0:1"]]
)
def test_the_job_controller_refuses(argv, capsys):
    with pytest.raises(SystemExit):
        settings.read_jobs(argv, HOST)
    assert argv[0].partition("=")[0] in capsys.readouterr().err


def test_every_option_of_the_extender_arrives(files):
    told = settings.read_extender(
        [
            f"--kubeconfig={files['kubeconfig']}",
            "--context=kind",
            "--namespace=gangs",
            "--lease=a.b",
            "--listen=[::]:9000",
            *tls_options(files),
            "--gate=https://gate.local:8443/",
            "--scheduler=https://[::1]:10259/",
            "--nominate-above-nodes=0",
            "--answers-listen=[::]:8443",
            "--answers-cert=/not/there/yet.crt",
            "--answers-key=/not/there/yet.key",
            "--page-listen=0.0.0.0:8444",
            f"--page-cert={files['tls-cert']}",
            f"--page-key={files['tls-key']}",
            "--decision-log=/var/log/muster",
            "--decision-log-size=3",
            "--decision-log-files=2",
            "--log-level=debug",
            "--log-format=text",
        ],
        HOST,
    )
    assert told == settings.ExtenderSettings(
        cluster=settings.Cluster(files["kubeconfig"], "kind", "gangs", "a.b"),
        listen=settings.Listen("::", 9000),
        tls=settings.Tls(files["tls-cert"], files["tls-key"], files["client-ca"]),
        logging=settings.Logging("debug", "text"),
        hostname=HOST,
        gate="https://gate.local:8443",
        scheduler="https://[::1]:10259",
        nominate_above_nodes=0,
        answers=settings.Answers(
            settings.Listen("::", 8443), settings.KeyPair("/not/there/yet.crt", "/not/there/yet.key")
        ),
        page=settings.Page(settings.Listen("0.0.0.0", 8444), settings.KeyPair(files["tls-cert"], files["tls-key"])),
        decision_log=settings.DecisionLog("/var/log/muster", 3, 2),
    )


def test_settings_are_frozen():
    told = settings.read_gate([], HOST)
    with pytest.raises(dataclasses.FrozenInstanceError):
        told.http_timeout = 1  # type: ignore[misc]


@pytest.mark.parametrize("option", ["--http-timeout=5", "--http-timeout=3600", "--extender=http://[::1]:80"])
def test_the_gate_accepts_the_edges(option):
    assert settings.read_gate([option], HOST)


REFUSED_BY_BOTH = {
    "an unknown option": (["--listn=127.0.0.1:1"], "--listn"),
    "an abbreviated option": (["--name=x"], "--name"),
    "a port that is missing": (
        ["--listen=127.0.0.1"],
        "--listen: '127.0.0.1' is not host:port; write it like",
    ),
    "a host that is missing": (["--listen=:8080"], "--listen: ':8080' is not host:port; write it like"),
    "a port of zero": (
        ["--listen=127.0.0.1:0"],
        "--listen: '0' is not usable; give a whole number from 1 to 65535",
    ),
    "a port too high": (["--listen=127.0.0.1:65536"], "give a whole number from 1 to 65535"),
    "a port in Arabic digits": (["--listen=127.0.0.1:\u0668\u0660"], "give a whole number from 1 to 65535"),
    "an IPv6 address without brackets": (["--listen=::1:8080"], "write an IPv6 address as [::1]:8080"),
    "all addresses without TLS": (
        ["--listen=0.0.0.0:8080"],
        "--listen: 0.0.0.0 can be reached from other hosts",
    ),
    "all IPv6 addresses without TLS": (
        ["--listen=[::]:8080"],
        "add --tls-cert, --tls-key, --client-ca, or listen on",
    ),
    "a host name without TLS": (["--listen=node-7:8080"], "--listen: node-7 can be reached from other hosts"),
    "a name that only begins like loopback": (
        ["--listen=localhost.example:80"],
        "can be reached from other hosts",
    ),
    "a context without a kubeconfig": (
        ["--context=kind"],
        "--context: there is no kubeconfig that has it; add",
    ),
    "a kubeconfig that is not there": (["--kubeconfig=/nonexistent/file"], "--kubeconfig: there is no file"),
    "a kubeconfig that is empty": (["--kubeconfig="], "--kubeconfig: is empty"),
    "a kubeconfig that is a folder": (["--kubeconfig=/"], "--kubeconfig: there is no file '/'"),
    "a namespace in capitals": (
        ["--namespace=Muster"],
        "--namespace: 'Muster' is no name that Kubernetes accepts",
    ),
    "a namespace with a dot": (["--namespace=a.b"], "--namespace: 'a.b' is no name"),
    "a namespace of 64": (["--namespace=" + "a" * 64], "use at most 63"),
    "a namespace with a final line end": (["--namespace=abc\n"], "--namespace: 'abc\\n' is no name"),
    "a lease with a slash": (["--lease=a/b"], "--lease: 'a/b' is no name"),
    "a lease that is empty": (["--lease="], "--lease: '' is no name"),
    "an unknown level": (["--log-level=loud"], "--log-level: invalid choice: 'loud'"),
    "an unknown format": (["--log-format=xml"], "--log-format: invalid choice: 'xml'"),
}
REFUSED_BY_EXTENDER = {
    "a negative number of nodes": (
        ["--nominate-above-nodes=-1"],
        "--nominate-above-nodes: '-1' is not usable; give",
    ),
    "a number of nodes with a unit": (["--nominate-above-nodes=1k"], "give a whole number from 0 to"),
    "a number of ten thousand digits": (
        ["--nominate-above-nodes=" + "9" * 10_000],
        "give a whole number from 0",
    ),
    "a gate without a scheme": (["--gate=127.0.0.1:8081"], "--gate: "),
    "a gate with a path": (["--gate=http://127.0.0.1:8081/bind"], "write scheme, host and port only"),
    "a gate with a query": (["--gate=http://127.0.0.1:8081?a=b"], "write scheme, host and port only"),
    "a gate by file": (["--gate=file:///etc/passwd"], "--gate: file://... is no base URL"),
    "a gate with a bad port": (["--gate=http://127.0.0.1:99999"], "--gate: not a URL"),
    "an open gate on another host": (
        ["--gate=http://10.0.0.1:8081"],
        "--gate: 10.0.0.1 is another host and http is open",
    ),
    "a gate by https, and no certificate": (
        ["--gate=https://127.0.0.1:1"],
        "--gate: https needs a certificate",
    ),
    "a scheduler on another host": (
        ["--scheduler=https://10.0.0.1:10259"],
        "--scheduler: 10.0.0.1 is another host, which would be shown our token; use a loopback one",
    ),
    "a scheduler by name": (["--scheduler=https://scheduler:10259"], "--scheduler: scheduler is another host"),
    "a scheduler with a path": (["--scheduler=https://127.0.0.1:10259/metrics"], "write scheme, host and port only"),
    "an option of the gate": (["--http-timeout=600"], "--http-timeout"),
}
REFUSED_BY_GATE = {
    "a time-out too short": (
        ["--http-timeout=4"],
        "--http-timeout: '4' is not usable; give a whole number from 5 to 3600",
    ),
    "a time-out too long": (["--http-timeout=3601"], "give a whole number from 5 to 3600"),
    "a time-out with a unit": (["--http-timeout=10m"], "--http-timeout: '10m' is not usable"),
    "a time-out that is not a number": (["--http-timeout=nan"], "--http-timeout: 'nan' is not usable"),
    "an open extender on another host": (
        ["--extender=http://example.org"],
        "--extender: example.org is another host",
    ),
    "an option of the extender": (["--gate=http://127.0.0.1:1"], "--gate"),
}


def refusals(*tables):
    return [pytest.param(*case, id=name) for table in tables for name, case in table.items()]


@pytest.mark.parametrize(("argv", "want"), refusals(REFUSED_BY_BOTH, REFUSED_BY_EXTENDER))
def test_the_extender_refuses(argv, want, capsys):
    assert_refused(settings.read_extender, argv, want, capsys)


@pytest.mark.parametrize(("argv", "want"), refusals(REFUSED_BY_BOTH, REFUSED_BY_GATE))
def test_the_gate_refuses(argv, want, capsys):
    assert_refused(settings.read_gate, argv, want, capsys)


@pytest.mark.parametrize("absent", ["answers-listen", "answers-cert", "answers-key"])
def test_answers_in_part_are_refused(absent, capsys):
    given = {"answers-listen": "0.0.0.0:8443", "answers-cert": "a.crt", "answers-key": "a.key"}
    argv = [f"--{name}={value}" for name, value in given.items() if name != absent]
    assert_refused(settings.read_extender, argv, f"--{absent}: is missing; live answers need all of", capsys)


def test_the_page_is_served_to_this_host_without_tls_and_to_others_with_it_only(files, capsys):
    assert settings.read_extender(["--page-listen=127.0.0.1:8082"], HOST).page == settings.Page(
        settings.Listen("127.0.0.1", 8082), None
    )
    pair = [f"--page-cert={files['tls-cert']}", f"--page-key={files['tls-key']}"]
    assert_refused(settings.read_extender, ["--page-listen=0.0.0.0:8082"], "--page-listen: 0.0.0.0 can be", capsys)
    for one in pair:
        argv = ["--page-listen=127.0.0.1:8082", one]
        assert_refused(settings.read_extender, argv, "--page-cert, --page-key: one of them is missing", capsys)
    assert_refused(settings.read_extender, pair, "--page-listen: is missing", capsys)


@pytest.mark.parametrize("absent", ["tls-cert", "tls-key", "client-ca"])
def test_tls_in_part_is_refused_also_on_loopback(absent, files, capsys):
    argv = [option for option in tls_options(files) if not option.startswith(f"--{absent}=")]
    assert_refused(settings.read_gate, argv, f"--{absent}: is missing; TLS needs all of", capsys)


def test_a_password_in_a_url_is_refused_and_not_shown(capsys):
    assert_refused(
        settings.read_extender,
        ["--gate=http://u:hunter2@127.0.0.1:1"],
        "--gate: http://... is no",
        capsys,
        "hunter2",
    )


@pytest.mark.parametrize(
    ("host", "want"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("128.0.0.1", False),
        ("localhost.", False),
        ("127.0.0.1.example", False),
    ],
)
def test_loopback_is_only_what_surely_is(host, want):
    assert settings.is_loopback(host) is want


def assert_refused(read, argv, want, capsys, never=None):
    with pytest.raises(SystemExit) as ended:
        read(argv, HOST)
    shown = capsys.readouterr().err
    assert ended.value.code == 2
    assert want in shown.splitlines()[-1]
    assert never is None or never not in shown


@pytest.mark.parametrize("read", [settings.read_extender, settings.read_gate])
def test_metrics_are_served_in_the_open_only_where_it_is_asked_for(read):
    assert read([], HOST).metrics_listen is None
    assert read(["--metrics-listen=0.0.0.0:9464"], HOST).metrics_listen == settings.Listen("0.0.0.0", 9464)
