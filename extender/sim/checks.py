"""Each kind of check: whether what is seen now is what is wanted.

Takes a check and the sight of a run, gives a verdict with the values seen; must not know about time: `watching`
decides when a check is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from extender.sim import resources
from extender.sim.answers import Said, code_of_text, mentions
from extender.sim.lives import Life
from extender.sim.names import object_named
from extender.sim.sight import Sight

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a check holds, and what was seen."""

    held: bool
    seen: str


def read(kind: str, fields: Fields, sight: Sight) -> Verdict:
    """Read a check now."""
    return _READERS[kind](fields, sight)


def _lives(fields: Fields, sight: Sight) -> list[Life]:
    return sight.group(fields["group"]) if "group" in fields else sight.pod(fields["pod"])


def _counted(fields: Fields, sight: Sight) -> list[Life]:
    return sight.group(fields["group"]) if "group" in fields else sight.counted(fields["pod"])


def _between(number: int, fields: Fields) -> Verdict:
    low, high = fields.get("min", 0), fields.get("max")
    return Verdict(number >= low and (high is None or number <= high), str(number))


# --- pods and groups -------------------------------------------------------------------------------


def _bound(fields: Fields, sight: Sight) -> Verdict:
    number = len(sight.bound(_lives(fields, sight)))
    return Verdict(number == fields["count"], str(number))


def _bound_always(fields: Fields, sight: Sight) -> Verdict:
    number = len(sight.bound(sight.group(fields["group"])))
    return Verdict(number in fields["allowed"], str(number))


def _census(fields: Fields, sight: Sight) -> Verdict:
    numbers = {name: len(sight.bound(sight.group(name))) for name in fields["groups"]}
    counted, wanted = Counter(numbers.values()), {key: value for key, value in fields["counts"].items() if value}
    held = all(counted[key] == value for key, value in fields["counts"].items())
    complete = sum(wanted.values()) < len(numbers) or dict(counted) == wanted
    return Verdict(held and complete, ", ".join(f"{name} {number}" for name, number in numbers.items()))


def _held(fields: Fields, sight: Sight) -> Verdict:
    return _between(len(sight.held(fields["group"])), fields)


def _finished(fields: Fields, sight: Sight) -> Verdict:
    left = [name for name in fields["groups"] if not sight.finished(name)]
    return Verdict(not left, f"not finished: {', '.join(left)}" if left else "all finished")


def _order(fields: Fields, sight: Sight) -> Verdict:
    first, then = sight.first(fields["first"]), sight.first(fields["then"])
    seen = ", ".join(
        f"{fields[key]} {'has not started' if place is None else f'started with binding {place + 1}'}"
        for key, place in (("first", first), ("then", then))
    )
    return Verdict(first is not None and (then is None or first < then), seen)


def _evicted(fields: Fields, sight: Sight) -> Verdict:
    return _between(sum(life.evicted for life in _counted(fields, sight)), fields)


def _evicted_total(fields: Fields, sight: Sight) -> Verdict:
    return _between(sum(life.evicted for life in sight.everybody()), fields)


def _failed(fields: Fields, sight: Sight) -> Verdict:
    return _between(sum(life.failed_on_node for life in sight.group(fields["group"])), fields)


def _nodes(fields: Fields, sight: Sight) -> Verdict:
    there = {life.node for life in sight.bound(_lives(fields, sight))}
    held = there <= set(fields["in"]) if "in" in fields else True
    held = held and not there & set(fields.get("not_in", ()))
    return Verdict(held, ", ".join(sorted(map(str, there))) or "none bound")


def _same_domain(fields: Fields, sight: Sight) -> Verdict:
    found = set()
    for life in sight.bound(sight.group(fields["group"])):
        node = sight.node(life.node or "")
        found.add(node["metadata"]["labels"].get(fields["key"]) if node is not None else None)
    held = not found or (len(found) == 1 and None not in found)
    held = held and (not found or "value" not in fields or found == {fields["value"]})
    return Verdict(held, ", ".join(sorted(str(value) for value in found)) or "none bound")


# --- queues and cards ------------------------------------------------------------------------------


def _queue_used(fields: Fields, sight: Sight) -> Verdict:
    return _usage(fields, sight, lambda used, wanted: used == wanted)


def _queue_used_max(fields: Fields, sight: Sight) -> Verdict:
    return _usage(fields, sight, lambda used, wanted: used <= wanted)


def _usage(fields: Fields, sight: Sight, fits: Callable[[Fraction, Fraction], bool]) -> Verdict:
    wanted = {name: resources.exact(name, text) for name, text in fields["resources"].items()}
    used = {name: sight.used(fields["queue"], name) for name in wanted}
    seen = ", ".join(f"{name} {_in_units(name, value)}" for name, value in used.items())
    return Verdict(all(fits(used[name], value) for name, value in wanted.items()), seen)


def _in_units(name: str, value: Fraction) -> str:
    return f"{float(value / 1000 if name == 'cpu' else value):g}"


def _queue_state(fields: Fields, sight: Sight) -> Verdict:
    state = sight.status("Queue", fields["queue"], "state")
    return Verdict(state == fields["state"], state or "no state")


