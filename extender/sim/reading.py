"""Files of trouble reports as values, or a fault that says which report and field, and the mend.

Takes paths, gives reports whose names all mean something; must not run anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from extender.sim import vocabulary
from extender.sim.fields import Fault, Need, Read, list_of, one_of, record, seconds, text
from extender.sim.names import Names
from extender.sim.report import Budget, Check, Event, Group, Node, Pod, Queue, Report, Scenario, Settings


def read_files(paths: Iterable[str]) -> list[Report]:
    """All reports of these files, in their order; a Fault names the first thing that is wrong."""
    reports: list[Report] = []
    for path in paths:
        for found in _read(path):
            if any(found.id == other.id for other in reports):
                raise Fault(f"{path}: {found.id}", "this id was used before", "give each report an id of its own")
            reports.append(found)
    return reports


def _read(path: str) -> list[Report]:
    try:
        loaded = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise Fault(path, f"cannot be read ({error.strerror})", "name a file that is there") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise Fault(path, f"is not YAML ({' '.join(str(error).split())})", "mend its syntax there") from None
    if not isinstance(loaded, list):
        raise Fault(path, "is not a list of reports", "begin each report with `- id: NAME`")
    return [read_report(item, f"{path}: {_name(item, number)}") for number, item in enumerate(loaded)]


def _name(item: object, number: int) -> str:
    named = item.get("id") if isinstance(item, dict) else None
    return named if isinstance(named, str) and named else f"report {number + 1}"


def read_report(item: object, path: str = "report") -> Report:
    """One report from what the parser gave of it."""
    found: Report = _REPORT(item, path)
    Names(found).check(path)
    return found


# --- events and checks: a kind decides the fields --------------------------------------------------


def _event(value: object, path: str) -> Event:
    fields = _of_kind(value, path, "kind", vocabulary.EVENTS, {"at": Need(seconds), "note": _anything})
    at, kind = fields.pop("at"), fields.pop("kind")
    fields.pop("note", None)
    return Event(at, kind, fields)


def _check(value: object, path: str) -> Check:
    if isinstance(value, dict) and value.get("check") == "any_of":
        options = list_of(list_of(_check, least=1), least=1)
        return record({"check": Need(text), "options": Need(options)}, _any_of)(value, path)  # type: ignore[no-any-return]
    when = dict.fromkeys(("at", "by", "until"), seconds)
    fields = _of_kind(value, path, "check", vocabulary.CHECKS, when)
    times = {name: fields.pop(name, None) for name in when}
    if times["at"] is not None and (times["by"] is not None or times["until"] is not None):
        raise Fault(f"{path}.at", "stands beside `by` or `until`", "leave one of them out")
    return Check(fields.pop("check"), fields, **times)


def _any_of(check: str, options: tuple[tuple[Check, ...], ...]) -> Check:
    return Check(check, {}, options=options)


def _of_kind(
    value: object,
    path: str,
    kind: str,
    kinds: Mapping[str, vocabulary.Fields],
    common: Mapping[str, Read | Need],
) -> dict[str, Any]:
    known = one_of(*kinds)
    named = value.get(kind) if isinstance(value, dict) else None
    fields = kinds[known(named, f"{path}.{kind}")] if isinstance(value, dict) else {}
    found: dict[str, Any] = record({kind: Need(known), **common, **fields})(value, path)
    chosen = vocabulary.CHOICES.get(str(named), ())
    if chosen and sum(name in found for name in chosen) != 1:
        raise Fault(path, f"has not exactly one of {', '.join(chosen)}", "name one of them")
    return found


def _anything(value: object, path: str) -> object:
    return value


_SCENARIO: Mapping[str, Read | Need] = {
    "settings": record(vocabulary.SETTINGS, Settings),
    "nodes": Need(list_of(record(vocabulary.NODE, Node))),
    "queues": list_of(record(vocabulary.QUEUE, Queue)),
    "groups": list_of(record(vocabulary.GROUP, Group)),
    "pods": list_of(record(vocabulary.POD, Pod)),
    "budgets": list_of(record(vocabulary.BUDGET, Budget)),
    "events": list_of(_event),
}


def _report(id: str, area: str, scenario: Scenario, want: tuple[Check, ...], **_: object) -> Report:
    return Report(id, area, scenario, want)


_REPORT = record(
    {
        "id": Need(text),
        "area": Need(text),
        "scenario": Need(record(_SCENARIO, Scenario)),
        "want": Need(list_of(_check, least=1)),
        **dict.fromkeys(("source", "also", "state", "symptom", "basis", "why"), _anything),
    },
    _report,
)
