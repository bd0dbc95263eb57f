"""`mpi`: the master learns its workers' hosts, and the port of sshd is named.

Arguments: --master (master), --worker (worker): names of the tasks; --port (22).
"""

from __future__ import annotations

from extender.jobs.rules.model import Job, JobSpec, Wanted
from extender.jobs.rules.plugins.arguments import text_of
from extender.jobs.rules.plugins.container import Pod, is_port, variable
from extender.jobs.rules.plugins.hosts import hosts_of


def check(spec: JobSpec, arguments: tuple[str, ...]) -> str:
    """Both tasks exist, and the port is one."""
    for role in ("master", "worker"):
        name = text_of(arguments, role, role)
        if spec.task(name) is None:
            return f"the job has no task {name[:63]!r} for the {role}"
    port = _port(arguments)
    return "" if is_port(port) else f"port {port[:20]!r} is no port"


def mend(job: Job, arguments: tuple[str, ...], pod: Pod) -> None:
    """Name the port everywhere, and the hosts in the master."""
    pod.open_port("mpijob-port", int(_port(arguments)))
    worker = job.spec.task(text_of(arguments, "worker", "worker"))
    if pod.task == text_of(arguments, "master", "master") and worker is not None:
        pod.set_env(variable("MPI_HOST", ",".join(hosts_of(job, worker))))


def objects(job: Job, arguments: tuple[str, ...]) -> tuple[Wanted, ...]:
    """None: the Service is of `svc`, the keys are of `ssh`."""
    return ()


def _port(arguments: tuple[str, ...]) -> str:
    return text_of(arguments, "port", "22")
