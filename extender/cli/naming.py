"""Which group or pod a name on the command line means, and all that is known of it.

Takes `train`, `pod/web-0`, `native:train`, `pytorchjob/train`, gives one Subject; must not choose between two groups of
one name.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from extender.cli import problems, stated
from extender.cli.cluster import Cluster, each
from extender.cli.problems import Problem
from extender.core.ids import Source
from extender.core.makers import MARK, Makers, RecognitionsSeen
from extender.core.model import Pod
from extender.kube import resources
from extender.kube.feeds import GROUP_RESOURCES
from extender.wire import answers, objects
from extender.wire.fields import Reader, metadata, seconds_of
from extender.wire.kinds import KINDS
from extender.wire.makers import recognitions_of

Object = dict[str, Any]
#: other words for the kinds, as kubectl takes them
_WORDS: dict[str, Source] = {source.value: source for source in Source} | {
    "po": Source.POD,
    "pods": Source.POD,
    "mpg": Source.MUSTER,
    "podgroup": Source.MUSTER,
    "podgroups": Source.MUSTER,
    **{resource.label: source for source, resource in GROUP_RESOURCES.items()},
}
_MAKERS = tuple(kind for kind in KINDS if kind.together is not None)
#: kinds of objects that make pods, as kubectl takes them: a group is named after its maker
_MAKER_WORDS = {
    word: kind.word
    for kind in _MAKERS
    if kind.together is not None
    for word in (kind.word, kind.together.plural, f"{kind.together.plural}.{kind.group}")
}


class Missing(Problem):
    """There is nothing of that name."""


@dataclass(slots=True)
class Subject:
    """One group, or a pod alone. `status` is as the live answers have it, and `live` when it is one."""

    source: Source
    namespace: str
    name: str
    status: Object
    live: bool
    #: of the group's object, or of the pod
    evicted: Object | None = None
    #: the member that was asked about
    pod: Pod | None = None
    pod_evicted: Object | None = None
    #: names of the objects that Events may be about
    named: set[tuple[str, str]] = field(default_factory=set)

    @property
    def gone(self) -> bool:
        """True when it is not there any more, and only its eviction is remembered."""
        return self.status.get("phase") == answers.GONE

    @property
    def title(self) -> str:
        """The name that tells it from others."""
        return answers.name_of(self.source, self.name)


def parse(text: str) -> tuple[Source | None, str]:
    """Kind and name; None where no kind is said."""
    for mark in ("/", ":"):
        word, found, name = text.partition(mark)
        if found:
            source = _WORDS.get(word.lower())
            maker = _MAKER_WORDS.get(word.lower())
            if maker is not None and name:
                return Source.OWNER, f"{maker}{MARK}{name}"
            if source is None or not name:
                known = ", ".join([*(source.value for source in Source), *(kind.word for kind in _MAKERS)])
                raise Problem(f"{text!r} names no group", f"kinds are {known}: as in pod/web-0", problems.UNUSABLE)
            return source, name
    return None, text


async def find(cluster: Cluster, namespace: str, text: str) -> Subject:
    """The group or pod of this name; a Problem when there is none, or more than one."""
    source, name = parse(text)
    sources = [source] if source is not None else list(Source)
    looked = await asyncio.gather(*(_look(cluster, namespace, one, name) for one in sources))
    there = [one for one in looked if one is not None]
    there = [one for one in there if not one.gone] or there
    found = {one.title: one for one in reversed(there)}  # a pod may bear the name of its group
    if not found and source is None:
        made = [await _group(cluster, namespace, Source.OWNER, f"{kind.word}{MARK}{name}") for kind in _MAKERS]
        found = {one.title: one for one in made if one is not None}
    if not found and source is None:
        found = {one.title: one for one in await _of_owner(cluster, namespace, name)}
    if not found:
        raise await _missing(cluster, namespace, text)
    if len(found) > 1:
        titles = ", ".join(sorted(found))
        raise Problem(f'"{name}" names several in namespace {namespace}: {titles}', "say which one", problems.UNUSABLE)
    return next(iter(found.values()))


async def _missing(cluster: Cluster, namespace: str, text: str) -> Problem:
    if not await cluster.installed():
        return Problem(problems.NOT_INSTALLED, problems.INSTALL)
    what = f'no group or pod "{text}" in namespace {namespace}, nor Events about one that is gone'
    return Missing(what, "`kubectl muster gangs -A` lists groups")


async def _look(cluster: Cluster, namespace: str, source: Source, name: str) -> Subject | None:
    if source is Source.POD:
        return await _pod(cluster, namespace, name)
    return await _group(cluster, namespace, source, name)


async def _group(cluster: Cluster, namespace: str, source: Source, name: str) -> Subject | None:
    content, live = await asyncio.gather(
        _object(cluster, namespace, source, name),
        cluster.workload(namespace, answers.name_of(source, name)),
    )
    if content is None and live is None:
        return None
    told = _status(live) or stated.of_group(source, content or {})
    written = None if content is None else stated.evicted_group(source, content)
    evicted = _newest(told, written)
    return Subject(source, namespace, name, told, live is not None, evicted, named={("PodGroup", name)})


async def _of_owner(cluster: Cluster, namespace: str, owner: str) -> list[Subject]:
    """Groups whose objects are an owner's of this name: controllers name those of a Volcano Job after its uid too."""
    found = []
    for source in (Source.MUSTER, Source.VOLCANO):
        try:
            contents = await cluster.every(GROUP_RESOURCES[source], namespace)
        except Problem:  # who may not list groups is told that there is none of that name
            continue
        names = each(functools.partial(_name_if_owned, owner), contents)
        looked = [await _group(cluster, namespace, source, name) for name in names if name]
        found += [one for one in looked if one is not None]
    return found


