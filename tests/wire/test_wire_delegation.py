"""Who asks: what the API server publishes of its front proxy, whom headers name, what the authorizer says."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.wire import delegation
from extender.wire.fields import DecodeError

DATA = {
    "client-ca-file": "another authority",
    "requestheader-client-ca-file": "PEM",
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-username-headers": '["X-Remote-User"]',
    "requestheader-uid-headers": '["X-Remote-Uid"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
}
PROXY = delegation.FrontProxy(
    authority="PEM",
    names=frozenset({"front-proxy-client"}),
    username=("x-remote-user",),
    uid=("x-remote-uid",),
    group=("x-remote-group",),
    extra_prefix=("x-remote-extra-",),
)
ASKED = delegation.Asked("get", "visibility.muster.dev", "v1alpha1", "workloads", "team", "muster:train")


def config(**changes) -> dict:
    data = {key: value for key, value in (DATA | changes).items() if value is not None}
    return {"kind": "ConfigMap", "metadata": {"name": "x"}, "data": data}


def test_what_the_api_server_publishes_is_read():
    assert delegation.decode_front_proxy(config()) == PROXY


def test_no_names_are_any_name_and_header_names_know_no_case():
    told = delegation.decode_front_proxy(
        config(
            **{"requestheader-allowed-names": "[]", "requestheader-username-headers": '["X-REMOTE-USER", "X-Other"]'}
        )
    )
    assert told.admits("anybody")
    assert told.username == ("x-remote-user", "x-other")
    assert not PROXY.admits("anybody")
    assert PROXY.admits("front-proxy-client")


@pytest.mark.parametrize(
    "changes",
    [
        {"requestheader-client-ca-file": None},
        {"requestheader-client-ca-file": ""},
        {"requestheader-client-ca-file": 7},
        {"requestheader-username-headers": None},
        {"requestheader-username-headers": "[]"},
        {"requestheader-username-headers": "X-Remote-User"},
        {"requestheader-username-headers": '{"a": 1}'},
        {"requestheader-allowed-names": '["front-proxy-client"'},
        {"requestheader-allowed-names": "[7]"},
        {"requestheader-allowed-names": '"front-proxy-client"'},
    ],
    ids=str,
)
def test_a_broken_publication_admits_nobody(changes):
    """In particular a list of names that cannot be read is not taken for one that admits everybody."""
    with pytest.raises(DecodeError):
        delegation.decode_front_proxy(config(**changes))


@pytest.mark.parametrize("obj", [None, [], "x", {}, {"data": None}, {"data": []}], ids=str)
def test_what_is_no_publication_is_refused(obj):
    with pytest.raises(DecodeError):
        delegation.decode_front_proxy(obj)


# --- headers -----------------------------------------------------------------------------------------


def test_name_groups_and_extras_are_taken_from_their_headers():
    headers = [
        ("X-Remote-User", "ann"),
        ("x-remote-group", "team a"),
        ("X-REMOTE-GROUP", "system:authenticated"),
        ("X-Remote-Uid", "42"),
        ("X-Remote-Extra-Example.com%2fScopes", "one"),
        ("X-Remote-Extra-example.com%2fscopes", "two"),
        ("X-Remote-Userx", "eve"),
        ("Authorization", "Bearer x"),
    ]
    assert delegation.user_of(PROXY, headers) == delegation.User(
        name="ann",
        uid="42",
        groups=("team a", "system:authenticated"),
        extra=(("example.com/scopes", ("one", "two")),),
    )


NOBODY = {
    "no header": [],
    "an empty name": [("X-Remote-User", "")],
    "groups alone": [("X-Remote-Group", "system:masters")],
    "a name that is no UTF-8": [("X-Remote-User", "ann\udcff")],
    "a group that is no UTF-8": [("X-Remote-User", "ann"), ("X-Remote-Group", "\udc80")],
    "an extra that is no UTF-8": [("X-Remote-User", "ann"), ("X-Remote-Extra-%ff", "x")],
}


@pytest.mark.parametrize("headers", NOBODY.values(), ids=NOBODY.keys())
def test_headers_that_name_nobody(headers):
    assert delegation.user_of(PROXY, headers) is None


def test_the_first_name_that_says_something_counts():
    proxy = delegation.FrontProxy("PEM", frozenset(), ("a", "b"), (), (), ())
    found = delegation.user_of(proxy, [("B", "bob"), ("A", ""), ("A", "ann")])
    assert found == delegation.User("ann")


@given(st.lists(st.tuples(st.sampled_from(["X-Remote-User", "X-Remote-Group", "X-Remote-Extra-%"]), st.text())))
def test_whatever_headers_say_the_authorizer_can_be_asked(headers):
    user = delegation.user_of(PROXY, headers)
    if user is not None:
        body = json.loads(delegation.encode_review(user, ASKED))
        assert body["spec"]["user"] == user.name != ""


# --- reviews -----------------------------------------------------------------------------------------


def test_the_authorizer_is_asked_for_the_user_and_what_it_wants():
    user = delegation.User("ann", "42", ("a", "b"), (("scopes", ("one",)),))
    assert json.loads(delegation.encode_review(user, ASKED)) == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": "ann",
            "uid": "42",
            "groups": ["a", "b"],
            "extra": {"scopes": ["one"]},
            "resourceAttributes": {
                "verb": "get",
                "group": "visibility.muster.dev",
                "version": "v1alpha1",
                "resource": "workloads",
                "namespace": "team",
                "name": "muster:train",
            },
        },
    }


@pytest.mark.parametrize(
    ("body", "allowed"),
    [
        ({"status": {"allowed": True}}, True),
        ({"status": {"allowed": True, "reason": "RBAC"}}, True),
        ({"status": {"allowed": True, "denied": True}}, False),
        ({"status": {"allowed": False}}, False),
        ({"status": {"allowed": "true"}}, False),
        ({"status": {"allowed": 1}}, False),
        ({"status": {}}, False),
        ({"status": None}, False),
        ({}, False),
        ([], False),
    ],
    ids=str,
)
def test_only_a_plain_yes_is_one(body, allowed):
    assert delegation.decode_review(json.dumps(body).encode()).allowed is allowed


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"null"])
def test_an_answer_that_cannot_be_read_is_a_no(body):
    assert not delegation.decode_review(body).allowed
