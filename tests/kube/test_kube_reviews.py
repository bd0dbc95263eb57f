"""Reviews: asked once, remembered for some seconds, and a failure is never an answer."""

import asyncio

import kube_stub
import pytest

from extender.kube import errors, reviews
from extender.wire.delegation import REVIEWS, TOKEN_REVIEWS, Asked, Decision, User

ANN, BOB = User("ann"), User("bob")
TRAIN = Asked("get", "visibility.muster.dev", "v1alpha1", "workloads", "team", "muster:train")
YES = kube_stub.ok({"status": {"allowed": True}}, 201)
NO = kube_stub.ok({"status": {"allowed": False, "reason": "no role"}}, 201)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def asked(api, clock) -> reviews.Reviews:
    return reviews.Reviews(api, clock)


async def test_the_authorizer_decides_and_says_why(stub, asked):
    stub.on("POST", REVIEWS, YES, NO)
    assert await asked.review(ANN, TRAIN) == Decision(True)
    assert await asked.review(BOB, TRAIN) == Decision(False, "no role")
    assert [one.body["spec"]["user"] for one in stub.asked] == ["ann", "bob"]


async def test_a_decision_is_remembered_for_some_seconds_and_not_longer(stub, asked, clock):
    stub.on("POST", REVIEWS, YES, NO)
    assert (await asked.review(ANN, TRAIN)).allowed
    clock.now += reviews.REMEMBER_SECONDS - 0.001
    assert (await asked.review(ANN, TRAIN)).allowed
    clock.now += 0.001
    assert not (await asked.review(ANN, TRAIN)).allowed
    assert stub.count("POST", REVIEWS) == 2


@pytest.mark.parametrize("other", [User("ann", groups=("x",)), User("ann", uid="2"), User("ann", extra=(("k", ()),))])
async def test_another_user_of_the_same_name_is_asked_for_anew(stub, asked, other):
    stub.on("POST", REVIEWS, YES, NO)
    assert (await asked.review(ANN, TRAIN)).allowed
    assert not (await asked.review(other, TRAIN)).allowed


async def test_many_who_ask_the_same_at_once_cost_one_call_for_each_that_may_be_under_way(stub, asked):
    stub.on("POST", REVIEWS, YES)
    found = await asyncio.gather(*(asked.review(ANN, TRAIN) for _ in range(50)))
    assert all(one.allowed for one in found)
    assert stub.count("POST", REVIEWS) <= reviews.AT_ONCE


async def test_no_more_are_remembered_than_the_bound(stub, asked, monkeypatch):
    monkeypatch.setattr(reviews, "REMEMBERED", 2)
    stub.on("POST", REVIEWS, YES)
    for name in ("a", "b", "c"):
        await asked.review(User(name), TRAIN)
    await asked.review(User("c"), TRAIN)
    assert stub.count("POST", REVIEWS) == 3
    await asked.review(User("a"), TRAIN)
    assert stub.count("POST", REVIEWS) == 4


@pytest.mark.parametrize("failure", [kube_stub.fail(500), kube_stub.fail(403, "Forbidden"), kube_stub.reset])
async def test_a_failure_is_no_answer_and_is_not_remembered(stub, asked, failure):
    stub.on("POST", REVIEWS, failure, YES)
    with pytest.raises(errors.KubeError):
        await asked.review(ANN, TRAIN)
    assert (await asked.review(ANN, TRAIN)).allowed


# --- tokens ------------------------------------------------------------------------------------------


def whose(**status):
    return kube_stub.ok({"status": status}, 201)


ANN_SAID = {"username": "ann", "uid": "7", "groups": ["x", "y"], "extra": {"k": ["v"]}}


async def test_the_api_server_says_whose_a_token_is(api, stub, clock):
    stub.on("POST", TOKEN_REVIEWS, whose(authenticated=True, user=ANN_SAID))
    tokens = reviews.Tokens(api, clock)
    assert await tokens.user("t1") == User("ann", "7", ("x", "y"), (("k", ("v",)),))
    (asked,) = stub.asked
    assert asked.body["spec"] == {"token": "t1"}


NOBODYS = {
    "refused": {"authenticated": False, "user": ANN_SAID},
    "not said": {"user": ANN_SAID},
    "said in another way": {"authenticated": "true", "user": ANN_SAID},
    "nameless": {"authenticated": True, "user": {"groups": ["system:masters"]}},
    "malformed": {"authenticated": True, "user": {"username": "ann", "groups": "system:masters"}},
}


@pytest.mark.parametrize("status", NOBODYS.values(), ids=NOBODYS)
async def test_any_other_answer_makes_the_token_nobodys(api, stub, clock, status):
    stub.on("POST", TOKEN_REVIEWS, whose(**status))
    assert await reviews.Tokens(api, clock).user("t1") is None


async def test_tokens_are_told_apart_remembered_for_some_seconds_and_kept_nowhere(api, stub, clock):
    stub.on("POST", TOKEN_REVIEWS, whose(authenticated=True, user=ANN_SAID), whose(authenticated=False))
    tokens = reviews.Tokens(api, clock)
    assert [await tokens.user(token) for token in ("good", "good", "bad")] == [ANN_7, ANN_7, None]
    assert stub.count("POST", TOKEN_REVIEWS) == 2
    assert "good" not in repr(vars(tokens._memory))
    clock.now += reviews.REMEMBER_SECONDS
    assert await tokens.user("good") is None


ANN_7 = User("ann", "7", ("x", "y"), (("k", ("v",)),))
