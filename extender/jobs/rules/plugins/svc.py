"""`svc`: members find each other by name: a headless Service, host files under /etc/volcano, and the same in variables.

Arguments: --publish-not-ready-addresses (false), --disable-network-policy (false), --inject-hosts-env (true).
The files follow a change of replicas while pods run, when kubelet next syncs them; variables are as they were when the
pod was made.
"""

from __future__ import annotations

from typing import Any

from extender.jobs.rules import marks
from extender.jobs.rules.model import Job, JobSpec, Upkeep, Wanted
from extender.jobs.rules.owning import owned
from extender.jobs.rules.plugins.arguments import flag_of
from extender.jobs.rules.plugins.container import Pod
from extender.jobs.rules.plugins.hosts import hosts_of, pod_name

_FOLDER = "/etc/volcano"
_PUBLISH, _NO_POLICY, _INJECT = "publish-not-ready-addresses", "disable-network-policy", "inject-hosts-env"


def check(spec: JobSpec, arguments: tuple[str, ...]) -> str:
    """Its flags are true or false."""
    wrong = [name for name in (_PUBLISH, _NO_POLICY, _INJECT) if flag_of(arguments, name, True) is None]
    return f"{wrong[0]} is neither true nor false" if wrong else ""


def mend(job: Job, arguments: tuple[str, ...], pod: Pod) -> None:
    """Host name, subdomain, host files, and the hosts of all tasks in variables."""
    spec = pod.spec
    spec["hostname"] = spec.get("hostname") or pod_name(job.name, pod.task, pod.index)
    spec["subdomain"] = spec.get("subdomain") or job.name
    name = _config_map(job)
    if flag_of(arguments, _INJECT, True):
        pod.set_env(
            *(
                {"name": key, "valueFrom": {"configMapKeyRef": {"name": name, "key": key}}}
                for task in job.spec.tasks
                for key in _keys(task.name)
            )
        )
    pod.mount({"name": name, "configMap": {"name": name}}, {"name": name, "mountPath": _FOLDER})


def objects(job: Job, arguments: tuple[str, ...]) -> tuple[Wanted, ...]:
    """The Service, the ConfigMap of hosts, and the NetworkPolicy that lets members reach each other only."""
    selector = {marks.JOB_NAME: job.name, marks.JOB_NAMESPACE: job.namespace}
    service = {
        "clusterIP": "None",
        "selector": selector,
        "publishNotReadyAddresses": bool(flag_of(arguments, _PUBLISH, False)),
        # a headless Service needs no port, some meshes and DNS servers leave out one without
        "ports": [{"name": "placeholder-volcano", "port": 1, "protocol": "TCP", "targetPort": 1}],
    }
    found = [
        owned(job, "v1", "Service", job.name, {"spec": service}, Upkeep.CREATE),
        owned(job, "v1", "ConfigMap", _config_map(job), {"data": _hosts(job)}),
    ]
    if not flag_of(arguments, _NO_POLICY, False):
        members = {"matchLabels": selector}
        policy = {
            "podSelector": members,
            "ingress": [{"from": [{"podSelector": members}]}],
            "policyTypes": ["Ingress"],
        }
        found.append(owned(job, "networking.k8s.io/v1", "NetworkPolicy", job.name, {"spec": policy}, Upkeep.CREATE))
    return tuple(found)


def _config_map(job: Job) -> str:
    return f"{job.name}-svc"


def _keys(task: str) -> tuple[str, str]:
    name = task.replace("-", "_").upper()
    return f"VC_{name}_HOSTS", f"VC_{name}_NUM"


def _hosts(job: Job) -> dict[str, Any]:
    found = {}
    for task in job.spec.tasks:
        hosts, (key, number) = hosts_of(job, task), _keys(task.name)
        found[f"{task.name.replace('-', '_')}.host"] = "\n".join(hosts)
        found |= {key: ",".join(hosts), number: str(len(hosts))}
    return found
