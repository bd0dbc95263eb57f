"""Tables for test_manifests.py: objects that the definitions take or refuse, rights that are there or not.

Takes nothing, gives plain data; must not talk to a cluster.
"""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]
ACCEPTED = ""
DNS_63 = "a" * 63


def queue(name: str = "q", **spec: Any) -> Object:
    """A Queue with this spec."""
    return _object("Queue", name, spec)


def group(min_member: Any = 4, name: str = "g", **spec: Any) -> Object:
    """A PodGroup with this spec."""
    return _object("PodGroup", name, {"minMember": min_member, **spec})


def topology(*levels: Any) -> Object:
    """A Topology of these levels."""
    return _object("Topology", "t", {"levels": list(levels)})


def tasks(**minimums: Any) -> list[Object]:
    """Tasks by name."""
    return [{"name": name, "minMember": minimum} for name, minimum in minimums.items()]


def _object(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": "muster.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


ADDED_UP = "the minimums of the tasks add up to more than minMember: raise minMember or lower a task's"
GUARANTEE_DESERVED = "guarantee is a part of deserved: for each resource that both name, guarantee <="
DESERVED_CAP = "capability is the hard cap: for each resource that both name, deserved <= capability"
GUARANTEE_CAP = "capability is the hard cap: for each resource that both name, guarantee <= capability"
TOO_LARGE = "amounts end at 32Pi, of cpu at 32T: leave the resource out where it should have no limit"
BAD_NAME = "each key is the name of a resource as pods request it, such as cpu, memory or nvidia.com/gpu"
GPU = "nvidia.com/gpu"

#: (sentence, object, part of the message when it is refused)
DEFINITIONS: list[tuple[str, Object, str]] = [
    # --- PodGroup
    ("a group of one is accepted", group(1), ACCEPTED),
    (
        "a group with every field is accepted",
        group(
            6,
            tasks=tasks(launcher=1, worker=4, evaluator=0),
            queue="research.vision",
            priorityClassName="high",
            topology={"required": "topology.kubernetes.io/zone", "preferred": "rack"},
            preemptible=False,
            expectedDurationSeconds=3600,
            scheduleTimeoutSeconds=300,
        ),
        ACCEPTED,
    ),
    (
        "both levels are accepted: required broad and preferred narrow",
        group(topology={"required": "zone", "preferred": "rack"}),
        ACCEPTED,
    ),
    ("no minMember is refused", _object("PodGroup", "g", {}), "spec.minMember: Required value"),
    ("a group without spec is refused", {**group(), "spec": None}, "spec: Required value"),
    ("minMember 0 is refused", group(0), "should be greater than or equal to 1"),
    ("negative minMember is refused", group(-3), "should be greater than or equal to 1"),
    ("huge minMember is refused", group(100001), "should be less than or equal to 100000"),
    ("minMember past 64 bits is refused", group(2**70), "spec.minMember"),
    ("minMember as text is refused", group("4"), "must be of type integer"),
    ("minMember with a fraction is refused", group(1.5), "spec.minMember"),
    ("minimums that add up to minMember are accepted", group(4, tasks=tasks(a=1, b=3)), ACCEPTED),
    ("minimums that add up to more are refused", group(4, tasks=tasks(a=2, b=3)), ADDED_UP),
    ("a task with minimum 0 is accepted: the role is optional", group(1, tasks=tasks(a=0)), ACCEPTED),
    ("a task with a negative minimum is refused", group(1, tasks=tasks(a=-1)), "greater than or equal to 0"),
    ("a task named twice is refused", group(4, tasks=tasks(a=1) + tasks(a=2)), "Duplicate value"),
    ("a task without a minimum is refused", group(1, tasks=[{"name": "a"}]), "minMember: Required value"),
    ("a task without a name is refused", group(1, tasks=[{"minMember": 1}]), "name: Required value"),
    ("a task name with a capital letter is refused", group(1, tasks=tasks(Worker=1)), "should match"),
    ("a task name with a dot is refused", group(1, tasks=tasks(**{"a.b": 1})), "should match"),
    ("a task name that is not ASCII is refused", group(1, tasks=tasks(**{"wörker": 1})), "should match"),
    ("an empty task name is refused", group(1, tasks=tasks(**{"": 1})), "should match"),
    ("a task name of 64 characters is refused", group(1, tasks=tasks(**{DNS_63 + "a": 1})), "Too long"),
    ("64 tasks are accepted", group(64, tasks=tasks(**{f"t{i}": 1 for i in range(64)})), ACCEPTED),
    ("65 tasks are refused", group(65, tasks=tasks(**{f"t{i}": 1 for i in range(65)})), "Too many"),
    ("a queue that is no label value is refused", group(queue="a b"), "should match"),
    ("a level that is no label key is refused", group(topology={"required": "a/b/c"}), "should match"),
    ("an empty level is refused", group(topology={"preferred": ""}), "should match"),
    ("a schedule timeout of a day is accepted", group(scheduleTimeoutSeconds=86400), ACCEPTED),
    ("a longer schedule timeout is refused", group(scheduleTimeoutSeconds=86401), "less than or equal to 86400"),
    ("a schedule timeout of 0 is refused", group(scheduleTimeoutSeconds=0), "greater than or equal to 1"),
    ("a negative duration is refused", group(expectedDurationSeconds=-1), "greater than or equal to 1"),
    ("preemptible as text is refused", group(preemptible="yes"), "must be of type boolean"),
    ("a name that is no label value is refused", group(name="g" * 64), "at most 63 characters"),
    # --- Queue
    ("an empty queue is accepted", queue(), ACCEPTED),
    ("a queue without spec is accepted", {**queue(), "spec": None}, ACCEPTED),
    (
        "a queue with every field is accepted",
        queue(
            parent="root",
            weight=3,
            capability={GPU: 64, "cpu": "100", "memory": "1Ti"},
            deserved={GPU: "32"},
            guarantee={"resource": {GPU: 8, "hugepages-2Mi": "1Gi"}},
            reclaimable=False,
            priority=-5,
            state="Closed",
            autoscaling="Visible",
            minRuntimeSeconds=0,
            staleSeconds=60,
            namespaces=["a", "b"],
        ),
        ACCEPTED,
    ),
    ("a weight below 0 is refused", queue(weight=-1), "greater than or equal to 0"),
    ("a weight with a fraction is refused", queue(weight=0.5), "spec.weight"),
    ("a huge weight is refused", queue(weight=65536), "less than or equal to 65535"),
    ("a queue that is its own parent is refused", queue("q", parent="q"), "spec.parent names the queue itself"),
    ("an empty parent is refused", queue(parent=""), "spec.parent"),
    ("an unknown state is refused", queue(state="Ajar"), "Unsupported value"),
    ("an unknown way of autoscaling is refused", queue(autoscaling="Yes"), "Unsupported value"),
    ("autoscaling is no flag", queue(autoscaling=True), "spec.autoscaling"),
    ("a negative amount is refused", queue(capability={GPU: -1}), "greater than or equal to 0"),
    ("a negative amount as text is refused", queue(capability={GPU: "-1"}), "should match"),
    ("an amount that is no quantity is refused", queue(deserved={GPU: "lots"}), "should match"),
    ("an amount with a fraction as a number is refused", queue(deserved={GPU: 1.5}), "spec.deserved"),
    ("the largest memory is accepted", queue(capability={"memory": "32Pi"}), ACCEPTED),
    ("a huge amount is refused", queue(capability={"memory": "33Pi"}), TOO_LARGE),
    ("a huge amount in exponent form is refused", queue(capability={GPU: "1e30"}), TOO_LARGE),
    ("a huge amount as a number is refused", queue(capability={GPU: 2**62}), TOO_LARGE),
    ("a huge cpu is refused before it overflows in millicores", queue(deserved={"cpu": "33T"}), TOO_LARGE),
    ("a huge guarantee is refused", queue(guarantee={"resource": {GPU: "1E"}}), TOO_LARGE),
    (
        "an amount in smaller units that is equal passes as equal",
        queue(deserved={"cpu": "1"}, capability={"cpu": "1000m"}),
        ACCEPTED,
    ),
    (
        "guarantee above deserved is refused",
        queue(guarantee={"resource": {GPU: 2}}, deserved={GPU: 1}),
        GUARANTEE_DESERVED,
    ),
    (
        "deserved above capability is refused",
        queue(deserved={"memory": "2Gi"}, capability={"memory": "2G"}),
        DESERVED_CAP,
    ),
    (
        "guarantee above capability is refused",
        queue(guarantee={"resource": {GPU: 2}}, capability={GPU: "1"}),
        GUARANTEE_CAP,
    ),
    ("different resources are not compared", queue(deserved={"cpu": 9}, capability={GPU: 1}), ACCEPTED),
    ("a resource name with a space is refused", queue(deserved={"a b": 1}), BAD_NAME),
    ("a resource name that is not ASCII is refused", queue(deserved={"gpü": 1}), BAD_NAME),
    ("an endless resource name is refused", queue(deserved={"a" * 400: 1}), BAD_NAME),
    ("33 resources are refused", queue(deserved={f"r{i}": 1 for i in range(33)}), "Too many"),
    ("a namespace named twice is refused", queue(namespaces=["a", "a"]), "Duplicate value"),
    ("a name that no pod could bear as a label is refused", queue("q" * 64), "at most 63 characters"),
    # --- Topology
    ("three levels are accepted", topology("topology.kubernetes.io/zone", "rack", "kubernetes.io/hostname"), ACCEPTED),
    ("16 levels are accepted", topology(*(f"l{i}" for i in range(16))), ACCEPTED),
    ("17 levels are refused", topology(*(f"l{i}" for i in range(17))), "Too many"),
    ("no level is refused", topology(), "should have at least 1 items"),
    ("a level named twice is refused", topology("zone", "rack", "zone"), "each level stands once"),
    ("an empty level is refused", topology("zone", ""), "spec.levels[1]"),
    ("a level that is no label key is refused", topology("Rack Nr"), "should match"),
    ("a level that is not text is refused", topology(7), "must be of type string"),
]

#: (verb, resource.group[/subresource], namespace, name): what our three processes do
ALLOWED: list[tuple[str, str, str, str]] = [
    *(
        (verb, resource, "", "")
        for verb in ("get", "list", "watch")
        for resource in (
            "pods",
            "nodes",
            "namespaces",
            "podgroups.muster.dev",
            "podgroups.scheduling.k8s.io",
            "podgroups.scheduling.x-k8s.io",
            "podgroups.scheduling.volcano.sh",
            "queues.muster.dev",
            "queues.scheduling.volcano.sh",
            "topologies.muster.dev",
            "jobs.batch",
            "jobsets.jobset.x-k8s.io",
            "leaderworkersets.leaderworkerset.x-k8s.io",
            "pytorchjobs.kubeflow.org",
            "mpijobs.kubeflow.org",
            "rayclusters.ray.io",
            "sparkapplications.sparkoperator.k8s.io",
        )
    ),
    *((verb, "configmaps", "muster-system", "muster-owner-kinds") for verb in ("get", "list", "watch")),
    ("patch", "pods", "tenant", "p"),
    ("patch", "pods/status", "tenant", "p"),
    ("patch", "nodes", "", "n"),
    ("create", "pods/binding", "tenant", "p"),
    ("create", "pods/eviction", "tenant", "p"),
    *((verb, "poddisruptionbudgets.policy", "", "") for verb in ("list", "watch")),
    *((verb, "priorityclasses.scheduling.k8s.io", "", "") for verb in ("list", "watch")),
    ("create", "events.events.k8s.io", "tenant", ""),
    ("patch", "podgroups.muster.dev/status", "tenant", "g"),
    ("patch", "podgroups.scheduling.k8s.io/status", "tenant", "g"),
    ("patch", "podgroups.scheduling.x-k8s.io/status", "tenant", "g"),
    ("patch", "podgroups.scheduling.volcano.sh/status", "tenant", "g"),
    ("patch", "podgroups.scheduling.x-k8s.io", "tenant", "g"),
    ("patch", "podgroups.scheduling.volcano.sh", "tenant", "g"),
    ("patch", "queues.muster.dev/status", "", "q"),
    ("patch", "topologies.muster.dev/status", "", "t"),
    ("create", "configmaps", "muster-system", ""),
    *((verb, "configmaps", "muster-system", "muster-admission") for verb in ("get", "list", "watch", "patch")),
    ("get", "configmaps", "kube-system", "extension-apiserver-authentication"),
    ("create", "leases.coordination.k8s.io", "muster-system", ""),
    *(
        (verb, "leases.coordination.k8s.io", "muster-system", "muster-scheduler")
        for verb in ("get", "list", "watch", "update")
    ),
    ("list", "persistentvolumeclaims", "", ""),
    ("update", "persistentvolumes", "", "pv"),
]

#: what nobody of ours needs
REFUSED: list[tuple[str, str, str, str]] = [
    *(
        (verb, "secrets", namespace, "")
        for verb in ("get", "list", "watch")
        for namespace in ("", "tenant", "muster-system", "kube-system")
    ),
    ("create", "pods", "tenant", ""),
    ("update", "pods", "tenant", "p"),
    ("create", "pods/exec", "tenant", "p"),
    ("create", "pods/attach", "tenant", "p"),
    ("get", "pods/log", "tenant", "p"),
    ("patch", "pods/ephemeralcontainers", "tenant", "p"),
    ("update", "nodes", "", "n"),
    ("delete", "nodes", "", "n"),
    ("patch", "nodes/status", "", "n"),
    ("get", "nodes/proxy", "", "n"),
    ("patch", "namespaces", "", "tenant"),
    ("get", "configmaps", "tenant", "any"),
    ("get", "configmaps", "muster-system", "any"),
    ("update", "configmaps", "muster-system", "any"),
    ("delete", "configmaps", "muster-system", "muster-admission"),
    ("create", "configmaps", "tenant", ""),
    *((verb, "leases.coordination.k8s.io", "muster-system", "any") for verb in ("get", "watch", "update")),
    ("delete", "leases.coordination.k8s.io", "muster-system", "muster-scheduler"),
    *(("patch", f"podgroups.{group_of}", "tenant", "g") for group_of in ("muster.dev", "scheduling.k8s.io")),
    ("delete", "podgroups.muster.dev", "tenant", "g"),
    ("delete", "podgroups.scheduling.k8s.io", "tenant", "g"),
    ("patch", "queues.muster.dev", "", "q"),
    ("create", "queues.muster.dev", "", ""),
    ("delete", "queues.muster.dev", "", "q"),
    ("patch", "queues.scheduling.volcano.sh/status", "", "q"),
    ("patch", "topologies.muster.dev", "", "t"),
    ("patch", "jobs.batch", "tenant", "j"),
    ("patch", "jobsets.jobset.x-k8s.io", "tenant", "j"),
    ("patch", "configmaps", "muster-system", "muster-owner-kinds"),
    ("patch", "poddisruptionbudgets.policy", "tenant", "b"),
    ("patch", "poddisruptionbudgets.policy/status", "tenant", "b"),
    ("create", "serviceaccounts/token", "muster-system", "muster"),
    ("impersonate", "users", "", "admin"),
    ("create", "clusterrolebindings.rbac.authorization.k8s.io", "", ""),
    ("escalate", "clusterroles.rbac.authorization.k8s.io", "", "muster-extender"),
    ("patch", "customresourcedefinitions.apiextensions.k8s.io", "", "queues.muster.dev"),
    ("patch", "mutatingadmissionpolicies.admissionregistration.k8s.io", "", "muster-queue-gate"),
    ("patch", "deployments.apps", "muster-system", "muster"),
]
