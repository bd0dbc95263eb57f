"""Whether Volcano's controller runs, by what its Leases, Deployments and pods show."""

from __future__ import annotations

import pytest

from extender.core.activity import Lease
from extender.jobs.volcano import Presence

WHERE = "volcano-system"
HELD, RENEWED = Lease("host_1", "t1", 15.0), Lease("host_1", "t2", 15.0)
GIVEN_BACK = Lease("", "t3", 15.0)

#: what came at which time (a Lease, None for its end, the replicas of the Deployment, or the phase of its pod, empty
#: when that is gone); asked when; found
CASES = {
    "nothing was ever there": ([], 0.0, False),
    "a Lease that is held counts at once": ([(0.0, HELD)], 0.0, True),
    "one that was left behind counts until its time is over": ([(0.0, HELD)], 14.9, True),
    "and no longer": ([(0.0, HELD)], 15.0, False),
    "a renewal makes it count anew": ([(0.0, HELD), (10.0, RENEWED)], 24.9, True),
    "the same record told again is no renewal": ([(0.0, HELD), (10.0, HELD)], 15.0, False),
    "one that was given back does not count": ([(0.0, HELD), (1.0, GIVEN_BACK)], 1.0, False),
    "nor one that is gone": ([(0.0, HELD), (1.0, None)], 1.0, False),
    "it comes back": ([(0.0, HELD), (1.0, GIVEN_BACK), (2.0, RENEWED)], 3.0, True),
    "a Deployment with pods counts without a Lease": ([(0.0, 1)], 1e9, True),
    "one that is scaled to nothing does not": ([(0.0, 1), (1.0, 0)], 2.0, False),
    "a Deployment that never had any does not": ([(0.0, 0)], 1.0, False),
    "a dead Lease hides no Deployment": ([(0.0, HELD), (0.0, 2)], 100.0, True),
    "a pod with its label counts, whatever made it": ([(0.0, "Running")], 1e9, True),
    "one that is about to start does too": ([(0.0, "Pending")], 1.0, True),
    "one that has failed does not": ([(0.0, "Running"), (1.0, "Failed")], 2.0, False),
    "nor a pod that is gone": ([(0.0, "Running"), (1.0, "")], 2.0, False),
    "a dead Lease hides no pod": ([(0.0, HELD), (0.0, "Running")], 100.0, True),
    "a long duration is believed": ([(0.0, Lease("h", "t", 60.0))], 59.0, True),
}


@pytest.mark.parametrize(("told", "asked", "found"), CASES.values(), ids=CASES)
def test_it_is_found_when_it_runs_and_only_then(told, asked, found):
    presence = Presence()
    for at, what in told:
        if isinstance(what, int):
            presence.deployment_seen(WHERE, what)
        elif what == "":
            presence.pod_gone("uid")
        elif isinstance(what, str):
            presence.pod_seen(WHERE, "any-name", "uid", what)
        else:
            presence.lease_seen(WHERE, what, at)
    shown = presence.shown_by(asked)
    assert (shown is not None) is found
    assert shown is None or WHERE in shown


def test_of_several_pods_each_counts():
    presence = Presence()
    presence.pod_seen("a", "one", "uid-1", "Running")
    presence.pod_seen("b", "two", "uid-2", "Running")
    assert presence.shown_by(0.0) == "Pod a/one"
    presence.pod_gone("uid-1")
    assert presence.shown_by(0.0) == "Pod b/two"


def test_any_namespace_will_do_and_one_that_ends_leaves_the_other():
    presence = Presence()
    presence.lease_seen("a", HELD, 0.0)
    presence.lease_seen("b", HELD, 10.0)
    assert presence.shown_by(0.0) == "Lease a/vc-controller-manager"
    assert presence.shown_by(20.0) == "Lease b/vc-controller-manager"
    presence.lease_seen("b", None, 20.0)
    assert presence.shown_by(20.0) is None
