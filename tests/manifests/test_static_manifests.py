"""The manifests as files: what must agree between them, and what must never stand in them.

Takes manifests/, gives verdicts without a cluster and without kubectl; e2e/test_manifests.py applies them.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from extender.wire import marks

MANIFESTS = pathlib.Path(__file__).resolve().parents[2] / "manifests"
#: components that a user adds to an overlay
OPTIONAL = ("decision-log", "jobs", "metrics", "node-agent", "queue-by-suspension")
MINORS = ("1.34", "1.35", "1.36", "1.37")
SCHEDULER_IMAGE = "registry.k8s.io/kube-scheduler"
Object = dict[str, Any]


def documents(path: pathlib.Path) -> list[Object]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def resources(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Every file that a kustomization reaches, folders followed."""
    kustomization = documents(folder / "kustomization.yaml")[0]
    for entry in kustomization.get("resources", []) + kustomization.get("components", []):
        path = (folder / entry).resolve()
        if path.is_dir():
            yield from resources(path)
        else:
            yield path


def objects(folder: pathlib.Path) -> list[Object]:
    return [document for path in resources(folder) for document in documents(path)]


def of_kind(kind: str, folder: pathlib.Path = MANIFESTS) -> list[Object]:
    return [obj for obj in objects(folder) if obj["kind"] == kind]


def pod_spec() -> Object:
    spec: Object = of_kind("Deployment")[0]["spec"]["template"]["spec"]
    return spec


def container(name: str) -> Object:
    return next(entry for entry in pod_spec()["containers"] if entry["name"] == name)


def flags(name: str) -> dict[str, str]:
    pairs = [argument.removeprefix("--").partition("=") for argument in container(name)["args"]]
    return {flag: value for flag, _, value in pairs}


def scheduler_config(folder: pathlib.Path = MANIFESTS / "base") -> Object:
    return documents(folder / "scheduler-config.yaml")[0]


# --- kustomizations ----------------------------------------------------------------------------------


def test_the_plain_command_applies_the_newest_overlay_and_nothing_else() -> None:
    assert documents(MANIFESTS / "kustomization.yaml")[0]["resources"] == ["overlays/1.37"]


@pytest.mark.parametrize("minor", MINORS)
def test_each_overlay_sets_a_scheduler_of_its_own_minor(minor: str) -> None:
    images = documents(MANIFESTS / "overlays" / minor / "kustomization.yaml")[0]["images"]
    assert [image["name"] for image in images] == [SCHEDULER_IMAGE]
    assert re.fullmatch(rf"v{re.escape(minor)}\.\d+", images[0]["newTag"])


@pytest.mark.parametrize(("minor", "served"), [("1.34", False), ("1.35", False), ("1.36", True), ("1.37", True)])
def test_policies_that_change_pods_stand_only_where_they_are_served_by_default(minor: str, served: bool) -> None:
    named = {
        policy["metadata"]["name"] for policy in of_kind("MutatingAdmissionPolicy", MANIFESTS / "overlays" / minor)
    }
    assert named == ({"muster-queue-gate", "muster-managed"} if served else set())


@pytest.mark.parametrize(("minor", "known"), [("1.34", False), ("1.35", True), ("1.36", True), ("1.37", True)])
def test_native_gangs_are_switched_off_where_the_scheduler_knows_the_gate(minor: str, known: bool) -> None:
    overlay = documents(MANIFESTS / "overlays" / minor / "kustomization.yaml")[0]
    assert ("../../components/no-native-gang" in overlay.get("components", [])) is known


def test_every_file_of_base_and_components_is_reached() -> None:
    reached = set(resources(MANIFESTS)) | {MANIFESTS / "base" / "scheduler-config.yaml"}
    for name in OPTIONAL:
        reached |= set(resources(MANIFESTS / "components" / name))
    written = {
        path
        for folder in ("base", "components")
        for path in (MANIFESTS / folder).rglob("*.yaml")
        if path.name != "kustomization.yaml"
    }
    assert written == reached


