"""What controllers make of the objects that people write: pods with the marks of their kind, and pod groups.

Takes objects as manifests hold them, gives pods and groups as the API server would hold them, for our scheduler; must
not read them (that is `manifests`). Operators are as installed by default; those that gather pods into groups only when
they are told to are told so by the object: Ray's by its labels, Spark's by `batchScheduler`, Kubeflow's by
`schedulingPolicy`, Trainer's by the runtime's `podGroupPolicy`. Each step of a workflow counts once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import yaml

from extender.core.ids import SCHEDULER_NAME, Source
from extender.sim import gathering, spark
from extender.sim.api import Json
from extender.sim.gathering import Gang, api_group, mapping, meta_of, name_of, namespace_of
from extender.wire import kinds, marks, user_kinds
from extender.wire.fields import Object, Reader
from extender.wire.suspensions import words_of, written

_TRAINER = "trainer.kubeflow.org"
_PLACEHOLDER = re.compile(r"\{\{[^{}]*\}\}")
_SOURCES = {
    ("scheduling.k8s.io", "PodGroup"): Source.NATIVE,
    ("scheduling.x-k8s.io", "PodGroup"): Source.SCHEDULER_PLUGINS,
    ("scheduling.volcano.sh", "PodGroup"): Source.VOLCANO,
    ("muster.dev", "PodGroup"): Source.MUSTER,
}


@dataclass(slots=True)
class Made:
    """Pods, groups with their sources, makers of pods, and what was wrong with the objects that they come of."""

    pods: list[Json] = field(default_factory=list)
    groups: list[tuple[Source, Json]] = field(default_factory=list)
    #: objects whose pods start together, with their kinds
    makers: list[tuple[kinds.Kind, Json]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    #: kinds that a ConfigMap among them, or among what is known, adds
    added: tuple[kinds.Kind, ...] = ()


def make(objects: Iterable[object], known: Iterable[object] = ()) -> Made:
    """All that comes of these objects. `known` are others in the cluster: runtimes, priority classes, added kinds."""
    every: list[Object] = [one for one in objects if isinstance(one, dict)]
    maker = _Maker(every, [*every, *(one for one in known if isinstance(one, dict))])
    for one in every:
        maker.take(one)
    return maker.made


class _Maker:
    """Makes what comes of one set of objects."""

    def __init__(self, every: list[Object], known: list[Object]) -> None:
        self.made = Made()
        self._named = {kinds.find(one, "spec.runtimeRef.name") for one in every if one.get("kind") == "TrainJob"}
        self._runtimes: dict[str, Object] = {}
        self._priorities: dict[str, int] = {}
        for one in known:
            if str(one.get("kind")).endswith("TrainingRuntime"):
                self._runtimes.setdefault(name_of(one), one)
            elif one.get("kind") == "PriorityClass" and isinstance(one.get("value"), int):
                self._priorities.setdefault(name_of(one), one["value"])
            elif one.get("kind") == "ConfigMap" and name_of(one) == user_kinds.USER_KINDS:
                self.made.added, _ = user_kinds.decode_kinds(one)

    def take(self, obj: Object) -> None:
        """Make what comes of one object."""
        reader = Reader()
        if obj.get("kind") is None and isinstance(kinds.find(obj, "spec.containers"), list):
            obj = {**obj, "apiVersion": "v1", "kind": "Pod"}  # as guides show them
        obj = {**obj, "metadata": _identity(obj)}
        source = _SOURCES.get((api_group(obj), str(obj.get("kind"))))
        if source is not None:
            self.made.groups.append((source, dict(obj)))
        elif api_group(obj) == _TRAINER:
            self._train(reader, obj)
        elif (kind := kinds.kind_of(obj, self.made.added)) is not None:
            self._make(reader, obj, kind)
            for held in (*kinds.held_objects(reader, obj, kind), *_submitted(reader, obj)):
                self.take(held)
        elif obj.get("kind") == "ConfigMap" and name_of(obj) == user_kinds.USER_KINDS:
            reader.problems += user_kinds.decode_kinds(obj)[1]
        self.made.problems += [f"{obj.get('kind')} {name_of(obj)}: {text}" for text in reader.problems]

    def _make(self, reader: Reader, obj: Object, kind: kinds.Kind) -> None:
        parts = [part for part in _with_templates(reader, obj, kinds.parts_of(reader, obj, kind)) if part.number]
        if kind.together is not None:
            self.made.makers.append((kind, dict(obj)))
        gang = gathering.gang_of(reader, obj, kind, parts)
        if gang is not None:
            self.made.groups.append((gang.source, gang.obj))
        size = sum(part.number for part in parts)
        copies = kinds.whole_number(reader, obj, kind.copies) if kind.copies else 1
        for copy in range(copies or 0):
            members = ((part, index) for part in parts for index in range(part.number))
            for order, (part, index) in enumerate(members):
                self._pod(obj, kind, part, words_of(part, index, order, copy, size), gang)

    def _pod(
        self, obj: Object, kind: kinds.Kind, part: kinds.Part, words: Mapping[str, str], gang: Gang | None
    ) -> None:
        meta = mapping(part.template, "metadata")
        spec = {**mapping(part.template, "spec"), "schedulerName": SCHEDULER_NAME}
        name, uid, space = name_of(obj), str(meta_of(obj)["uid"]), namespace_of(obj)
        words = {**words, "name": name, "uid": uid, "namespace": space}
        labels = {**_texts(meta.get("labels")), **written(kind.labels, words)}
        if kinds.find(obj, "spec.completionMode") == "Indexed":
            labels["batch.kubernetes.io/job-completion-index"] = words["index"]
        notes = {**_texts(meta.get("annotations")), **written(kind.notes, words)}
        if gang is not None:
            labels |= gang.labels
            notes |= dict(gang.notes) | ({marks.VOLCANO_TASK_ANNOTATION: str(part.role)} if gang.tasks else {})
        made: Json = {"name": name, "uid": uid}
        if kind.name != "Pod":
            own = "-".join((name, words["copy"], part.role or "pod", words["index"]))
            owner = {**_controller(obj, kind), "controller": True}
            made = {"name": own, "uid": f"uid-of-{kind.name}-{own}", "ownerReferences": [owner]}
        made |= {"namespace": space, "labels": labels, "annotations": notes}
        spec["priority"] = self._priorities.get(str(spec.get("priorityClassName")), 0)
        self.made.pods.append({"metadata": made, "spec": _defaulted(spec), "status": {"phase": "Pending"}})

    def _train(self, reader: Reader, obj: Object) -> None:
        """A TrainJob becomes a JobSet of its runtime; a runtime that no TrainJob here names, one as it stands."""
        runtime: Object | None = obj
        if obj.get("kind") == "TrainJob":
            named = kinds.find(obj, "spec.runtimeRef.name")
            runtime = self._runtimes.get(str(named))
            if runtime is None:
                reader.say("spec.runtimeRef", f"there is no runtime {named}")
        elif name_of(obj) in self._named:
            runtime = None
        if runtime is not None:
            for made in gathering.of_train_job(reader, obj, runtime):
                self.take(made)


def _identity(obj: Object) -> Json:
    """Metadata with the name, the namespace and the uid that an object gets when it is created."""
    meta = dict(mapping(obj, "metadata"))
    name = meta.get("name") or f"{meta.get('generateName') or 'unnamed-'}x"
    kind = str(obj.get("kind"))
    return meta | {"name": str(name), "namespace": meta.get("namespace") or "default", "uid": f"uid-of-{kind}-{name}"}


def _controller(obj: Object, kind: kinds.Kind) -> Json:
    """What controls the pods: the object, or what its controller makes of it."""
    name, uid = name_of(obj), str(meta_of(obj)["uid"])
    own = (kind.group, kind.name)
    controllers = kind.together.controllers if kind.together is not None else ()
    if not controllers or own in controllers:
        return {"apiVersion": obj["apiVersion"], "kind": kind.name, "name": name, "uid": uid}
    group, made = controllers[0]
    return {"apiVersion": f"{group}/v1", "kind": made, "name": f"{name}-x", "uid": f"{uid}-x"}


def _texts(values: object) -> dict[str, str]:
    """Labels or annotations; what is no text the API server would refuse."""
    return (
        {str(key): value for key, value in values.items() if isinstance(value, str)} if isinstance(values, dict) else {}
    )


def _with_templates(reader: Reader, obj: Object, parts: Sequence[kinds.Part]) -> Iterator[kinds.Part]:
    """The parts with pod templates, also of kinds that write them out of other fields."""
    for part in parts:
        if api_group(obj) == "sparkoperator.k8s.io":
            yield replace(part, template=spark.template(reader, obj, part.template))
        elif api_group(obj) != "argoproj.io":
            yield part
        elif any(key in part.template for key in ("container", "script", "containerSet")):
            yield replace(part, template=_step(part.template))


def _step(template: Object) -> Json:
    """The pod of a step of a workflow, without what the workflow's own executor asks for."""
    inside = mapping(template, "containerSet").get("containers")
    containers = inside if isinstance(inside, list) else [template.get("container") or template.get("script")]
    chosen = {
        key: template[key]
        for key in ("nodeSelector", "tolerations", "affinity", "priorityClassName")
        if key in template
    }
    more = {"initContainers": template["initContainers"]} if "initContainers" in template else {}
    return {"metadata": template.get("metadata"), "spec": {"containers": containers, **chosen, **more}}


