"""Objects that belong to a job: the API server deletes them with it.

Takes a job and a body, gives the whole object.
"""

from __future__ import annotations

from typing import Any

from extender.jobs.rules import marks
from extender.jobs.rules.model import API_VERSION, KIND, Job, Object, Upkeep, Wanted


def owner_of(job: Job) -> dict[str, Any]:
    """The reference to the job as the one that controls an object."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
    }


def owned(
    job: Job,
    api_version: str,
    kind: str,
    name: str,
    body: Object,
    upkeep: Upkeep = Upkeep.UPDATE,
    key_pair: bool = False,
) -> Wanted:
    """An object of the job in its namespace."""
    meta = {
        "name": name,
        "namespace": job.namespace,
        "labels": {marks.JOB_NAME: job.name},
        "ownerReferences": [owner_of(job)],
    }
    whole = {"apiVersion": api_version, "kind": kind, "metadata": meta, **body}
    return Wanted(api_version, kind, name, whole, upkeep, key_pair)
