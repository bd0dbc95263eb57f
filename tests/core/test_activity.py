"""When a replica acts."""

from __future__ import annotations

import pytest

from extender.core.activity import Activity, Lease

CASES = {
    "no lease was seen": ([], 0, False),
    "our scheduler holds it": ([(0, Lease("node-a_uuid", "1"))], 0, True),
    "another host's scheduler holds it": ([(0, Lease("node-b_uuid", "1"))], 0, False),
    "a host name that ours begins with is not ours": ([(0, Lease("node_uuid", "1"))], 0, False),
    "a host name with an underscore ends at the last one": ([(0, Lease("node-a_x_uuid", "1"))], 0, False),
    "a holder without an underscore is nobody's": ([(0, Lease("node-a", "1"))], 0, False),
    "nobody holds it": ([(0, Lease("", "1"))], 0, False),
    "it lasts for ten seconds after the last renewal": ([(0, Lease("node-a_uuid", "1"))], 9.9, True),
    "it ends ten seconds after the last renewal": ([(0, Lease("node-a_uuid", "1"))], 10, False),
    "a renewal prolongs it": ([(0, Lease("node-a_uuid", "1")), (8, Lease("node-a_uuid", "2"))], 17, True),
    "the same record again is no renewal": (
        [(0, Lease("node-a_uuid", "1")), (8, Lease("node-a_uuid", "1"))],
        12,
        False,
    ),
    "a new holder ends it at once": ([(0, Lease("node-a_uuid", "1")), (1, Lease("node-b_u", "2"))], 1, False),
    "the lease was deleted": ([(0, Lease("node-a_uuid", "1")), (1, None)], 1, False),
    "it begins again after a late renewal": (
        [(0, Lease("node-a_uuid", "1")), (30, Lease("node-a_uuid", "2"))],
        31,
        True,
    ),
    "a deleted lease that comes back as it was begins anew": (
        [(0, Lease("node-a_uuid", "1")), (1, None), (2, Lease("node-a_uuid", "1"))],
        3,
        True,
    ),
}


@pytest.mark.parametrize(("seen", "at", "want"), CASES.values(), ids=CASES.keys())
def test_activity(seen, at, want):
    activity = Activity("node-a")
    for when, lease in seen:
        activity.seen(lease, when)
    assert activity.active(at) is want