def _submitted(reader: Reader, obj: Object) -> Iterator[Object]:
    """The objects whose text stands in the steps of a workflow."""
    if api_group(obj) != "argoproj.io" or obj.get("kind") != "Workflow":
        return
    for template in reader.objects(mapping(obj, "spec"), "templates", "spec.templates"):
        text = mapping(template, "resource").get("manifest")
        if isinstance(text, str):
            try:
                found = yaml.safe_load(_PLACEHOLDER.sub("x", text))
            except (yaml.YAMLError, RecursionError):
                reader.say("spec.templates.resource.manifest", "is not YAML")
                continue
            if isinstance(found, dict):
                yield {**found, "metadata": {"namespace": namespace_of(obj), **mapping(found, "metadata")}}


def _defaulted(spec: Json) -> Json:
    """The spec with what the API server adds: requests where only limits are stated, and amounts as texts."""
    for key in ("containers", "initContainers"):
        found = spec.get(key)
        if isinstance(found, list):
            spec[key] = [_container(one) if isinstance(one, dict) else one for one in found]
    if isinstance(spec.get("overhead"), dict):
        spec["overhead"] = _amounts(spec["overhead"])
    return _container(spec) if isinstance(spec.get("resources"), dict) else spec


def _container(container: Json) -> Json:
    resources = mapping(container, "resources")
    limits = _amounts(mapping(resources, "limits"))
    requests = limits | _amounts(mapping(resources, "requests"))
    return {**container, "resources": {**resources, "limits": limits, "requests": requests}}


def _amounts(values: Object) -> Json:
    return {key: str(value) if isinstance(value, int | float) else value for key, value in values.items()}
