"""The objects that a Job needs beside its pods: claims, Services, ConfigMaps, Secrets, its PodGroup; and Events of it.

Takes what is wanted of one, and the Job that owns it; creates it, brings it up to date, removes it. Must not touch an
object of the same name that the Job does not own, nor read a Secret.
"""

from __future__ import annotations

import base64
import contextlib
import secrets
from collections.abc import Mapping
from typing import Any

from extender.jobs import ssh_keys
from extender.jobs.rules import model
from extender.kube import client, errors, resources, writes
from extender.telemetry import logs

LOG = logs.Log(__name__)
Body = dict[str, Any]
_KINDS: Mapping[tuple[str, str], resources.Resource] = {
    ("v1", "Service"): resources.Resource("", ("v1",), "services", namespaced=True),
    ("v1", "ConfigMap"): resources.Resource("", ("v1",), "configmaps", namespaced=True),
    ("v1", "Secret"): resources.Resource("", ("v1",), "secrets", namespaced=True),
    ("v1", "PersistentVolumeClaim"): resources.Resource("", ("v1",), "persistentvolumeclaims", namespaced=True),
    ("networking.k8s.io/v1", "NetworkPolicy"): resources.Resource(
        "networking.k8s.io", ("v1",), "networkpolicies", namespaced=True
    ),
    ("muster.dev/v1alpha1", "PodGroup"): resources.POD_GROUPS,
}


class Taken(Exception):
    """Another object has the name; the text names it."""


async def keep(api: client.Api, namespace: str, owner: str, wanted: model.Wanted, *, begun: bool) -> None:
    """Have the object as it is wanted; `owner` is the Job's uid. Taken when the name belongs to another.

    A Job that has `begun` is likely to have it, so that is asked first: after a start there may be ten thousand.
    """
    path = _path(namespace, wanted.api_version, wanted.kind, wanted.name)
    if begun and wanted.upkeep is model.Upkeep.UPDATE:
        with contextlib.suppress(errors.NotFound):
            await _update(api, path, owner, wanted)
            return
    body = _with_keys(namespace, wanted) if wanted.key_pair else wanted.body
    try:
        await api.request("POST", path.rpartition("/")[0], body=body)
    except errors.Conflict:
        if wanted.upkeep is model.Upkeep.UPDATE:
            await _update(api, path, owner, wanted)
        elif not wanted.key_pair:
            await _check(api, path, owner, wanted)


async def remove(api: client.Api, namespace: str, owner: str, unwanted: model.Removal) -> None:
    """Have no such object of the Job with this uid."""
    path = _path(namespace, unwanted.api_version, unwanted.kind, unwanted.name)
    try:
        found = await api.read(path)
        if owned_by(found, owner):
            await delete(api, path, found["metadata"]["uid"])
    except errors.NotFound:
        return


async def delete(api: client.Api, path: str, uid: str, *, background: bool = False) -> bool:
    """Delete the object with this uid; False when it is gone, or another has its name."""
    options: Body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
    if background:
        options["propagationPolicy"] = "Background"
    try:
        await api.request("DELETE", path, body=options)
    except (errors.NotFound, errors.Conflict):
        return False
    return True


async def tell(api: client.Api, kind: str, namespace: str, name: str, uid: str, event: model.JobEvent) -> None:
    """Log what has happened to this Job or CronJob, and write an Event of it, if it can be written."""
    about = {"apiVersion": model.API_VERSION, "kind": kind, "namespace": namespace, "name": name, "uid": uid}
    where = f"{kind} {namespace}/{name}"
    LOG.info("event", of=where, reason=event.reason, said=event.message)
    try:
        await writes.create_event(
            api, namespace, about, event.reason, event.message, "Warning" if event.warning else "Normal"
        )
    except errors.KubeError as error:
        LOG.warning("an Event could not be written", of=where, error=error)


def owned_by(found: Body, uid: str) -> bool:
    """Whether the object with this uid controls it."""
    owners = (found.get("metadata") or {}).get("ownerReferences") or []
    return any(owner.get("uid") == uid and owner.get("controller") for owner in owners)


async def _check(api: client.Api, path: str, owner: str, wanted: model.Wanted) -> None:
    """Taken when another object controls it, such as an earlier Job of the name: it goes with that one. What nobody
    controls was put there to be used."""
    found = await api.read(path)
    others = (found.get("metadata") or {}).get("ownerReferences") or []
    if any(one.get("controller") for one in others) and not owned_by(found, owner):
        raise Taken(f"there is a {wanted.kind} {wanted.name} that is not this Job's")


async def _update(api: client.Api, path: str, owner: str, wanted: model.Wanted) -> None:
    found = await api.read(path)
    if not owned_by(found, owner):
        raise Taken(f"there is a {wanted.kind} {wanted.name} that is not this Job's")
    patch = {key: _change(wanted.body[key], found.get(key)) for key in ("spec", "data") if key in wanted.body}
    patch = {key: change for key, change in patch.items() if change}
    if patch:
        patch["metadata"] = {"uid": found["metadata"]["uid"]}
        await api.request("PATCH", path, body=patch, content_type=client.MERGE_PATCH)


def _change(wanted: Mapping[str, Any], found: Any) -> Body:
    """The merge patch of the fields that differ. What the API server or others filled in stays, but for flat texts."""
    there = found if isinstance(found, dict) else {}
    change: Body = {key: value for key, value in wanted.items() if not _holds(there.get(key), value)}
    if there and all(isinstance(value, str) for value in [*wanted.values(), *there.values()]):
        change |= dict.fromkeys(there.keys() - wanted.keys())
    return change


def _holds(found: Any, wanted: Any) -> bool:
    """Whether `found` says all that `wanted` says."""
    if isinstance(wanted, Mapping):
        return isinstance(found, dict) and all(_holds(found.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, (list, tuple)):
        return (
            isinstance(found, list)
            and len(found) == len(wanted)
            and all(_holds(one, other) for one, other in zip(found, wanted, strict=True))
        )
    return bool(found == wanted)


def _with_keys(namespace: str, wanted: model.Wanted) -> Body:
    pair = ssh_keys.pair(secrets.token_bytes(32), f"{namespace}/{wanted.name}")
    made = {"id_rsa": pair.private, "id_rsa.pub": pair.public}
    data = {name: base64.b64encode(text.encode()).decode() for name, text in made.items()}
    return {**wanted.body, "data": {**wanted.body.get("data", {}), **data}}


def _path(namespace: str, api_version: str, kind: str, name: str) -> str:
    resource = _KINDS[api_version, kind]
    return resources.Served(resource, resource.versions[0]).path(namespace, name)
