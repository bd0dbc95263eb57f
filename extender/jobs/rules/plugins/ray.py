"""`ray`: the head and the workers of a Ray cluster start with the right commands, and the head has a Service.

Arguments: --head (head), --headContainer (head), --worker (worker), --workerContainer (worker): names of tasks and
containers; --port (6379), --dashboardPort (8265), --clientPort (10001).
"""

from __future__ import annotations

from extender.jobs.rules import marks
from extender.jobs.rules.model import Job, JobSpec, Upkeep, Wanted
from extender.jobs.rules.owning import owned
from extender.jobs.rules.plugins.arguments import text_of
from extender.jobs.rules.plugins.container import Pod, is_port, open_port
from extender.jobs.rules.plugins.hosts import host_of

#: argument, default, name of the port
_PORTS = (("port", "6379", "gcs"), ("dashboardPort", "8265", "dashboard"), ("clientPort", "10001", "client-server"))


def check(spec: JobSpec, arguments: tuple[str, ...]) -> str:
    """There is a head, and the ports are ports."""
    head = text_of(arguments, "head", "head")
    if spec.task(head) is None:
        return f"the job has no task {head[:63]!r} for the head"
    wrong = [name for name, default, _ in _PORTS if not is_port(text_of(arguments, name, default))]
    return f"{wrong[0]} is no port" if wrong else ""


def mend(job: Job, arguments: tuple[str, ...], pod: Pod) -> None:
    """Set the command of the container that is Ray's."""
    head = job.spec.task(text_of(arguments, "head", "head"))
    assert head is not None
    port, dashboard, client = (text_of(arguments, name, default) for name, default, _ in _PORTS)
    for container in pod.containers(inits=False):
        name = container.get("name")
        if pod.task == head.name and name == text_of(arguments, "headContainer", "head"):
            for number, (_, _, known) in zip((port, dashboard, client), _PORTS, strict=True):
                open_port(container, known, int(number))
            container["command"] = _shell(
                f"ray start --head --block --dashboard-host=0.0.0.0 --port={port} --dashboard-port={dashboard}"
                f" --ray-client-server-port={client}"
            )
        elif pod.task == text_of(arguments, "worker", "worker") and name == text_of(
            arguments, "workerContainer", "worker"
        ):
            container["command"] = _shell(f"ray start --block --address={'.'.join(host_of(job, head, 0))}:{port}")


def _shell(text: str) -> list[str]:
    return ["sh", "-c", text]


def objects(job: Job, arguments: tuple[str, ...]) -> tuple[Wanted, ...]:
    """The Service of the head."""
    selector = {
        marks.JOB_NAME: job.name,
        marks.JOB_NAMESPACE: job.namespace,
        marks.TASK: text_of(arguments, "head", "head"),
    }
    ports = [
        {"name": known, "port": int(text_of(arguments, name, default)), "protocol": "TCP", "targetPort": known}
        for name, default, known in _PORTS
    ]
    body = {"spec": {"selector": selector, "ports": ports}}
    return (owned(job, "v1", "Service", f"{job.name}-head-svc", body, Upkeep.CREATE),)