def test_no_object_of_our_own_kinds_is_applied_with_the_definitions() -> None:
    assert [obj["kind"] for obj in objects(MANIFESTS) if obj["apiVersion"].startswith("muster.dev/")] == []


def test_the_list_of_open_queues_is_left_to_the_extender() -> None:
    assert of_kind("ConfigMap") == []


def test_the_scheduler_is_the_only_image_with_a_registry() -> None:
    text = "".join(path.read_text() for path in MANIFESTS.rglob("*.yaml"))
    images = set(re.findall(r"image: *(\S+)", text))
    assert {image for image in images if "/" in image} == {SCHEDULER_IMAGE}


# --- the scheduler's configuration and the Deployment ------------------------------------------------


def test_filter_and_bind_are_two_extenders_and_neither_can_be_bypassed() -> None:
    serving, binding = scheduler_config()["extenders"]
    assert [key for key in serving if key.endswith("Verb")] == ["filterVerb", "prioritizeVerb", "preemptVerb"]
    assert [key for key in binding if key.endswith("Verb")] == ["bindVerb"]
    for entry in (serving, binding):
        assert entry["nodeCacheCapable"] is True
        assert entry["ignorable"] is False
        assert "managedResources" not in entry
    assert serving["httpTimeout"] == "5s"
    assert serving["weight"] >= 1


def test_the_planned_node_is_always_offered_and_nobody_preempts_for_a_single_member() -> None:
    config = scheduler_config()
    assert config["percentageOfNodesToScore"] == 100
    (profile,) = config["profiles"]
    assert profile["schedulerName"] == "muster"
    assert profile["plugins"]["postFilter"]["disabled"] == [{"name": "DefaultPreemption"}]


def test_extender_gate_and_scheduler_agree_on_addresses_and_on_the_bind_timeout() -> None:
    serving, binding = scheduler_config()["extenders"]
    extender, gate = flags("extender"), flags("permit-gate")
    assert serving["urlPrefix"] == f"http://{extender['listen']}" == gate["extender"]
    assert binding["urlPrefix"] == f"http://{gate['listen']}" == extender["gate"]
    assert binding["httpTimeout"] == f"{gate['http-timeout']}s" == "600s"
    (port,) = container("kube-scheduler")["ports"]
    assert extender["scheduler"] == f"https://127.0.0.1:{port['containerPort']}"
    for name, listen in (("extender", extender["listen"]), ("permit-gate", gate["listen"])):
        host, _, port = listen.partition(":")
        assert host == "127.0.0.1"
        for probe in ("readinessProbe", "livenessProbe"):
            assert f"'{host}', {port}," in container(name)[probe]["exec"]["command"][2]


def test_everything_that_names_the_lease_or_the_namespace_names_the_same() -> None:
    election = scheduler_config()["leaderElection"]
    roles = {role["metadata"]["name"]: role["rules"] for role in of_kind("Role")}
    assert election["leaderElect"] is True
    assert roles["muster-kube-scheduler"][0]["resourceNames"] == [election["resourceName"]] == ["muster-scheduler"]
    assert election["resourceNamespace"] == "muster-system"
    assert flags("extender")["namespace"] == flags("permit-gate")["namespace"] == "muster-system"


