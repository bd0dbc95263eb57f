"""`kubectl muster migrate --plan`: which workloads would come to Muster, and what would change for each.

Takes the cluster's objects of Volcano and Kueue, gives rows in the words of docs/from-volcano.md and from-kueue.md.
Must not change anything, nor say that a definition of theirs may go: its objects would go with it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from extender.cli import tables
from extender.cli.cluster import Cluster
from extender.cli.drain import count
from extender.core.ids import SCHEDULER_NAME
from extender.jobs.rules import reading
from extender.kube import resources
from extender.wire import marks

Object = dict[str, Any]
COLUMNS = ("NAMESPACE", "WORKLOAD", "NOW", "PODS", "WOULD CHANGE")
EMPTY = "nothing in {where} names Volcano's scheduler or is Kueue's"
KUEUE_QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
KUEUE_WORKLOADS = resources.Resource(
    "kueue.x-k8s.io", ("v1beta2", "v1beta1"), "workloads", namespaced=True, optional=True
)
VOLCANO = "volcano"
VOLCANO_PODS = replace(resources.PODS, field_selector=f"spec.schedulerName={VOLCANO}")
#: whose objects go with their definition
KEPT = (resources.VOLCANO_JOBS, resources.VOLCANO_CRON_JOBS, resources.VOLCANO_POD_GROUPS, resources.VOLCANO_QUEUES)
_JOB_LABEL = "volcano.sh/job-name"
_ANEW = f"create it anew with schedulerName: {SCHEDULER_NAME}"
_MANIFEST = f"schedulerName: {SCHEDULER_NAME} in its manifest"
_LAST = "in what makes its pods: schedulerName: muster"


async def gather(cluster: Cluster) -> Object:
    """The workloads, and how many objects hang on the definitions of others."""
    where = cluster.namespace
    sought = (resources.VOLCANO_JOBS, resources.VOLCANO_CRON_JOBS, VOLCANO_PODS, KUEUE_WORKLOADS)
    jobs, crons, pods, workloads = await asyncio.gather(*(cluster.every(one, where) for one in sought))
    kept = await asyncio.gather(*(cluster.every(one) for one in KEPT))
    of_jobs, others = _sorted_out(pods)
    rows = [
        *(_job(one, of_jobs) for one in jobs if _scheduler(one) != SCHEDULER_NAME),
        *(_cron(one) for one in crons if _scheduler(one.get("spec", {}).get("jobTemplate", {})) != SCHEDULER_NAME),
        *(_owner(namespace, owner, number) for (namespace, owner), number in sorted(others.items())),
        *(_workload(one) for one in workloads),
    ]
    stay = {resource.label: len(found) for resource, found in zip(KEPT, kept, strict=True) if found}
    return {"items": rows, "definitions": stay}


def show(found: Object, paint: tables.Paint) -> Iterator[str]:
    """A table of workloads, and what must stay."""
    rows = found["items"]
    if rows:
        yield paint(
            tables.BOLD, f"{count(len(rows), 'workload')} would move, one by one; what runs goes on until its end"
        )
    yield from tables.table(COLUMNS, map(_row, rows), paint)
    yield from tables.fields(_pairs(found["definitions"]), paint)


def _row(one: Object) -> tuple[object, ...]:
    pods = "" if one["pods"] is None else one["pods"]
    return one["namespace"], f"{one['kind']}/{one['name']}", one["now"], pods, "; ".join(one["changes"])


def _pairs(definitions: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    for name, number in definitions.items():
        yield "Keep", f"the definition {name}: to delete it would delete {count(number, 'object')}, and what they own"


def _job(job: Object, pods: Mapping[tuple[str, str], int]) -> Object:
    meta = job["metadata"]
    found = reading.decode_job(job)
    if isinstance(found, reading.Refusal):
        changes = [f"it would be refused, {found.reason}: {found.message}"]
    else:
        changes = [_MANIFEST, f"a gang of {max(found.spec.min_available, 1)} in queue {found.spec.queue}"]
        if found.status.phase is not None:
            changes[0] = f"ends as it is, or {_ANEW}"
    return _workload_row(job, "Job", _scheduler(job) or VOLCANO, pods.get((_namespace(meta), meta["name"]), 0), changes)


def _cron(cron: Object) -> Object:
    changes = [f"schedulerName: {SCHEDULER_NAME} in its jobTemplate: its next Job is Muster's"]
    return _workload_row(cron, "CronJob", _scheduler(cron["spec"]["jobTemplate"]) or VOLCANO, None, changes)


def _owner(namespace: str, owner: tuple[str, str], pods: int) -> Object:
    kind, name = owner
    changes = [f"create it anew with schedulerName: {SCHEDULER_NAME}" if kind == "Pod" else _LAST]
    changes.append("its marks of a group are read as they are")
    return {"namespace": namespace, "kind": kind, "name": name, "now": VOLCANO, "pods": pods, "changes": changes}


def _workload(workload: Object) -> Object:
    spec = workload.get("spec") or {}
    owners = [one for one in workload["metadata"].get("ownerReferences") or [] if one.get("controller")]
    kind, name = (owners[0]["kind"], owners[0]["name"]) if owners else ("Workload", workload["metadata"]["name"])
    queue = str(spec.get("queueName", ""))
    pods = sum(int(one.get("count", 1)) for one in spec.get("podSets") or [])
    changes = [
        f"without the label {KUEUE_QUEUE_LABEL}, with schedulerName: {SCHEDULER_NAME} and {marks.QUEUE_LABEL}: {queue}",
        "suspended by Kueue, it must be created anew or resumed"
        if not _is_admitted(workload)
        else f"ends as it is, or {_ANEW}",
    ]
    row = {"namespace": _namespace(workload["metadata"]), "kind": kind, "name": name}
    return row | {"now": f"kueue: {queue}", "pods": pods, "changes": changes}


def _workload_row(one: Object, kind: str, now: str, pods: int | None, changes: list[str]) -> Object:
    meta = one["metadata"]
    row = {"namespace": _namespace(meta), "kind": f"{kind}.batch.volcano.sh", "name": meta["name"]}
    return row | {"now": now, "pods": pods, "changes": changes}


def _sorted_out(pods: list[Object]) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, tuple[str, str]]]]:
    """Pods of Volcano's Jobs by the Job's name; the others by namespace and what controls them."""
    of_jobs: Counter[tuple[str, str]] = Counter()
    others: Counter[tuple[str, tuple[str, str]]] = Counter()
    for pod in pods:
        meta = pod["metadata"]
        job = (meta.get("labels") or {}).get(_JOB_LABEL)
        if job:
            of_jobs[_namespace(meta), job] += 1
            continue
        owners = [one for one in meta.get("ownerReferences") or [] if one.get("controller")]
        owner = (str(owners[0]["kind"]), str(owners[0]["name"])) if owners else ("Pod", str(meta["name"]))
        others[_namespace(meta), owner] += 1
    return of_jobs, others


def _is_admitted(workload: Object) -> bool:
    conditions = (workload.get("status") or {}).get("conditions") or []
    return any(one.get("type") == "Admitted" and one.get("status") == "True" for one in conditions)


def _scheduler(one: Object) -> str:
    return str((one.get("spec") or {}).get("schedulerName") or "")


def _namespace(meta: Object) -> str:
    return str(meta.get("namespace", ""))
