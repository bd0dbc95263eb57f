"""Log lines: one line each, bounded, without secrets, with their cause, and not flooding."""

import asyncio
import io
import json
import logging
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender import settings
from extender.core import reasons
from extender.telemetry import logs, redaction

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"


class Captured:
    """The lines that a configured process writes."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()

    @property
    def records(self) -> list[dict]:
        return [json.loads(line) for line in self.lines]


@pytest.fixture
def restored():
    """The root logger as it was, afterwards."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    for name in logs.OUR_PACKAGES:
        logging.getLogger(name).setLevel(logging.NOTSET)


def configured(form: str = "json", level: str = "info") -> Captured:
    captured = Captured()
    logs.configure(settings.Logging(level, form), captured.stream)
    return captured


@pytest.fixture
def json_lines(restored) -> Captured:
    return configured()


@pytest.fixture
def text_lines(restored) -> Captured:
    return configured("text")


LOG = logs.Log("extender.app")


def test_a_line_has_time_level_logger_message_and_fields(json_lines):
    LOG.info("group admitted", cause="pod/7", members=64, reason=reasons.Reason.QUEUED, whole=True, share=0.5)
    (record,) = json_lines.records
    assert record.pop("time").endswith("Z")
    assert record == {
        "level": "info",
        "logger": "extender.app",
        "message": "group admitted",
        "cause": "pod/7",
        "members": 64,
        "reason": "Queued",
        "whole": True,
        "share": 0.5,
    }


def test_text_lines_are_for_people(text_lines):
    LOG.warning("bind failed", cause="c1", node="n 1", tries=2, why="", nodes=["a", "b"])
    (line,) = text_lines.lines
    assert line.split(" ", 1)[1] == (
        'warning extender.app bind failed node="n 1" tries=2 why="" nodes="[\\"a\\",\\"b\\"]" cause=c1'
    )


def test_the_cause_is_that_of_the_context_and_an_argument_wins(json_lines):
    with logs.caused("outer"):
        LOG.info("one")
        with logs.caused("inner"):
            LOG.info("two")
        LOG.info("three", cause="named")
        LOG.info("four", cause="")
    LOG.info("five")
    assert [record.get("cause") for record in json_lines.records] == ["outer", "inner", "named", None, None]


async def test_a_task_keeps_the_cause_under_which_it_was_started(json_lines):
    async def effect():
        LOG.info("done")

    with logs.caused("event-1"):
        first = asyncio.create_task(effect())
    with logs.caused("event-2"):
        second = asyncio.create_task(effect())
    await asyncio.gather(first, second)
    assert [record["cause"] for record in json_lines.records] == ["event-1", "event-2"]


def test_levels_are_ours_and_libraries_are_heard_from_warnings_on(restored):
    captured = configured(level="debug")
    LOG.debug("ours")
    logging.getLogger("permit_gate.app").debug("ours, too")
    logging.getLogger("aiohttp.server").info("theirs")
    logging.getLogger("aiohttp.server").warning("%s failed", "theirs")
    assert [record["message"] for record in captured.records] == ["ours", "ours, too", "theirs failed"]


def test_below_the_level_nothing_is_said(restored):
    captured = configured(level="error")
    LOG.warning("no")
    LOG.error("yes")
    assert [record["message"] for record in captured.records] == ["yes"]


def test_configuring_twice_does_not_double_the_lines(restored):
    configured()
    captured = configured()
    LOG.info("once")
    assert len(captured.lines) == 1


def test_a_percent_sign_in_a_message_is_no_format(json_lines):
    LOG.info("100 % of %s")
    assert json_lines.records[0]["message"] == "100 % of %s"


def test_a_library_s_broken_format_is_still_logged():
    record = logging.LogRecord("aiohttp", logging.WARNING, "f", 1, "%d of %d", ("x",), None)
    assert json.loads(logs.JsonLines().format(record))["message"] == "%d of %d"


def test_fields_cannot_overwrite_what_the_line_says(json_lines):
    LOG.info("true", message="forged", level="forged", time="forged", logger="forged")
    record = json_lines.records[0]
    assert (record["message"], record["level"], record["message_"]) == ("true", "info", "forged")


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.parametrize(
    "forged", ["a\nERROR b", "a\r\nb", "a\x1b[2Jb", "a\u2028b", "a\x85b", "a\x00b", "\ud800", "é中\U0001f600"]
)
def test_no_value_can_forge_a_line(form, forged, restored):
    captured = configured(form)
    LOG.info("message", name=forged, cause=forged)
    assert len(captured.lines) == 1
    assert captured.lines[0].isprintable()


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_fault_bears_its_traceback_on_the_same_line(form, restored):
    captured = configured(form)
    try:
        raise ValueError(f"refused: Bearer {TOKEN}")
    except ValueError as error:
        LOG.error("handler failed", fault=error)
    (line,) = captured.lines
    assert "test_logs.py" in line
    assert "ValueError: refused" in line
    assert TOKEN not in line


