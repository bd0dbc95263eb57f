"""One pod bound to one node, proved.

Takes: the pod's identity and the node. Gives: what is known to be true at the end. Must not: report success
that no answer of the API server proves, bind to another node than asked, or decide what becomes of the rest
of the group.

A Binding whose answer is lost may have been done, and the scheduler keeps room for a pod for ever if it is
told of a success that is none. So after every answer but a success the pod itself is asked. Sending the
Binding twice is safe: it carries the pod's uid, and the API server refuses the second one.
"""

import asyncio
import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from extender.kube import backoff, client, errors, resources

BACKOFF_FIRST = 0.05
BACKOFF_CEILING = 2.0
DEADLINE_SECONDS = 30.0
#: so long from the first attempt on a 403 may be that of an authorizer that has just started; a release must not
#: break in two because the API server was restarted within it
FORBIDDEN_SECONDS = 5.0


class Verdict(enum.StrEnum):
    """What is known of the pod after the attempt."""

    BOUND = "bound"  # to the node asked for, by us now or before
    ELSEWHERE = "elsewhere"  # to another node, by somebody else
    GONE = "gone"  # deleted, being deleted, or another pod has its name
    REFUSED = "refused"  # the API server will not bind it, however often it is asked
    UNSETTLED = "unsettled"  # the deadline came first: a Binding on its way may still be done


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """`node` is where the pod is bound, empty if it is not known to be; `text` is for people."""

    verdict: Verdict
    node: str
    text: str


@dataclasses.dataclass(frozen=True, slots=True)
class _Attempt:
    api: client.Api
    namespace: str
    name: str
    uid: str
    node: str
    body: dict[str, Any]
    ends: float
    #: until when a 403 is tried again
    patient_until: float

    @property
    def path(self) -> str:
        return resources.Served(resources.PODS, "v1").path(self.namespace, self.name)

    @property
    def left(self) -> float:
        return self.ends - _now()

    @property
    def timeout(self) -> float:
        return max(min(client.CALL_SECONDS, self.left), 0.001)


async def bind(
    api: client.Api,
    namespace: str,
    name: str,
    uid: str,
    node: str,
    annotations: Mapping[str, str],
    deadline_seconds: float = DEADLINE_SECONDS,
) -> Outcome:
    """Bind the pod to the node; the annotations are put on the pod in the same write."""
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace, "uid": uid}
        | ({"annotations": dict(annotations)} if annotations else {}),
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    now = _now()
    attempt = _Attempt(api, namespace, name, uid, node, body, now + deadline_seconds, now + FORBIDDEN_SECONDS)
    delays = backoff.Backoff(BACKOFF_FIRST, BACKOFF_CEILING)
    text = "no time left"
    while attempt.left > 0:
        settled, text, wait = await _try_once(attempt)
        if settled is not None:
            return settled
        await asyncio.sleep(min(max(delays.next(), wait), max(attempt.left, 0.0)))
    return Outcome(Verdict.UNSETTLED, "", text)


async def _try_once(attempt: _Attempt) -> tuple[Outcome | None, str, float]:
    """Send the Binding; look at the pod if need be: (outcome, why there is none, least wait)."""
    try:
        await attempt.api.request(
            "POST",
            f"{attempt.path}/binding",
            body=attempt.body,
            timeout=attempt.timeout,
            queue=max(attempt.left - attempt.timeout, 0.0),
        )
    except errors.NotFound as error:
        return Outcome(Verdict.GONE, "", error.message), "", 0.0
    except errors.TooManyRequests as error:
        return None, str(error), error.retry_after
    except errors.Forbidden as error:
        if error.may_pass and _now() < attempt.patient_until:
            return None, str(error), 0.0
        return Outcome(Verdict.REFUSED, "", str(error)), "", 0.0
    except (errors.Conflict, errors.ServerError, errors.Unreachable, errors.Unreadable) as error:
        return await _look(attempt, error)
    except errors.ApiError as error:
        return Outcome(Verdict.REFUSED, "", str(error)), "", 0.0
    return Outcome(Verdict.BOUND, attempt.node, ""), "", 0.0


async def _look(attempt: _Attempt, cause: errors.KubeError) -> tuple[Outcome | None, str, float]:
    """What the pod says after a Binding that failed, or may have."""
    try:
        pod = await attempt.api.read(attempt.path, timeout=attempt.timeout)
    except errors.NotFound as error:
        return Outcome(Verdict.GONE, "", error.message), "", 0.0
    except errors.KubeError as error:
        wait = error.retry_after if isinstance(error, errors.ApiError) else None
        return None, f"{cause}; then {error}", wait or 0.0
    wait = cause.retry_after if isinstance(cause, errors.ApiError) else None
    return judge(pod, attempt.uid, attempt.node, str(cause)), str(cause), wait or 0.0


def judge(pod: Mapping[str, Any], uid: str, node: str, cause: str) -> Outcome | None:
    """What a live pod proves about its binding to `node`; None if it can still be bound."""
    metadata, spec = _part(pod, "metadata"), _part(pod, "spec")
    bound_to = spec.get("nodeName")
    if metadata.get("uid") != uid:
        return Outcome(Verdict.GONE, "", "another pod has its name now")
    if bound_to == node:
        return Outcome(Verdict.BOUND, node, "")
    if isinstance(bound_to, str) and bound_to:
        return Outcome(Verdict.ELSEWHERE, bound_to, f"already bound to {bound_to}")
    if metadata.get("deletionTimestamp"):
        return Outcome(Verdict.GONE, "", "being deleted")
    if spec.get("schedulingGates"):
        return Outcome(Verdict.REFUSED, "", f"has scheduling gates: {cause}")
    return None


def _part(content: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = content.get(key)
    return value if isinstance(value, dict) else {}


def _now() -> float:
    return asyncio.get_running_loop().time()