def _cards(fields: Fields, sight: Sight) -> Verdict:
    bound = [life for name in fields["pods"] for life in sight.bound(sight.pod(name))]
    places = [frozenset((life.node, share.card) for share in life.shares) for life in bound]
    seen = ", ".join(
        f"{life.making.name} on {' '.join(sorted(f'{n}/{c}' for n, c in place)) or 'no card'}"
        for life, place in zip(bound, places, strict=True)
    )
    if len(bound) < len(fields["pods"]) or not all(places):
        return Verdict(False, seen or "none bound")
    if fields["relation"] == "same":
        return Verdict(len(set(places)) == 1, seen)
    return Verdict(sum(map(len, places)) == len(frozenset().union(*places)), seen)


def _card_load(fields: Fields, sight: Sight) -> Verdict:
    loads = {card: getattr(share, fields["resource"]) for card, share in sight.card_loads(fields["node"]).items()}
    seen = ", ".join(f"{card} {load}" for card, load in loads.items())
    return Verdict(all(load <= fields["max"] for load in loads.values()), seen or "nothing on the cards")


# --- what is said ----------------------------------------------------------------------------------


#: codes that speak of the last eviction, whatever the group waits for now
_OF_EVICTIONS = ("Preempted", "Reclaimed")


def _reason(fields: Fields, sight: Sight) -> Verdict:
    if "queue" in fields:
        said = sight.why_queue(fields["queue"])
    elif "group" in fields and fields["code"] in _OF_EVICTIONS:
        said = sight.why_evicted(fields["group"])
    elif "group" in fields:
        said = sight.why_group(fields["group"])
    else:
        said = sight.why_pod(fields["pod"])
    if said is None:
        return Verdict(False, "no reason")
    missing = [wanted for wanted in fields.get("mentions", ()) if not mentions(said, wanted)]
    return Verdict(said.code == fields["code"] and not missing, _with_missing(said, missing))


def _with_missing(said: Said, missing: list[str]) -> str:
    return f"{said} without {', '.join(missing)}" if missing else str(said)


def _rejected(fields: Fields, sight: Sight) -> Verdict:
    refused = [text for what, text in sight.refusals() if what == fields["object"]]
    if refused:
        return Verdict(True, f"refused: {refused[-1]}")
    kind, name, _ = object_named(fields["object"])
    said = _set_aside(kind, name, sight)
    if said is None:
        return Verdict(False, "neither refused nor set aside")
    runs = any(
        name in (life.making.queue if kind == "Queue" else None, life.making.name, _group_of(life))
        for life in sight.bound(sight.everybody())
    )
    return Verdict(said.code == fields["code"] and not runs, f"{said}{', and it runs' if runs else ''}")


def _group_of(life: Life) -> str | None:
    return life.making.group.name if life.making.group is not None else None


def _set_aside(kind: str, name: str, sight: Sight) -> Said | None:
    if kind == "PodGroup":
        return sight.why_group(name)
    return sight.why_pod(name) if kind == "Pod" else sight.why_queue(name)


def _group_phase(fields: Fields, sight: Sight) -> Verdict:
    phase = sight.status("PodGroup", fields["group"], "phase")
    held = phase == fields["is"] if "is" in fields else phase != fields["not"]
    return Verdict(held, phase or "no phase")


def _answer(fields: Fields, sight: Sight) -> Verdict:
    error = sight.answer(fields["call"])
    if error is None:
        return Verdict(False, "no answer")
    result = "error" if error else "success"
    held = result == fields["result"] and fields.get("code") in (None, code_of_text(error))
    return Verdict(held, f"{result} {error}".strip())


def _answers(fields: Fields, sight: Sight) -> Verdict:
    return Verdict(sight.longest() <= fields["max_seconds"], f"longest {sight.longest():.3f} s")


# --- what is written -------------------------------------------------------------------------------


def _writes(fields: Fields, sight: Sight) -> Verdict:
    written: str = fields["object"]
    if written.startswith("events "):
        kind, name, _ = object_named(written.rpartition(" of ")[2])
        conditions = "and conditions" in written
        number = sum(
            request.regarding == (kind, name)
            or (conditions and (request.kind, request.name, request.subresource) == (kind, name, "status"))
            for request in sight.requests()
        )
    else:
        kind, name, part = object_named(written)
        number = sum(
            (request.kind, request.name) == (kind, name) and (not part or request.subresource == part)
            for request in sight.requests()
        )
    return _between(number, fields)


def _binding_posts(fields: Fields, sight: Sight) -> Verdict:
    uids = {life.uid for life in sight.counted(fields["pod"])}
    number = sum(request.subresource == "binding" and request.uid in uids for request in sight.requests())
    return _between(number, fields)


_READERS: Mapping[str, Callable[[Fields, Sight], Verdict]] = {
    "bound": _bound,
    "bound_always": _bound_always,
    "census": _census,
    "held": _held,
    "finished": _finished,
    "order": _order,
    "evicted": _evicted,
    "evicted_total": _evicted_total,
    "queue_used": _queue_used,
    "queue_used_max": _queue_used_max,
    "nodes": _nodes,
    "same_domain": _same_domain,
    "cards": _cards,
    "card_load": _card_load,
    "reason": _reason,
    "rejected": _rejected,
    "queue_state": _queue_state,
    "group_phase": _group_phase,
    "failed": _failed,
    "answer": _answer,
    "answers": _answers,
    "writes": _writes,
    "binding_posts": _binding_posts,
}
