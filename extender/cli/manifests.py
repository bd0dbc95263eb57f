"""Pods and pod groups in manifests: what would be created of a file.

Takes YAML, gives templates with their numbers and group objects. Kinds whose pods start together are read by the table
(`wire.kinds`); of others it must not know each: wherever a `template` holds containers it makes pods, as many as stand
beside it (`replicas`, `parallelism`) times those above. What controllers add to their pods later is not known here, but
for the name of the role.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from extender.cli.problems import UNUSABLE, Problem
from extender.wire import kinds
from extender.wire.fields import Reader
from extender.wire.marks import TASK_LABEL
from extender.wire.plans import MAX_PODS, source_of

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Template:
    """So many pods alike; `namespace` is None where the file names none."""

    name: str
    namespace: str | None
    pod: Object
    count: int
    #: the object that makes them, and may say that they start together
    maker: Object | None = None


def read(path: str) -> list[Object]:
    """The objects of a file, `-` for standard input."""
    try:
        if path == "-":
            text = sys.stdin.read()
        else:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        documents = [one for one in yaml.safe_load_all(text) if one is not None]
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(f"{path} cannot be read: {error}", status=UNUSABLE) from error
    except yaml.YAMLError as error:
        raise Problem(f"{path} is not YAML: {' '.join(str(error).split())}", status=UNUSABLE) from error
    return [item for one in documents for item in _items(one)]


def templates(path: str, found: list[Object]) -> tuple[list[Template], list[Object]]:
    """The templates and the PodGroups of a file with these objects."""
    groups = [one for one in found if source_of(one) is not None]
    made = [template for one in found if source_of(one) is None for template in _templates(one)]
    if not made:
        raise Problem(f"{path} makes no pods", "give a Pod, or what has a template of pods, or queues", UNUSABLE)
    return made, groups


def _items(document: object) -> Iterator[Object]:
    if not isinstance(document, dict):
        return
    items = document.get("items")
    if str(document.get("kind", "")).endswith("List") and isinstance(items, list):
        for one in items:
            yield from _items(one)
    else:
        yield document


def _templates(content: Object) -> Iterator[Template]:
    meta = content.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    name, namespace = str(meta.get("name") or meta.get("generateName") or "pod"), meta.get("namespace")
    where = namespace if isinstance(namespace, str) else None
    if content.get("kind") == "Pod":
        yield Template(name, where, content, 1)
        return
    made = list(_by_table(content, name, where))
    if made:
        yield from made
        return
    for pod, count in _inside(content, 1):
        if count:
            yield Template(name, where, pod, count)


def _by_table(content: Object, name: str, where: str | None) -> Iterator[Template]:
    """The pods of a kind whose pods start together, of one whole of it, or of what it makes of such a kind."""
    kind, reader = kinds.kind_of(content), Reader()
    if kind is None:
        return
    if kind.together is None:
        for held in kinds.held_objects(reader, content, kind):
            inner = kinds.kind_of(held)
            if inner is not None and inner.together is not None:
                yield from _by_table(dict(held), name, where)
        return
    for part in kinds.parts_of(reader, content, kind):
        spec = part.template.get("spec")
        if part.number and isinstance(spec, dict) and isinstance(spec.get("containers"), list):
            yield Template(name, where, _of_role(part), part.number, content)


def _of_role(part: kinds.Part) -> Object:
    """The template, with its role where it names none: the label stands for what the controller writes."""
    pod = dict(part.template)
    meta = dict(pod["metadata"]) if isinstance(pod.get("metadata"), dict) else {}
    labels = meta.get("labels")
    if part.role:
        meta["labels"] = {TASK_LABEL: str(part.role), **(labels if isinstance(labels, dict) else {})}
    return pod | {"metadata": meta}


def _inside(content: object, times: int) -> Iterator[tuple[Object, int]]:
    """Templates of pods anywhere in an object, with their numbers."""
    if isinstance(content, list):
        for one in content:
            yield from _inside(one, times)
    if not isinstance(content, dict):
        return
    template = content.get("template")
    if isinstance(template, dict):
        count = min(times * _count(content), MAX_PODS + 1)
        spec = template.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
            yield template, count
        else:
            yield from _inside(template, count)
    for name, one in content.items():
        if name not in ("template", "metadata", "status"):
            yield from _inside(one, times)


def _count(content: Mapping[str, Any]) -> int:
    """How many of its template an object makes at the same time."""
    found = [content[name] for name in ("replicas", "parallelism", "completions") if type(content.get(name)) is int]
    return max(0, min(found, default=1))