def test_the_containers_run_with_the_least_that_they_need() -> None:
    spec = pod_spec()
    assert [entry["name"] for entry in spec["containers"]] == ["kube-scheduler", "extender", "permit-gate"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for entry in spec["containers"]:
        assert entry["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert entry["imagePullPolicy"] == "IfNotPresent"
        assert set(entry["resources"]["requests"]) == {"cpu", "memory"}
        assert "memory" in entry["resources"]["limits"]
        assert {"readinessProbe", "livenessProbe"} <= set(entry)


def test_the_deployment_starts_without_itself_and_survives_a_drain() -> None:
    spec = pod_spec()
    assert of_kind("Deployment")[0]["spec"]["replicas"] == 2
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["priorityClassName"] == "system-cluster-critical"
    assert of_kind("PodDisruptionBudget")[0]["spec"]["minAvailable"] == 1


def test_scheduler_leaves_before_the_gate_and_the_gate_before_the_extender() -> None:
    naps = [
        entry.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        for entry in (container("kube-scheduler"), container("permit-gate"), container("extender"))
    ]
    assert naps == sorted(set(naps))
    assert naps[-1] + 30 <= pod_spec()["terminationGracePeriodSeconds"]


def test_the_scoring_example_differs_from_the_base_in_its_profile_and_weight_only() -> None:
    example, base = scheduler_config(MANIFESTS / "examples" / "muster-score"), scheduler_config()
    assert example["profiles"].pop() == {"schedulerName": "muster-score"}
    assert example["extenders"][0].pop("weight") > base["extenders"][0].pop("weight")
    assert example == base


def test_the_example_beside_hami_differs_from_the_base_in_hamis_entry_only() -> None:
    folder = MANIFESTS / "examples" / "hami"
    example = scheduler_config(folder)
    hami = example["extenders"].pop()
    assert example == scheduler_config()
    assert (hami["filterVerb"], hami["nodeCacheCapable"]) == ("filter", True)
    assert not {"bindVerb", "preemptVerb"} & set(hami)
    names = [resource["name"] for resource in hami["managedResources"]]
    assert len(set(names)) == len(names)
    (patch,) = documents(folder / "kustomization.yaml")[0]["patches"]
    test, change = yaml.safe_load(patch["patch"])
    names = [one["name"] for one in pod_spec()["containers"]]
    assert test["path"] == f"/spec/template/spec/containers/{names.index('permit-gate')}/name"
    assert change["value"] == f"--hami={hami['urlPrefix']}"


# --- rights ------------------------------------------------------------------------------------------


def rules() -> list[Object]:
    return [rule for kind in ("Role", "ClusterRole") for obj in of_kind(kind) for rule in obj["rules"]]


def test_no_rule_has_a_wildcard_or_reaches_secrets_or_the_rights_themselves() -> None:
    for rule in rules():
        words = [word for words in rule.values() for word in words]
        assert not [word for word in words if "*" in word], rule
        assert "secrets" not in words, rule
        assert "rbac.authorization.k8s.io" not in words, rule
        assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"]), rule


def test_every_binding_gives_a_role_that_exists_to_our_account_only() -> None:
    named = {(obj["kind"], obj["metadata"]["name"]) for kind in ("Role", "ClusterRole") for obj in of_kind(kind)}
    stock = {
        ("ClusterRole", "system:kube-scheduler"),
        ("ClusterRole", "system:volume-scheduler"),
        ("Role", "extension-apiserver-authentication-reader"),
    }
    bound = set()
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        for obj in of_kind(kind):
            bound.add((obj["roleRef"]["kind"], obj["roleRef"]["name"]))
            assert obj["subjects"] == [{"kind": "ServiceAccount", "name": "muster", "namespace": "muster-system"}]
    for_users = {("ClusterRole", name) for name in ("muster-edit", "muster-view", "muster-page-view")}
    assert bound == (named - for_users) | stock


def test_the_page_is_served_to_the_pod_alone_and_may_ask_whose_a_token_is_and_what_that_user_may_do() -> None:
    assert flags("extender")["page-listen"].startswith("127.0.0.1:")
    roles = {one["metadata"]["name"]: one["rules"] for one in of_kind("ClusterRole")}
    asked = {(rule["apiGroups"][0], *rule["resources"], *rule["verbs"]) for rule in roles["muster-page"]}
    reviews = (("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews"))
    assert asked == {(*review, "create") for review in reviews}
    (seeing,) = roles["muster-page-view"]
    assert (seeing["resources"], seeing["verbs"]) == (["workloads", "queues", "usages"], ["get", "list"])


# --- live answers ------------------------------------------------------------------------------------


def answers(kind: str) -> Object:
    """The object of this kind that manifests/answers adds."""
    (found,) = [
        obj for path in (MANIFESTS / "answers").glob("*.yaml") for obj in documents(path) if obj["kind"] == kind
    ]
    return found


def test_the_api_of_answers_is_no_part_of_an_installation_and_its_port_waits_for_a_certificate() -> None:
    assert not {"APIService", "Service"} & {obj["kind"] for obj in objects(MANIFESTS)}
    (volume,) = [one for one in pod_spec()["volumes"] if one["name"] == "answers"]
    assert volume["secret"] == {"secretName": "muster-answers-tls", "optional": True}
    (mount,) = [one for one in container("extender")["volumeMounts"] if one["name"] == "answers"]
    assert mount["readOnly"] is True
    assert flags("extender")["answers-cert"] == f"{mount['mountPath']}/tls.crt"
    assert flags("extender")["answers-key"] == f"{mount['mountPath']}/tls.key"


def test_the_api_service_reaches_the_extender_and_checks_its_certificate() -> None:
    registered, service = answers("APIService"), answers("Service")
    spec, (port,) = registered["spec"], service["spec"]["ports"]
    assert "insecureSkipTLSVerify" not in spec
    assert spec["caBundle"] == "CA_BUNDLE"
    assert registered["metadata"]["name"] == f"{spec['version']}.{spec['group']}" == "v1alpha1.visibility.muster.dev"
    assert registered["metadata"]["labels"] == {"app.kubernetes.io/part-of": "muster"}
    assert spec["service"] == {"port": port["port"], **{key: service["metadata"][key] for key in ("name", "namespace")}}
    assert spec["groupPriorityMinimum"] < 1000
    assert service["spec"]["selector"] == of_kind("Deployment")[0]["spec"]["selector"]["matchLabels"]
    (listens,) = container("extender")["ports"]
    assert (listens["name"], str(listens["containerPort"])) == (
        port["targetPort"],
        flags("extender")["answers-listen"].rpartition(":")[2],
    )


def test_readers_may_read_answers_only_and_our_account_gets_the_one_right_to_ask_about_them() -> None:
    roles = {obj["metadata"]["name"]: obj for obj in documents(MANIFESTS / "answers" / "rbac.yaml")[:3]}
    (reading,) = roles["muster-answers-view"]["rules"]
    assert reading == {
        "apiGroups": ["visibility.muster.dev"],
        "resources": ["workloads", "queues", "usages"],
        "verbs": ["get", "list"],
    }
    (planning,) = roles["muster-answers-edit"]["rules"]
    plans = ["plans", "drainplans", "queueplans"]
    assert planning == {"apiGroups": ["visibility.muster.dev"], "resources": plans, "verbs": ["create"]}
    (asking,) = roles["muster-answers"]["rules"]
    assert asking == {
        "apiGroups": ["authorization.k8s.io"],
        "resources": ["subjectaccessreviews"],
        "verbs": ["create"],
    }
    binding = answers("ClusterRoleBinding")
    assert binding["roleRef"]["name"] == "muster-answers"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "muster", "namespace": "muster-system"}]


