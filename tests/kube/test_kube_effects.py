"""Which failures of a write are worth another try, and after how long."""

from typing import Any

import pytest

from extender.kube import effects, errors

NAMESPACE_GOES = {"details": {"causes": [{"reason": "NamespaceTerminating"}]}}

CASES: dict[str, tuple[errors.KubeError, float | None]] = {
    "429 after the time that was asked for": (errors.from_status(429, {}, "7"), 7.0),
    "500": (errors.from_status(500, {}), 0.0),
    "409": (errors.from_status(409, {}), 0.0),
    "401: the token may be renewed": (errors.from_status(401, {}), 0.0),
    "403: the authorizer may have just started": (errors.from_status(403, {"reason": "Forbidden"}), 1.0),
    "403 in a namespace that goes away": (errors.from_status(403, NAMESPACE_GOES), None),
    "no answer": (errors.Unreachable("reset"), 0.0),
    "422": (errors.from_status(422, {}), None),
    "404": (errors.from_status(404, {}), None),
    "400": (errors.from_status(400, {}), None),
    "an answer that is no JSON": (errors.Unreadable("html"), None),
}


@pytest.mark.parametrize(("error", "want"), CASES.values(), ids=CASES.keys())
def test_when_a_write_is_tried_again(error: errors.KubeError, want: Any) -> None:
    assert effects.retry_of(error) == want
