"""`kubectl muster why`: why a group, or a pod of it, is still waiting, and why it was evicted.

Takes a subject, gives one answer; must not have words of its own for reasons.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from extender.cli import history, tables
from extender.cli.cluster import Cluster
from extender.cli.naming import Subject
from extender.core import explain
from extender.core.model import Pod
from extender.core.reasons import Detail, Ground, Reason, Refusal
from extender.wire.answers import age
from extender.wire.fields import seconds_of

Object = dict[str, Any]
#: so many lines of history are shown to people
_PAST = 5
_GROUNDS = frozenset(ground.value for ground in Ground)
_REASONS = {reason.value: reason for reason in Reason}


async def gather(cluster: Cluster, namespace: str, text: str) -> Object:
    """The whole answer."""
    subject, past = await history.together(cluster, namespace, text)
    if subject is None:
        return {"name": text, "namespace": namespace, "live": False, "phase": "Gone", **_gone(past), "history": past}
    told: Object = {
        "name": subject.title,
        "namespace": namespace,
        "live": subject.live,
        **{name: value for name, value in subject.status.items() if name != "history"},
    }
    if subject.evicted is not None:
        told["evicted"] = subject.evicted
    if subject.pod is not None:
        told["pod"] = _pod(subject, subject.pod)
    return told | {"history": past}


def _gone(past: list[Object]) -> Object:
    """The newest eviction that Events tell of."""
    found = next((one for one in reversed(past) if one["reason"] in _GROUNDS), None)
    return (
        {} if found is None else {"evicted": {"rule": found["reason"], "at": found["at"], "message": found["message"]}}
    )


def _pod(subject: Subject, pod: Pod) -> Object:
    """What concerns this member alone."""
    told: Object = {"name": pod.name}
    if pod.node is not None:
        told["node"] = pod.node
    if pod.task:
        told["task"] = pod.task
    refusal = _refusal(subject.status)
    if pod.waiting and refusal is not None:
        own = explain.of_member(refusal, pod)
        told |= {"reason": own.reason.value, "message": explain.sentence(own)}
    if subject.pod_evicted is not None:
        told["evicted"] = subject.pod_evicted
    return told


def _refusal(status: Object) -> Refusal | None:
    """The refusal that a live answer was made of; without its numbers where it is none."""
    reason, detail = _REASONS.get(str(status.get("reason"))), status.get("detail")
    if reason is None or not isinstance(detail, list):
        return None
    pairs: Detail = tuple((one["name"], one["value"]) for one in detail if isinstance(one, dict))
    return Refusal(reason, pairs)


# --- for people --------------------------------------------------------------------------------------


def show(told: Object, now: float, paint: tables.Paint) -> Iterator[str]:
    """Some lines."""
    name, namespace = tables.plain(told["name"]), tables.plain(told["namespace"])
    phase = tables.plain(told.get("phase", "Unknown"))
    yield f"{paint(tables.BOLD, name)} in namespace {namespace}: {paint.word(phase)}"
    yield from tables.fields(_pairs(told, now), paint)
    past = told["history"][-_PAST:]
    if past:
        yield ""
        yield from history.show({"items": past}, now, paint)


def _pairs(told: Object, now: float) -> Iterator[tuple[str, str]]:
    if told.get("queue"):
        position = f", position {told['position']}" if "position" in told else ""
        yield "Queue", f"{told['queue']}{position}"
    if members := told.get("members"):
        yield "Members", _members(members)
    yield from waiting(told, now)
    for where in told.get("plannedNodes", ()):
        yield "Planned on", f"{where['name']} ({where['members']})"
    if "plannedElsewhere" in told:
        yield "Planned on", f"other nodes ({told['plannedElsewhere']})"
    if "evicted" in told:
        yield "Evicted", _evicted(told["evicted"], now)
    if "pod" in told:
        yield from _of_pod(told["pod"], now)


def waiting(told: Object, now: float) -> Iterator[tuple[str, str]]:
    """Why something waits, and what would end that."""
    if "reason" not in told:
        return
    since = f" for {_age(told['since'], now)}" if "since" in told else ""
    yield "Waits", f"{told['reason']}{since}: {told.get('message', '')}"
    for one in told.get("startsWhen", ()):
        yield "Starts when", one["message"]
    if "expectedStart" in told:
        yield "Expected", f"{told['expectedStart']} ({_until(told['expectedStart'], now)})"


def _members(members: Object) -> str:
    bound = members.get("bound", 0) + members.get("succeeded", 0)
    minimum = members.get("minimum")
    told = [f"{bound} bound or succeeded of at least {'?' if minimum is None else minimum}"]
    for name, words in (("have", "exist"), ("planned", "have places"), ("failed", "failed")):
        if members.get(name):
            told.append(f"{members[name]} {words}")
    return ", ".join(told)


def _evicted(record: Object, now: float) -> str:
    when = "is asked to leave" if record.get("pending") else f"{_age(record['at'], now)} ago"
    return f"{when}, {record['rule']}: {record['message']}"


def _of_pod(pod: Object, now: float) -> Iterator[tuple[str, str]]:
    where = f"on {pod['node']}" if "node" in pod else "has no node yet"
    yield "Pod", f"{pod['name']} {where}"
    if "reason" in pod:
        yield "Pod", f"{pod['reason']}: {pod['message']}"
    if "evicted" in pod:
        yield "Pod", _evicted(pod["evicted"], now)


def _age(text: str, now: float) -> str:
    seconds = seconds_of(text)
    return "some time" if seconds is None else age(now - seconds)


def _until(text: str, now: float) -> str:
    seconds = seconds_of(text)
    return "" if seconds is None else "any moment" if seconds <= now else f"in {age(seconds - now)}"