# --- policies and definitions ------------------------------------------------------------------------


def policies(kind: str) -> dict[str, tuple[Object, Object]]:
    """What each policy of a kind says, and its one binding."""
    bindings = {binding["metadata"]["name"]: binding["spec"] for binding in of_kind(f"{kind}Binding")}
    found = {policy["metadata"]["name"]: policy["spec"] for policy in of_kind(kind)}
    assert found.keys() == bindings.keys()
    assert all(binding["policyName"] == name for name, binding in bindings.items())
    return {name: (spec, bindings[name]) for name, spec in found.items()}


ALL_POLICIES = policies("MutatingAdmissionPolicy") | {
    f"validating {name}": both for name, both in policies("ValidatingAdmissionPolicy").items()
}


@pytest.mark.parametrize(("policy", "binding"), ALL_POLICIES.values(), ids=ALL_POLICIES)
def test_a_broken_policy_stops_nobody_and_foreign_pods_are_left_out_first(policy: Object, binding: Object) -> None:
    assert policy["failurePolicy"] == "Ignore"
    (rule, *_) = policy["matchConstraints"]["resourceRules"]
    if rule["resources"] != ["pods"]:
        return
    of_ours = policy.get("matchConditions", [{}])[0].get("name") == "scheduler-is-muster"
    selected = binding.get("matchResources", {}).get("namespaceSelector", {}).get("matchExpressions", [{}])[0]
    assert of_ours or selected["key"] == "muster.dev/managed"


