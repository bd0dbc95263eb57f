"""`tensorflow`: TF_CONFIG, with the hosts of the known roles and which of them this is.

Arguments: --ps, --worker, --chief, --evaluator: names of the tasks (as the roles); --port (2222).
"""

from __future__ import annotations

import orjson

from extender.jobs.rules.model import Job, JobSpec, Wanted
from extender.jobs.rules.plugins.arguments import text_of
from extender.jobs.rules.plugins.container import Pod, is_port, variable
from extender.jobs.rules.plugins.hosts import host_of

#: in the order in which TF_CONFIG names them
_ROLES = ("ps", "worker", "chief", "evaluator")


def check(spec: JobSpec, arguments: tuple[str, ...]) -> str:
    """The port is one."""
    port = _port(arguments)
    return "" if is_port(port) else f"port {port[:20]!r} is no port"


def mend(job: Job, arguments: tuple[str, ...], pod: Pod) -> None:
    """Set TF_CONFIG, but not for a job of one pod, which is no cluster."""
    if sum(task.replicas for task in job.spec.tasks) == 1:
        return
    port, cluster, kind = _port(arguments), {}, pod.task
    for role in _ROLES:
        name = text_of(arguments, role, role)
        task = job.spec.task(name)
        if task is not None and task.replicas:
            hosts = (".".join(host_of(job, task, index)) for index in range(task.replicas))
            cluster[role] = [f"{host}:{port}" for host in hosts]
        if pod.task == name:
            kind = role
    config = {"cluster": cluster, "task": {"type": kind, "index": pod.index}}
    pod.set_env(variable("TF_CONFIG", orjson.dumps(config).decode()), inits=False)


def objects(job: Job, arguments: tuple[str, ...]) -> tuple[Wanted, ...]:
    """None: the Service is of `svc`."""
    return ()


def _port(arguments: tuple[str, ...]) -> str:
    return text_of(arguments, "port", "2222")
