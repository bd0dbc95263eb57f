"""Waiting for a condition with a deadline: the only place in e2e that sleeps.

Takes a function to ask again and again; gives its first accepted answer, or raises with the last state seen.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")
POLL_SECONDS = 0.05
SHOWN_CHARACTERS = 3000


class NotReached(AssertionError):
    """The deadline passed; the text says what was awaited and the last state seen."""


def wait_for(
    condition: Callable[[], T], deadline: float = 30, what: str = "", *, until: Callable[[T], Any] = bool
) -> T:
    """Ask `condition` until `until(answer)` is true, and return that answer.

    An AssertionError or ApiError (any exception with a `status`) is a state that is not right yet; others pass.
    """
    end = time.monotonic() + deadline
    while True:
        state: T | str
        try:
            state = answer = condition()
            if until(answer):
                return answer
        except NotReached:
            raise
        except Exception as error:
            state = _tolerated(error)
        if time.monotonic() >= end:
            raise NotReached(_report(what or _name(condition), deadline, state))
        time.sleep(POLL_SECONDS)


async def wait_for_async(
    condition: Callable[[], T | Awaitable[T]],
    deadline: float = 30,
    what: str = "",
    *,
    until: Callable[[T], Any] = bool,
) -> T:
    """The same for coroutines."""
    end = time.monotonic() + deadline
    while True:
        state: T | str
        try:
            answer = condition()
            state = await answer if inspect.isawaitable(answer) else answer
            if until(state):
                return state
        except NotReached:
            raise
        except Exception as error:
            state = _tolerated(error)
        if time.monotonic() >= end:
            raise NotReached(_report(what or _name(condition), deadline, state))
        await asyncio.sleep(POLL_SECONDS)


def holds_for(condition: Callable[[], T], seconds: float, what: str = "", *, until: Callable[[T], Any] = bool) -> None:
    """Check that a condition stays true for some time: for 'nothing happens'. Raises on the first answer refused."""
    end = time.monotonic() + seconds
    while True:
        state = condition()
        if not until(state):
            raise NotReached(f"did not stay so: {what or _name(condition)}\nstate: {_shown(state)}")
        if time.monotonic() >= end:
            return
        time.sleep(POLL_SECONDS)


def _tolerated(error: Exception) -> str:
    if isinstance(error, AssertionError) or hasattr(error, "status"):
        return f"{type(error).__name__}: {error}"
    raise error


def _name(condition: Callable[..., Any]) -> str:
    return getattr(condition, "__name__", repr(condition))


def _report(what: str, deadline: float, state: Any) -> str:
    return f"not reached within {deadline:g} s: {what}\nlast state seen: {_shown(state)}"


def _shown(state: Any) -> str:
    text = state if isinstance(state, str) else json.dumps(state, indent=1, default=str, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + " ..."