def test_a_pod_that_is_made_ours_is_gated_by_the_same_rules_as_one_that_was_born_ours() -> None:
    (gate, _), (managed, _) = (
        policies("MutatingAdmissionPolicy")[name] for name in ("muster-queue-gate", "muster-managed")
    )
    assert managed["variables"][: len(gate["variables"])] == gate["variables"]
    expression = gate["mutations"][0]["jsonPatch"]["expression"]
    setting, gating = (mutation["jsonPatch"]["expression"] for mutation in managed["mutations"])
    assert setting == "[JSONPatch{op: 'add', path: '/spec/schedulerName', value: 'muster'}]"
    assert gating == expression.replace("variables.isOpen ?", "variables.isOpen || variables.isGated ?")
    assert managed["matchConstraints"] == gate["matchConstraints"]


def test_the_component_that_sets_the_scheduler_says_so_to_the_policy_that_warns() -> None:
    (warns, binding) = policies("ValidatingAdmissionPolicy")["muster-managed"]
    assert binding["validationActions"] == ["Warn"]
    (patch,) = documents(MANIFESTS / "components" / "managed-namespaces" / "kustomization.yaml")[0]["patches"]
    test, change = yaml.safe_load(patch["patch"])
    assert (test["op"], change["op"], change["value"]) == ("test", "replace", "true")
    index = [variable["name"] for variable in warns["variables"]].index(test["value"])
    assert [test["path"], change["path"]] == [f"/spec/variables/{index}/{field}" for field in ("name", "expression")]


def test_neither_the_cluster_nor_muster_itself_can_come_to_depend_on_muster() -> None:
    _, binding = policies("MutatingAdmissionPolicy")["muster-managed"]
    selected = {one["key"]: one for one in binding["matchResources"]["namespaceSelector"]["matchExpressions"]}
    assert selected["muster.dev/managed"]["values"] == ["enforce"]
    kept = selected["kubernetes.io/metadata.name"]
    assert (kept["operator"], kept["values"]) == ("NotIn", ["kube-system", "muster-system"])
    label, _ = policies("ValidatingAdmissionPolicy")["muster-managed-label"]
    values, places = (validation["expression"] for validation in label["validations"])
    assert all(f"'{value}'" in values for value in marks.MANAGED_VALUES)
    assert all(f"'{name}'" in places for name in kept["values"])


def test_policies_know_the_marks_that_are_read() -> None:
    """A pod whose queue may stand elsewhere than in its label is gated, and no mark of it changes."""
    elsewhere = {marks.SCHEDULER_PLUGINS_LABEL, marks.GROUP_LABEL, marks.VOLCANO_GROUP_ANNOTATION}
    elsewhere |= {marks.VOLCANO_GROUP_ANNOTATION_2, marks.VOLCANO_QUEUE_ANNOTATION}
    for name in ("muster-queue-gate", "muster-managed"):
        mutation, _ = policies("MutatingAdmissionPolicy")[name]
        (marked,) = (one["expression"] for one in mutation["variables"] if one["name"] == "marked")
        assert all(f"'{key}'" in marked for key in elsewhere)
    fixed, _ = policies("ValidatingAdmissionPolicy")["muster-marks"]
    texts = " ".join(one["expression"] for one in fixed["variables"])
    others = {marks.KUEUE_GROUP_LABEL, marks.QUEUE_LABEL, marks.TASK_LABEL, marks.VOLCANO_TASK_ANNOTATION}
    assert all(f"'{key}'" in texts for key in elsewhere | others)


