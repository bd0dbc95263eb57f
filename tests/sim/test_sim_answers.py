"""The neutral words: each reason of ours has one or is known to have none, and words are found whole."""

from __future__ import annotations

import pytest

from extender.core.reasons import Reason, Refusal
from extender.sim import answers
from extender.sim.answers import Said

#: reasons that the reports do not know: they are of our own making
OF_OUR_OWN = {
    "Queued",
    "GroupNotFound",
    "RefusedByScheduler",
    "StartingUp",
    "NotReady",
    "NotActive",
    "NamespaceNotAllowed",
    "BeingEvicted",
    "StaysSuspended",
}


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_neutral_code_or_is_of_our_own(reason: Reason) -> None:
    assert answers.has_code(reason.value) is (reason.value not in OF_OUR_OWN)


CPU = answers.of_refusal(
    Refusal(Reason.RESOURCES, (("task", "w"), ("resource", "cpu"), ("asked", 5000), ("free", 400)))
)


@pytest.mark.parametrize(
    ("said", "wanted", "found"),
    [
        (CPU, "cpu", True),
        (CPU, "cp", False),
        (CPU, "w", True),
        (CPU, "5000", True),
        (CPU, "5", True),  # millicores
        (CPU, "5000m", True),
        (CPU, "0.4", True),
        (CPU, "40", False),
        (Said("X", "asks 16Gi of example.com/gpu."), "16384Mi", True),
        (Said("X", "asks 16Gi of example.com/gpu."), "example.com/gpu", True),
        (Said("X", "asks 16Gi of example.com/gpu."), "gpu", False),
        (Said("X", "asks 16Gi of example.com/gpu."), "1", False),
        (Said("X", "b-10 of b-1x"), "b-1", False),
        (Said("X", "queue 'q' (top)"), "q", True),
        (Said("X", "none", (("level", "net/block"),)), "net/block", True),
        (Said("X", "none", (("fit", 0),)), "0", True),
        (Said("X", "5 GPUs", (("resource", "nvidia.com/gpu"), ("asked", 5000))), "5", True),
        (Said("X", "GPUs", (("resource", "nvidia.com/gpu"), ("asked", 5000))), "5", False),
    ],
)
def test_words_and_numbers_are_found_whole(said: Said, wanted: str, found: bool) -> None:
    assert answers.mentions(said, wanted) is found


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("muster: the pod is already bound to n1", "AlreadyBound"),
        ("muster: elsewhere: already bound to n1", "AlreadyBound"),
        ("muster: the pod is gone", "muster: the pod is gone"),
    ],
)
def test_errors_of_calls_have_codes(text: str, code: str) -> None:
    assert answers.code_of_text(text) == code
