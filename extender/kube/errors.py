"""What can go wrong with one call to the API server.

Takes: the status, headers and body of an answer that is not a success. Gives: one exception of a small
family. Must not: decide about a retry, or carry bodies of unknown size into logs.

The three families answer different questions. ApiError: the server refused, nothing was done. Unreachable:
the outcome is unknown, the write may have happened. Unreadable: the server answered, but not in a way that
can be used. ServerError and Timeout statuses (5xx) are refusals only by name: after them, too, a write may
have happened.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from extender import settings

MESSAGE_LIMIT = 300
RETRY_AFTER_DEFAULT = 1.0
RETRY_AFTER_CEILING = 60.0


class KubeError(Exception):
    """Any failure of a call; `kind` is a word of a closed set, fit for a metric label."""

    kind = "other"


class Unconfigured(KubeError, settings.Unusable):
    """The credentials cannot be loaded; a person has to mend the configuration."""

    kind = "unconfigured"


class Unreachable(KubeError):
    """No complete answer: time-out, refused or broken connection. The outcome of a write is unknown."""

    kind = "unreachable"


class Unreadable(KubeError):
    """An answer with a success status that is too large or not the JSON that was asked for."""

    kind = "unreadable"


class Budget(KubeError):
    """A disruption budget refuses an eviction; nothing was done."""

    kind = "budget"


class Stale(KubeError):
    """The object is not any more as it was when the write was decided; nothing was done."""

    kind = "stale"


class NotServed(KubeError):
    """The API server serves no version that we know of a resource that must be there."""

    kind = "not-served"


class ApiError(KubeError):
    """The API server answered with an error status.

    `causes` are the machine-readable reasons of the answer's details; `retry_after` is in seconds, when it
    was given.
    """

    kind = "refused"

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        retry_after: float | None = None,
        causes: tuple[str, ...] = (),
    ) -> None:
        self.status = status
        self.reason = reason[:MESSAGE_LIMIT]
        self.message = message[:MESSAGE_LIMIT]
        self.retry_after = retry_after
        self.causes = causes
        super().__init__(f"{status} {self.reason}: {self.message}")


class Unauthorized(ApiError):
    """401: the credentials are not accepted, also after they were read again."""

    kind = "unauthorized"


class Forbidden(ApiError):
    """403: our account may not do this, or not yet.

    For some seconds after its start the API server's authorizer has not read its rules and refuses everybody. What
    admission refuses for a reason of its own, as in a namespace that is being deleted, has causes.
    """

    kind = "forbidden"

    @property
    def may_pass(self) -> bool:
        """True when it may be the authorizer of an API server that has just started."""
        return not self.causes


class NotFound(ApiError):
    """404: no such object, or no such resource."""

    kind = "not-found"


class Conflict(ApiError):
    """409: the object is not in the state that the write asked for."""

    kind = "conflict"


class Gone(ApiError):
    """410: the resourceVersion or the continue token is too old; list again."""

    kind = "gone"


class Invalid(ApiError):
    """422: the object that the write would make is not valid."""

    kind = "invalid"


class TooManyRequests(ApiError):
    """429: not done; ask again after `retry_after` seconds. Evictions use it for disruption budgets, too."""

    kind = "throttled"
    retry_after: float


class ServerError(ApiError):
    """5xx: the server failed; the outcome of a write is unknown."""

    kind = "server-error"


_BY_STATUS: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


def from_answer(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The exception for an HTTP answer; bodies that are no Status object are not shown."""
    return from_status(status, _decode_status(body), headers.get("Retry-After"))


def from_status(status: int, content: Mapping[str, Any], retry_after: str | None = None) -> ApiError:
    """The exception for a Status object, which also comes as the ERROR event of a watch."""
    raw_details = content.get("details")
    details = raw_details if isinstance(raw_details, dict) else {}
    family = _BY_STATUS.get(status, ServerError if status >= 500 else ApiError)
    seconds = _seconds(retry_after)
    if seconds is None:
        seconds = _seconds(details.get("retryAfterSeconds"))
    if seconds is None and family is TooManyRequests:
        seconds = RETRY_AFTER_DEFAULT
    return family(status, _text(content.get("reason")), _text(content.get("message")), seconds, _causes(details))


def _decode_status(body: bytes) -> Mapping[str, Any]:
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return content if isinstance(content, dict) and content.get("kind") == "Status" else {}


def _seconds(value: object) -> float | None:
    """Whole seconds only: a date, the other form of Retry-After, needs the server's clock."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    text = str(value).strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        return None
    seconds = float(text)
    return min(seconds, RETRY_AFTER_CEILING) if seconds > 0 else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _causes(details: Mapping[str, Any]) -> tuple[str, ...]:
    causes = details.get("causes")
    if not isinstance(causes, list):
        return ()
    return tuple(_text(cause.get("reason"))[:MESSAGE_LIMIT] for cause in causes[:16] if isinstance(cause, dict))
