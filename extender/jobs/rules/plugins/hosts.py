"""Names of pods, and under which names the members of a job find each other.

Takes a job, gives names; must not know whether anybody answers there.
"""

from __future__ import annotations

from extender.jobs.rules.model import Job, TaskSpec


def pod_name(job: str, task: str, index: int) -> str:
    """Name of the pod of a member."""
    return f"{job}-{task}-{index}"


def host_of(job: Job, task: TaskSpec, index: int) -> tuple[str, str]:
    """Host name and subdomain of a member; the template may say them, then all members have one host name."""
    spec = task.template["spec"]
    hostname, subdomain = spec.get("hostname"), spec.get("subdomain")
    return (
        hostname if isinstance(hostname, str) and hostname else pod_name(job.name, task.name, index),
        subdomain if isinstance(subdomain, str) and subdomain else job.name,
    )


def hosts_of(job: Job, task: TaskSpec) -> list[str]:
    """`host.subdomain` of all members of a task, in the order of their indexes; a host of all stands once."""
    found = [".".join(host_of(job, task, index)) for index in range(task.replicas)]
    return list(dict.fromkeys(found))
