"""An eviction and what is told of it."""

from __future__ import annotations

from typing import Any

import kube_stub
import pytest
from kube_stub import fail, ok

from extender.core import messages
from extender.core.ids import PodUid
from extender.core.reasons import Ground
from extender.kube import client, effects, errors, evicting

EVICTION = "/api/v1/namespaces/ns/pods/p/eviction"
EVENTS = "/apis/events.k8s.io/v1/namespaces/ns/events"
EVICT = messages.Evict(PodUid("u"), "ns", "p", Ground.PARTIAL_RELEASE, (("group", "g"), ("bound", 9)))


async def test_a_pod_that_is_evicted_is_told_why(api: client.Api, stub: kube_stub.Stub) -> None:
    stub.on("POST", EVICTION, ok({}, 201))
    stub.on("POST", EVENTS, ok({}, 201))
    await evicting.evict(api, EVICT)
    event = stub.asked[1].body
    assert event["regarding"] == {"apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "p", "uid": "u"}
    assert (event["type"], event["reason"]) == ("Warning", "PartialRelease")
    assert event["note"].endswith("(group g, bound 9)")


@pytest.mark.parametrize("answer", [fail(403), fail(500), kube_stub.reset], ids=["403", "500", "answer lost"])
async def test_an_eviction_that_cannot_be_told_of_is_an_eviction(
    api: client.Api, stub: kube_stub.Stub, answer: Any
) -> None:
    stub.on("POST", EVICTION, ok({}, 201))
    stub.on("POST", EVENTS, answer)
    await evicting.evict(api, EVICT)
    assert stub.count("POST", EVICTION) == 1


async def test_nothing_is_told_of_a_pod_that_was_gone(api: client.Api, stub: kube_stub.Stub) -> None:
    stub.on("POST", EVICTION, fail(404))
    await evicting.evict(api, EVICT)
    assert stub.count("POST", EVENTS) == 0


async def test_a_budget_is_an_answer_and_throttling_is_not(api: client.Api, stub: kube_stub.Stub) -> None:
    stub.on("POST", EVICTION, fail(429, causes=[{"reason": "DisruptionBudget"}]), fail(429))
    retries = []
    for _ in range(2):
        with pytest.raises(errors.KubeError) as raised:
            await evicting.evict(api, EVICT)
        retries.append(effects.retry_of(raised.value))
    assert retries[0] is None
    assert retries[1] is not None
