"""The plugins of Volcano's jobs: what they add to pods, and the objects that they need.

Takes a job and a pod's template, gives the pod as its author relies on it; must not know the cluster. Each plugin is a
module with `check`, `mend` and `objects`; they run in the order of their names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from extender.jobs.rules.model import Job, JobSpec, Object, Removal, Wanted
from extender.jobs.rules.plugins import env, mpi, pytorch, ray, ssh, svc, tensorflow
from extender.jobs.rules.plugins.container import Pod


@dataclass(frozen=True, slots=True)
class _Plugin:
    #: what is wrong with its arguments or with the job for it; empty when nothing is
    check: Callable[[JobSpec, tuple[str, ...]], str]
    #: change the spec of the pod of one member
    mend: Callable[[Job, tuple[str, ...], Pod], None]
    #: objects beside the pods
    objects: Callable[[Job, tuple[str, ...]], tuple[Wanted, ...]]


KNOWN: Mapping[str, _Plugin] = {
    "env": _Plugin(env.check, env.mend, env.objects),
    "mpi": _Plugin(mpi.check, mpi.mend, mpi.objects),
    "pytorch": _Plugin(pytorch.check, pytorch.mend, pytorch.objects),
    "ray": _Plugin(ray.check, ray.mend, ray.objects),
    "ssh": _Plugin(ssh.check, ssh.mend, ssh.objects),
    "svc": _Plugin(svc.check, svc.mend, svc.objects),
    "tensorflow": _Plugin(tensorflow.check, tensorflow.mend, tensorflow.objects),
}


def check(name: str, spec: JobSpec) -> str:
    """What is wrong with a known plugin of a job; empty when nothing is."""
    return KNOWN[name].check(spec, spec.plugins[name])


def mend(job: Job, task: str, index: int, spec: dict[str, object]) -> Object:
    """The spec of a member's pod as the job's plugins want it. `spec` is changed, and was copied for that."""
    pod = Pod(task, index, spec)
    for name, arguments in job.spec.plugins.items():
        KNOWN[name].mend(job, arguments, pod)
    return pod.spec


def objects(job: Job) -> tuple[Wanted, ...]:
    """All objects that the job's plugins need."""
    return tuple(
        wanted for name, arguments in job.spec.plugins.items() for wanted in KNOWN[name].objects(job, arguments)
    )


def removals(job: Job) -> tuple[Removal, ...]:
    """The same objects, to be gone."""
    return tuple(Removal(one.api_version, one.kind, one.name) for one in objects(job))