def schema_nodes(schema: Object, path: str, asked: bool) -> Iterator[tuple[str, Object, bool]]:
    """Every node of a schema, its path, and whether it is what users write (spec)."""
    yield path, schema, asked
    for name, child in schema.get("properties", {}).items():
        yield from schema_nodes(child, f"{path}.{name}", asked or name == "spec")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from schema_nodes(schema[key], f"{path}[]", asked)


def all_schema_nodes() -> list[Any]:
    found = []
    for definition in of_kind("CustomResourceDefinition"):
        for version in definition["spec"]["versions"]:
            root = version["schema"]["openAPIV3Schema"]
            for path, node, asked in schema_nodes(root, definition["spec"]["names"]["kind"], False):
                if asked:
                    found.append(pytest.param(node, id=path))
    return found


@pytest.mark.parametrize("node", all_schema_nodes())
def test_everything_that_users_write_is_bounded(node: Object) -> None:
    kind = node.get("type")
    if kind == "string":
        assert "maxLength" in node or "enum" in node
    if kind == "integer":
        assert {"minimum", "maximum"} <= set(node)
    if kind == "array":
        assert "maxItems" in node
    if "additionalProperties" in node:
        assert "maxProperties" in node
    if node.get("x-kubernetes-int-or-string"):
        assert {"minimum", "maxLength", "pattern"} <= set(node)


def test_the_definitions_are_the_three_of_the_design_with_status_and_short_names() -> None:
    found = {}
    for definition in of_kind("CustomResourceDefinition"):
        spec = definition["spec"]
        (version,) = spec["versions"]
        assert version["name"] == "v1alpha1"
        assert version["subresources"] == {"status": {}}
        assert version["additionalPrinterColumns"]
        found[spec["names"]["kind"]] = (spec["scope"], spec["names"].get("shortNames", []))
    assert found == {
        "Queue": ("Cluster", ["mq"]),
        "PodGroup": ("Namespaced", ["mpg"]),
        "Topology": ("Cluster", []),
    }


# --- the rest ----------------------------------------------------------------------------------------


def test_kind_has_one_control_plane_and_four_workers() -> None:
    (config,) = documents(MANIFESTS / "kind" / "kind.yaml")
    assert [node["role"] for node in config["nodes"]] == ["control-plane"] + 4 * ["worker"]


def test_the_uninstall_command_is_plain_sh() -> None:
    script = MANIFESTS / "uninstall.sh"
    assert script.read_text().startswith("#!/bin/sh\n")
    subprocess.run(["sh", "-n", str(script)], check=True)
    assert script.stat().st_mode & 0o111


@pytest.mark.parametrize("arguments", [[], ["only-one"], ["a", "b", "c", "d"], ["/not/there.crt", "/not/there.key"]])
def test_the_command_for_answers_refuses_what_it_cannot_use_and_touches_nothing(arguments: list[str]) -> None:
    script = MANIFESTS / "answers" / "install.sh"
    subprocess.run(["sh", "-n", str(script)], check=True)
    done = subprocess.run(
        [str(script), *arguments],
        env={"KUBECTL": "false", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage:" in done.stderr or "/not/there.crt" in done.stderr


@pytest.mark.parametrize("arguments", [["--nonsense"], ["--purge", "now"]])
def test_the_uninstall_command_refuses_what_it_does_not_know_and_touches_nothing(
    arguments: list[str],
) -> None:
    done = subprocess.run(
        [str(MANIFESTS / "uninstall.sh"), *arguments],
        env={"KUBECTL": "false", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert f"unknown argument: {arguments[-1]}" in done.stderr