def test_a_traceback_is_cut_at_its_beginning(json_lines):
    try:
        raise ValueError("x" * 100_000 + "the end")
    except ValueError as error:
        LOG.error("handler failed", fault=error)
    assert json_lines.records[0]["traceback"].endswith("the end")
    assert len(json_lines.lines[0]) < 8000


SECRETS = {
    "a field named token": ("api_token", "s3cr3t-value", "s3cr3t"),
    "a field named password": ("Password", "s3cr3t-value", "s3cr3t"),
    "a field of a secret that is a list": ("secrets", ["s3cr3t"], "s3cr3t"),
    "an authorization header": ("authorization", "Basic s3cr3t", "s3cr3t"),
    "a bearer token in a text": ("why", "401 for Bearer s3cr3t-value-123", "s3cr3t"),
    "a web token in a text": ("why", f"got {TOKEN} back", TOKEN),
    "a web token in a list": ("whys", [f"got {TOKEN} back"], TOKEN),
    "a web token in an exception": ("why", ValueError(TOKEN), TOKEN),
    "a password in a URL": ("url", "https://admin:s3cr3t@host:6443/x", "s3cr3t"),
    "a private key": (
        "why",
        "-----BEGIN EC PRIVATE KEY-----\ns3cr3t\n-----END EC PRIVATE KEY-----",
        "s3cr3t",
    ),
    "a web token over the limit of a field": ("why", "x" * (redaction.TEXT_LIMIT - 20) + TOKEN, TOKEN[:24]),
}


@pytest.mark.parametrize(("name", "value", "secret"), SECRETS.values(), ids=SECRETS.keys())
def test_a_secret_never_appears(name, value, secret, json_lines):
    LOG.info("call", **{name: value})
    assert secret not in json_lines.lines[0]
    assert redaction.HIDDEN in json_lines.lines[0]


def test_whole_objects_are_not_shown(json_lines):
    LOG.info("pod", pod={"spec": {"env": "x"}}, body=b"bytes", huge=1 << 80, names=list(range(40)))
    record = json_lines.records[0]
    assert (record["pod"], record["body"], record["huge"]) == ("<dict>", "<bytes>", "(81 bits)")
    assert record["names"] == [*range(redaction.LIST_LIMIT), "... 40 in all"]


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no")


def test_an_exception_without_a_text_is_named(json_lines):
    LOG.info("odd", error=Unspeakable())
    assert json_lines.records[0]["error"] == "Unspeakable: (no text)"


@given(value=st.text(min_size=0, max_size=3000) | st.floats() | st.integers() | st.binary(max_size=9) | st.none())
def test_any_value_gives_one_bounded_line_in_both_forms(value):
    record = logging.LogRecord("extender", logging.INFO, "f", 1, "message", None, None)
    record.muster_fields = {"value": value}
    as_json, as_text = logs.JsonLines().format(record), logs.TextLines().format(record)
    assert json.loads(as_json)["message"] == "message"
    assert as_text.isprintable()
    assert len(json.loads(as_json)) == 5
    assert len(json.dumps(json.loads(as_json)["value"], ensure_ascii=False)) <= 6 * (redaction.TEXT_LIMIT + 30)


# --- repeats ---------------------------------------------------------------------------------------


def record_at(created: float, message: str = "bind failed", level: int = logging.WARNING) -> logging.LogRecord:
    record = logging.LogRecord("extender", level, "f", 1, message, None, None)
    record.created = created
    return record


def test_repeated_warnings_pass_a_few_times_a_period_and_the_next_one_tells_how_many_were_dropped():
    repeats = logs.Repeats()
    passed = [repeats.filter(record_at(float(second) / 10)) for second in range(100)]
    assert passed == [True] * logs.REPEATS + [False] * (100 - logs.REPEATS)
    later = record_at(logs.PERIOD_SECONDS)
    assert repeats.filter(later)
    assert logs._content(later)["dropped"] == 100 - logs.REPEATS
    assert repeats.filter(next_one := record_at(logs.PERIOD_SECONDS))
    assert "dropped" not in logs._content(next_one)


def test_each_kind_has_its_own_count_and_information_is_never_dropped():
    repeats = logs.Repeats()
    for _ in range(logs.REPEATS):
        assert repeats.filter(record_at(0))
    assert not repeats.filter(record_at(0))
    assert repeats.filter(record_at(0, "another"))
    assert repeats.filter(record_at(0, level=logging.ERROR))
    assert all(repeats.filter(record_at(0, level=logging.INFO)) for _ in range(100))


def test_a_clock_that_is_set_back_silences_nothing():
    repeats = logs.Repeats()
    for _ in range(logs.REPEATS + 1):
        repeats.filter(record_at(1e9))
    assert repeats.filter(record_at(5.0))


def test_messages_without_end_do_not_fill_the_memory():
    repeats = logs.Repeats()
    for number in range(logs.KINDS_KEPT * 3):
        repeats.filter(record_at(0, f"{number}" + "x" * 10_000))
    assert len(repeats._kinds) == logs.KINDS_KEPT
    assert sum(sys.getsizeof(kind[2]) for kind in repeats._kinds) < logs.KINDS_KEPT * 1000
