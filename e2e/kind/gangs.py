"""Gangs of real processes: a PodGroup of ours and an Indexed Job whose pods find each other by a headless Service.

Takes a namespace and what each worker runs; gives the objects. Must not wait.
"""

from __future__ import annotations

import pathlib
from typing import Any

from e2e import objects
from e2e.kind import gpus, muster

Object = dict[str, Any]
RING = pathlib.Path(__file__).with_name("allreduce.py")


def create(kube: Any, name: str, namespace: str, size: int, **options: Any) -> None:
    """Create the Service, the group and the Job; options as for `job`."""
    timeout = options.pop("timeout", None)
    spec = {"scheduleTimeoutSeconds": timeout} if timeout else {}
    kube.create(objects.pod_group("muster", name, namespace, size, queue="default", spec=spec))
    kube.create(service(name, namespace))
    kube.create(job(name, namespace, size, **options))


def service(name: str, namespace: str) -> Object:
    """Stable names for the pods, told before they are ready: they wait for each other."""
    spec = {"clusterIP": "None", "selector": {"job": name}, "publishNotReadyAddresses": True}
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def job(
    name: str, namespace: str, size: int, *, count: int = 8, image: str = muster.IMAGE, command: list[str] | None = None
) -> Object:
    """`size` workers of `count` GPUs each, which run the ring unless there is a command."""
    worker = {
        "name": "worker",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": command or ["python", "-c", RING.read_text()],
        "env": [{"name": key, "value": value} for key, value in
                (("SIZE", str(size)), ("SERVICE", name), ("JOB", name))],
        "resources": {"limits": {gpus.RESOURCE: count}},
    }  # fmt: skip
    labels = {"job": name, "muster.dev/pod-group": name, "muster.dev/queue": "default"}
    template = {
        "metadata": {"labels": labels},
        "spec": {
            "schedulerName": "muster",
            "restartPolicy": "Never",
            "subdomain": name,
            "terminationGracePeriodSeconds": 1,
            "containers": [worker],
        },
    }
    spec = {
        "completionMode": "Indexed",
        "completions": size,
        "parallelism": size,
        "backoffLimit": 6,
        "podReplacementPolicy": "Failed",
        "template": template,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
