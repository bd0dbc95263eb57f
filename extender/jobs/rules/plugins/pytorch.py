"""`pytorch`: the variables of torch.distributed.

Arguments: --master (master), --worker (worker): names of the tasks; --port (23456).
The master has rank 0, worker i rank i + 1, and the world is the replicas of both tasks. A pod's variables are as they
were when it was made: after a change of replicas those that run keep their rank, and the size that they started with.
"""

from __future__ import annotations

from extender.jobs.rules.model import Job, JobSpec, Wanted
from extender.jobs.rules.plugins.arguments import text_of
from extender.jobs.rules.plugins.container import Pod, is_port, variable
from extender.jobs.rules.plugins.hosts import host_of


def check(spec: JobSpec, arguments: tuple[str, ...]) -> str:
    """The port is one."""
    port = _port(arguments)
    return "" if is_port(port) else f"port {port[:20]!r} is no port"


def mend(job: Job, arguments: tuple[str, ...], pod: Pod) -> None:
    """Where the master is, how many there are, and which of them this is; nothing for a job without a master."""
    names = (text_of(arguments, "master", "master"), text_of(arguments, "worker", "worker"))
    master, worker = (job.spec.task(name) for name in names)
    if master is None:
        return
    port = int(_port(arguments))
    size = master.replicas + (worker.replicas if worker is not None and worker is not master else 0)
    pod.open_port("pytorchjob-port", port, inits=False)
    pod.set_env(
        variable("MASTER_ADDR", ".".join(host_of(job, master, 0))),
        variable("MASTER_PORT", port),
        variable("WORLD_SIZE", size),
        inits=False,
    )
    if pod.task in names:
        # a master has one member; of more each gets a rank of its own, and workers follow
        rank = pod.index if pod.task == names[0] else master.replicas + pod.index
        pod.set_env(variable("RANK", rank), inits=False)


def objects(job: Job, arguments: tuple[str, ...]) -> tuple[Wanted, ...]:
    """None: the Service is of `svc`."""
    return ()


def _port(arguments: tuple[str, ...]) -> str:
    return text_of(arguments, "port", "23456")
