"""The job controller's manifests as files: its rights, its pod, and definitions that nobody else's are replaced by."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest
import yaml
from test_static_manifests import MANIFESTS, documents, objects, resources

from extender import settings
from extender.jobs import volcano

COMPONENT, FOLDER = MANIFESTS / "components" / "jobs", MANIFESTS / "jobs"
DEFINITIONS = {path.stem: documents(path)[0] for path in sorted((FOLDER / "crds").glob("*.yaml"))}
Object = dict[str, Any]


def of_kind(kind: str) -> dict[str, Object]:
    return {one["metadata"]["name"]: one for one in objects(COMPONENT) if one["kind"] == kind}


def test_it_is_no_part_of_an_installation_that_does_not_ask_for_it():
    assert COMPONENT / "jobs.yaml" not in set(resources(MANIFESTS))
    assert set(resources(FOLDER)) == {COMPONENT / "jobs.yaml"}


def test_no_definition_is_applied_labelled_as_ours_or_deleted_with_us():
    """`kubectl apply` would change Volcano's, and `uninstall.sh --purge` deletes what bears our label."""
    assert [one["kind"] for one in objects(FOLDER) if one["kind"] == "CustomResourceDefinition"] == []
    assert set(DEFINITIONS) == {"jobs", "cronjobs", "commands"}
    for one in DEFINITIONS.values():
        assert "labels" not in one["metadata"]
    script = (FOLDER / "install.sh").read_text()
    assert re.findall(r"\$KUBECTL\" (\w+) --filename", script) == ["create"]
    assert not re.search(r"\$KUBECTL\" (delete|replace|patch)", script)


def test_a_cron_job_s_template_takes_what_a_job_takes():
    job, cron = (DEFINITIONS[name]["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for name in ("jobs", "cronjobs"))
    assert cron["properties"]["spec"]["properties"]["jobTemplate"]["properties"]["spec"] == job["properties"]["spec"]


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_definition_has_the_name_that_volcano_s_has(name):
    spec = DEFINITIONS[name]["spec"]
    assert DEFINITIONS[name]["metadata"]["name"] == f"{spec['names']['plural']}.{spec['group']}"
    assert (spec["scope"], [one["name"] for one in spec["versions"]]) == ("Namespaced", ["v1alpha1"])


def test_its_rights_are_an_account_s_of_its_own_and_reach_no_secret_but_to_create_it():
    bindings = [*of_kind("ClusterRoleBinding").values(), *of_kind("RoleBinding").values()]
    account = {"kind": "ServiceAccount", "name": "muster-jobs", "namespace": "muster-system"}
    assert [one["subjects"] for one in bindings] == [[account]] * 2
    rules = [rule for role in ("ClusterRole", "Role") for rule in of_kind(role)["muster-jobs"]["rules"]]
    for rule in rules:
        assert "*" not in [word for words in rule.values() for word in words]
        assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])
        assert "secrets" not in rule["resources"] or (rule["resources"], rule["verbs"]) == (["secrets"], ["create"])


def test_what_it_watches_of_volcano_is_what_it_may_watch():
    named = {
        rule["resources"][0]: rule["resourceNames"]
        for rule in of_kind("ClusterRole")["muster-jobs"]["rules"]
        if "resourceNames" in rule
    }
    assert named == {"leases": [volcano.LEASE], "deployments": [volcano.DEPLOYMENT]}
    (own,) = [rule for rule in of_kind("Role")["muster-jobs"]["rules"] if "resourceNames" in rule]
    assert own["resourceNames"] == [settings.JOBS_LEASE]


def test_its_pod_runs_with_the_least_that_it_needs_and_listens_to_its_pod_alone():
    spec = of_kind("Deployment")["muster-jobs"]["spec"]["template"]["spec"]
    assert (spec["serviceAccountName"], spec["schedulerName"]) == ("muster-jobs", "default-scheduler")
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "memory" in container["resources"]["limits"]
    told = settings.read_jobs(container["args"], "host")
    assert told.listen.loopback
    for probe in ("readinessProbe", "livenessProbe"):
        assert f"'{told.listen.host}', {told.listen.port}," in container[probe]["exec"]["command"][2]


def known_fields(schema: Object, value: Any, path: str) -> list[str]:
    """Fields of a value that the schema does not know, and the API server would drop."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return []
    if isinstance(value, list):
        return [one for item in value for one in known_fields(schema.get("items", {}), item, path)]
    if not isinstance(value, dict):
        return []
    found = []
    for key, inner in value.items():
        if key in schema.get("properties", {}):
            found += known_fields(schema["properties"][key], inner, f"{path}.{key}")
        elif "additionalProperties" in schema:
            found += known_fields(schema["additionalProperties"], inner, f"{path}.{key}")
        elif path:
            found.append(f"{path}.{key}")
    return found


def test_no_field_of_the_jobs_that_people_write_is_dropped(shared: pathlib.Path):
    seen = 0
    for path in sorted((shared / "data" / "manifests" / "volcano").glob("*.yaml")):
        for one in yaml.safe_load_all(path.read_text()):
            kind = {"Job": "jobs", "CronJob": "cronjobs"}.get((one or {}).get("kind", ""))
            if kind is None or not one["apiVersion"].startswith("batch.volcano.sh"):
                continue
            seen += 1
            schema = DEFINITIONS[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            assert known_fields(schema["properties"]["spec"], one["spec"], "spec") == [], path.name
    assert seen > 20
