"""The rights to queue by suspension: a part of its own, for exactly the kinds that can be queued so."""

from __future__ import annotations

from test_static_manifests import MANIFESTS, documents, objects

from extender.wire.kinds import KINDS

COMPONENT = MANIFESTS / "components" / "queue-by-suspension" / "rbac.yaml"


def test_nobody_has_the_right_to_suspend_who_did_not_ask_for_it():
    for one in objects(MANIFESTS):
        for rule in one.get("rules", []) if one["kind"] == "ClusterRole" else ():
            if {"jobs", "jobsets", "rayclusters", "pytorchjobs"} & set(rule.get("resources", ())):
                assert set(rule["verbs"]) <= {"get", "list", "watch"}, rule


def test_it_has_the_kinds_that_can_be_suspended_and_no_more_than_it_takes():
    role, binding = documents(COMPONENT)
    wanted = set()
    for kind in KINDS:
        if kind.together is not None and kind.together.suspend:
            wanted.add((kind.group, kind.together.plural))
            if kind.together.stopped_by is not None:
                wanted.add((kind.together.stopped_by.group, kind.together.stopped_by.plural))
    given = {(group, name) for rule in role["rules"] for group in rule["apiGroups"] for name in rule["resources"]}
    assert given == wanted
    assert {tuple(rule["verbs"]) for rule in role["rules"]} == {("get", "patch")}
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "muster", "namespace": "muster-system"}]
