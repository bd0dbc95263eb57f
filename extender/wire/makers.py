"""The objects that make pods as the core wants them: which of their pods start together, and how many it takes.

Takes decoded JSON of an object and the row of its kind, gives a Maker; must not raise for an object that has a name and
a uid: what is wrong with it stands in the problems of its groups. Of the object nothing else is kept; of
one that waits suspended also the pods that it would make (`suspensions`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from extender.core.ids import GroupKey, QueueName, Source, TaskName
from extender.core.makers import MARK, Gang, Maker, MakerKey, Recognition
from extender.core.model import Group
from extender.wire import marks
from extender.wire.fields import Object, Reader, metadata
from extender.wire.kinds import Kind, Part, Together, find, holds, parts_of, whole_number
from extender.wire.suspensions import by_suspension, suspension_of


def recognition_of(kind: Kind) -> Recognition | None:
    """How pods of objects of this kind are known; None for a kind whose pods stand alone."""
    together = kind.together
    if together is None:
        return None
    controllers = together.controllers or ((kind.group, kind.name),)
    return Recognition(kind.word, controllers, together.named_by, copy=together.copy_by)


def recognitions_of(kinds: Iterable[Kind]) -> tuple[Recognition, ...]:
    """The same of many; a label tells more than who the controller is, so kinds with one come first."""
    found = [one for kind in kinds if (one := recognition_of(kind)) is not None]
    return tuple(sorted(found, key=lambda one: not one.label))


def key_of(kind: Kind, namespace: str, name: str) -> MakerKey:
    """Identity of an object of this kind."""
    return MakerKey(kind.word, namespace, name)


def decode_maker(kind: Kind, obj: object) -> Maker:
    """What an object of a kind with `together` says of its pods; DecodeError when it has no name or uid."""
    meta = metadata(obj, "name", "uid")
    assert isinstance(obj, dict)
    assert kind.together is not None
    reader = Reader()
    namespace = reader.text(meta, "namespace", "metadata.namespace") or "default"
    parts = [part for part in parts_of(reader, obj, kind) if part.number]
    gangs = _gangs(reader, obj, kind, kind.together, parts)
    if by_suspension(obj):  # then it is one thing that waits, however its pods start at other times
        gangs = [replace(gang, loose=False) for gang in gangs] or [_gang((), True, None)]
    first = next(iter(gangs), None)
    suspension = suspension_of(reader, obj, kind, [part for part in parts if first is None or _is_in(part, first)])
    group = Group(
        key=GroupKey(Source.OWNER, namespace, meta["name"]),
        uid=meta["uid"],
        min_member=1,
        queue=_queue(reader, obj, kind, meta),
        created=reader.time(meta, "creationTimestamp", "metadata.creationTimestamp") or 0.0,
        generation=reader.integer(meta, "generation", "metadata.generation") or 0,
        done=_done(obj, kind.together.done),
        problems=tuple(reader.problems),
        switch=None if suspension is None or suspension.waits else suspension.switch,
    )
    made = tuple(
        replace(gang, group=replace(group, min_member=gang.group.min_member, tasks=gang.group.tasks)) for gang in gangs
    )
    return Maker(key_of(kind, namespace, meta["name"]), meta["uid"], made, bool(kind.copies), suspension)


def _gangs(reader: Reader, obj: Object, kind: Kind, together: Together, parts: Sequence[Part]) -> list[Gang]:
    """The gangs of the object, with groups of which only the minimums count."""
    alone = {role for role, test in together.apart if holds(obj, test)}
    elastic = not together.elastic or holds(obj, together.elastic)
    if "" in alone:
        return [_gang(parts, elastic, None, loose=True)]
    inside = [part for part in parts if str(part.role) not in alone]
    if any(holds(obj, test) for test in together.in_turn):
        return [
            replace(_gang([part], elastic, None), name=str(part.role).replace(MARK, "-"), tasks=(_task(part),))
            for part in inside
        ]
    stated = whole_number(reader, obj, kind.minimum, None) if kind.minimum else None
    gang = _gang(inside, elastic, stated)
    return [replace(gang, tasks=tuple(_task(part) for part in inside))] if alone else [gang]


def _gang(parts: Sequence[Part], elastic: bool, stated: int | None, *, loose: bool = False) -> Gang:
    least: dict[TaskName, int] = {}
    for part in parts:
        own = part.number if part.minimum is None or not elastic else part.minimum * part.inner
        least[_task(part)] = least.get(_task(part), 0) + own
    tasks = tuple((task, number) for task, number in least.items() if number) if len(least) > 1 else ()
    total = max(1, sum(least.values()))
    pods = sum(part.number for part in parts)
    if stated:  # of which roles these are it does not say
        total, tasks = min(stated, max(1, pods)), ()
    return Gang(Group(GroupKey(Source.OWNER, "", ""), "", total, tasks), loose=loose or pods == 1)


def _is_in(part: Part, gang: Gang) -> bool:
    return not gang.tasks or _task(part) in gang.tasks


def _task(part: Part) -> TaskName:
    """The task that pods of this part say they belong to: marks in the template come before what controllers write."""
    meta = find(part.template, "metadata")
    labels, notes = (find(meta, key) if isinstance(meta, dict) else None for key in ("labels", "annotations"))
    for parent, key in ((labels, marks.TASK_LABEL), (notes, marks.VOLCANO_TASK_ANNOTATION)):
        named = parent.get(key) if isinstance(parent, dict) else None
        if isinstance(named, str):
            return TaskName(named)
    return part.role


def _done(obj: Object, path: str) -> int:
    """What a status says, which is no fault of the object's writer: a number, or nothing."""
    value = find(obj, path) if path else None
    return min(value, marks.MAX_MEMBERS) if type(value) is int and value > 0 else 0


def _queue(reader: Reader, obj: Object, kind: Kind, meta: Object) -> QueueName | None:
    named = find(obj, kind.queue) if kind.queue else None
    if isinstance(named, str) and named:
        return QueueName(named)
    return marks.queue_of(reader, reader.mapping(meta, "labels", "metadata.labels"))