def _name_if_owned(owner: str, content: Object) -> str:
    """The object's name, if it is an owner's of that name; else an empty text."""
    meta = metadata(content, "name")
    owners = Reader().objects(meta, "ownerReferences", "metadata.ownerReferences")
    return str(meta["name"]) if any(one.get("name") == owner for one in owners) else ""


async def _object(cluster: Cluster, namespace: str, source: Source, name: str) -> Object | None:
    """The group's object; None also where its source has none."""
    resource = GROUP_RESOURCES.get(source)
    return None if resource is None else await cluster.get(resource, namespace, name)


async def _pod(cluster: Cluster, namespace: str, name: str) -> Subject | None:
    """A pod alone, or the group that it belongs to; of one that was evicted and is gone what the extender remembers."""
    content = await cluster.get(resources.PODS, namespace, name)
    title = answers.name_of(Source.POD, name)
    if content is None:
        told = _status(await cluster.workload(namespace, title))
        named = {("Pod", name)}
        return Subject(Source.POD, namespace, name, told, True, _newest(told, None), named=named) if told else None
    pod = objects.decode_pod(content)
    if not pod.ours:
        mend = f"{pod.scheduler} schedules it: `kubectl describe pod {name}`; ours have schedulerName muster"
        raise Problem(f'pod "{name}" in namespace {namespace} is none of Muster\'s', mend)
    evicted = stated.evicted_pod(pod)
    if not pod.group.lone:
        subject = await _group(cluster, namespace, pod.group.source, pod.group.name)
        if subject is None:  # its mark names what does not exist, and nothing is answered
            subject = Subject(pod.group.source, namespace, pod.group.name, stated.of_pod(pod), False)
        subject.pod, subject.pod_evicted = pod, evicted
        subject.named.add(("Pod", name))
        return subject
    live = await cluster.workload(namespace, title)
    for group in _of_maker(pod) if live is None else ():
        if (made := await _group(cluster, namespace, Source.OWNER, group)) is not None:
            made.pod, made.pod_evicted = pod, evicted
            made.named.add(("Pod", name))
            return made
    told = _status(live) or stated.of_pod(pod)
    newest = evicted or _newest(told, None)
    return Subject(Source.POD, namespace, name, told, live is not None, newest, named={("Pod", name)})


def _newest(told: Object, written: Object | None) -> Object | None:
    """The newest eviction, of those that the live answer has and the one that stands in the object."""
    found = [*evictions(told), *([] if written is None else [written])]
    newest = max(found, key=lambda one: seconds_of(one["at"]) or 0.0, default=None)
    return None if newest is None else {name: newest[name] for name in ("rule", "at", "message")}


def evictions(told: Object) -> list[Object]:
    """Those that a live answer has, the oldest first."""
    found = told.get("evictions")
    items = found if isinstance(found, list) else []
    return [{"rule": "", "at": "", "message": ""} | one for one in items if isinstance(one, dict)]


def _of_maker(pod: Pod) -> Iterator[str]:
    """Names of the groups in which a pod may be by what made it: of the whole, of its role, of its copy."""
    makers = Makers()
    makers.hear(RecognitionsSeen(recognitions_of(KINDS)))
    key = makers.place(pod).group
    if key.lone:
        return
    copies = {kind.together.copy_by for kind in _MAKERS if kind.together is not None}
    yield key.name
    for more in (str(pod.task), *(value for label, value in pod.labels if label in copies)):
        if more:
            yield f"{key.name}{MARK}{more}"


def _status(live: Object | None) -> Object:
    found = live.get("status") if live is not None else None
    return found if isinstance(found, dict) else {}
