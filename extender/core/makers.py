"""Which group a pod without a mark of its own is in: the objects that make pods say who must start together.

Takes what the watches show, and the objects that make pods (makers: a JobSet, a PyTorchJob, a Job); gives the same
news with each such pod in the group that its maker names, and those groups. Must not decide, nor read an object: `wire`
says which kinds there are and what an object of them wants.

    pod ──its controller, and labels of that──> maker ──the pod's task, and copy──> group, or alone

What is given follows from what was shown last, in whatever order it came: a pod is told again when its group changes.
A pod is in one group only: one with a mark of its own is passed on as it is. While a maker is not known its pods are in
a group without an object, which waits; so the first member of a gang is never taken for a pod alone. Only where makers
of a kind may not be read do their pods stand alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from extender.core import messages
from extender.core.ids import GroupKey, PodUid, Source, TaskName
from extender.core.model import Group, Owner, Pod
from extender.core.switches import Switch

#: between the parts of a group's name; no name of an object, a role or a label's value has it
MARK = ":"


class MakerKey(NamedTuple):
    """Identity of an object that makes pods; `kind` is the word of its `Recognition`."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Recognition:
    """How pods of one kind of makers are known."""

    #: a word for the kind, different for each
    word: str
    #: API group and kind of the controllers of its pods: the maker itself, or what it makes in its turn
    controllers: tuple[tuple[str, str], ...]
    #: label of the pod that names the maker; "": its controller is the maker
    label: str = ""
    #: label that says to which of several wholes the pod belongs, each a group of its own
    copy: str = ""


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods of a maker that start together. `group` has what they need; whatever its key is."""

    group: Group
    #: "" where the maker has one gang
    name: str = ""
    #: roles whose pods are in it; () for all
    tasks: tuple[TaskName, ...] = ()
    #: its pods stand alone, but for those whose annotations want company: a minimum, or a domain to share
    loose: bool = False


@dataclass(frozen=True, slots=True)
class Suspension:
    """What a maker says that is queued by suspension. `pods` are those that it will make first, which are one gang."""

    switch: Switch
    #: it waits in its queue: it is suspended, and nobody but the queue holds it
    waits: bool
    pods: tuple[Pod, ...] = ()
    #: names of their priority classes, "" for none
    classes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Maker:
    """An object that makes pods. Pods of a role that no gang has stand alone."""

    key: MakerKey
    uid: str
    gangs: tuple[Gang, ...]
    #: pods of different copies are in different groups
    copies: bool = False
    #: where it is queued by suspension
    suspension: Suspension | None = None


# --- what is told here beside what the watches show of the world ------------------------------------


@dataclass(frozen=True, slots=True)
class RecognitionsSeen:
    """All kinds of makers that there are from now on."""

    recognitions: tuple[Recognition, ...]


@dataclass(frozen=True, slots=True)
class KindRead:
    """Whether makers of a kind, by its word, may be read; as long as nothing is said, they may."""

    word: str
    readable: bool


@dataclass(frozen=True, slots=True)
class MakerSeen:
    """A maker was added or changed."""

    maker: Maker


@dataclass(frozen=True, slots=True)
class MakerGone:
    """A maker was deleted."""

    key: MakerKey


class _Found(NamedTuple):
    """The maker of a pod, as far as the pod says it. `uid` is "" where the pod does not say that."""

    key: MakerKey
    uid: str
    copy: str


class Makers:
    """All makers and the pods without marks that have a controller. `hear` is the only door."""

    def __init__(self) -> None:
        #: by the controllers of their pods
        self._recognitions: dict[tuple[str, str], list[Recognition]] = {}
        self._words: set[str] = set()
        self._makers: dict[MakerKey, Maker] = {}
        self._unread: set[str] = set()
        #: pods as their marks say it
        self._pods: dict[PodUid, Pod] = {}
        #: where each of these was told to be
        self._homes: dict[PodUid, GroupKey] = {}
        self._found: dict[PodUid, MakerKey] = {}
        self._made: dict[MakerKey, dict[PodUid, None]] = {}
        #: groups that were told, by their makers
        self._told: dict[MakerKey, dict[GroupKey, Group]] = {}

    def hear(self, event: Any) -> list[Any]:
        """What this event means for those who know nothing of makers; most are passed on as they are."""
        handler: Callable[[Makers, Any], list[Any]] | None = self._HANDLERS.get(type(event))
        return [event] if handler is None else handler(self, event)

    def place(self, pod: Pod) -> Pod:
        """The pod, in the group that it is in."""
        return pod if not _may_be_made(pod) else self._in(pod, self._home(pod, self._find(pod)))

    def introduce(self, key: GroupKey) -> list[Any]:
        """The group of a maker, if it has not been told: somebody is to be in it that is no pod yet."""
        return self._introduced(_Found(maker_key(key), "", ""), key)

    # --- pods -----------------------------------------------------------------------------------

    def _pod_seen(self, event: messages.PodSeen) -> list[Any]:
        pod = event.pod
        self._forget(pod.uid)
        if not _may_be_made(pod):
            return [event]
        self._pods[pod.uid] = pod
        found = self._find(pod)
        if found is not None:
            self._found[pod.uid] = found.key
            self._made.setdefault(found.key, {})[pod.uid] = None
        home = self._homes[pod.uid] = self._home(pod, found)
        return [*self._introduced(found, home), event if home == pod.group else messages.PodSeen(self._in(pod, home))]

    def _pod_gone(self, event: messages.PodGone) -> list[Any]:
        self._forget(event.uid)
        return [event]

    def _filter_called(self, event: messages.FilterCalled) -> list[Any]:
        pod = event.pod
        if not _may_be_made(pod):
            return [event]
        found = self._find(pod)
        home = self._home(pod, found)
        return [*self._introduced(found, home), replace(event, pod=self._in(pod, home))]

    def _forget(self, uid: PodUid) -> None:
        if self._pods.pop(uid, None) is None:
            return
        del self._homes[uid]
        key = self._found.pop(uid, None)
        if key is not None:
            del self._made[key][uid]
            if not self._made[key]:
                del self._made[key]

    def _find(self, pod: Pod) -> _Found | None:
        """Which maker the pod says it has."""
        owner = pod.owner
        assert owner is not None
        kinds = self._recognitions.get((owner.api, owner.kind))
        if kinds is None:
            return None
        labels = dict(pod.labels)
        return next((found for kind in kinds if (found := _recognised(kind, pod, owner, labels)) is not None), None)

    def _home(self, pod: Pod, found: _Found | None) -> GroupKey:
        if found is None or found.key.kind in self._unread:
            return pod.group
        maker = self._makers.get(found.key)
        if maker is None:
            return _named(found.key)
        if found.uid not in ("", maker.uid):  # of one that had the name before, or will have it
            return _named(found.key, found.uid)
        return joined(maker, pod, found.copy) or pod.group

    @staticmethod
    def _in(pod: Pod, home: GroupKey) -> Pod:
        return pod if home == pod.group else replace(pod, group=home)

    # --- groups ---------------------------------------------------------------------------------

    def _introduced(self, found: _Found | None, home: GroupKey) -> list[Any]:
        """The group, if it has not been told."""
        if found is None or home.source is not Source.OWNER or home in self._told.get(found.key, {}):
            return []
        group = group_of(self._makers.get(found.key), home)
        if group is None:
            return []
        self._told.setdefault(found.key, {})[home] = group
        return [messages.GroupSeen(group)]

    def _maker_seen(self, event: MakerSeen) -> list[Any]:
        maker = event.maker
        if maker.key.kind not in self._words or self._makers.get(maker.key) == maker:
            return []
        self._makers[maker.key] = maker
        return self._look_again([maker.key])

    def _maker_gone(self, event: MakerGone) -> list[Any]:
        return [] if self._makers.pop(event.key, None) is None else self._look_again([event.key])

    def _kind_read(self, event: KindRead) -> list[Any]:
        if event.readable is (event.word not in self._unread):
            return []
        self._unread ^= {event.word}
        return self._look_again([key for key in self._made if key.kind == event.word])

    def _recognitions_seen(self, event: RecognitionsSeen) -> list[Any]:
        self._recognitions.clear()
        for kind in event.recognitions:
            for controller in kind.controllers:
                self._recognitions.setdefault(controller, []).append(kind)
        self._words = {kind.word for kind in event.recognitions}
        for key in [key for key in self._makers if key.kind not in self._words]:
            del self._makers[key]
        news = [one for pod in list(self._pods.values()) for one in self._told_again(pod)]
        return [*news, *self._look_again(list(self._told))]

    def _told_again(self, pod: Pod) -> list[Any]:
        before = self._homes[pod.uid]
        news = self._pod_seen(messages.PodSeen(pod))
        return news if self._homes[pod.uid] != before else news[:-1]

    def _look_again(self, keys: Iterable[MakerKey]) -> list[Any]:
        """Of these makers: the groups as they are now, the pods that are in others now, the groups that are no more."""
        news: list[Any] = []
        for key in keys:
            gone: list[Any] = []
            for home, before in list(self._told.get(key, {}).items()):
                group = group_of(self._makers.get(key), home)
                if group is None:
                    del self._told[key][home]
                    gone.append(messages.GroupGone(home))
                elif group != before:
                    self._told[key][home] = group
                    news.append(messages.GroupSeen(group))
            for uid in list(self._made.get(key, ())):
                news += self._told_again(self._pods[uid])
            news += gone
            if not self._told.get(key, True):
                del self._told[key]
        return news

    _HANDLERS: ClassVar[dict[type, Callable[[Makers, Any], list[Any]]]] = {
        messages.PodSeen: _pod_seen,
        messages.PodGone: _pod_gone,
        messages.FilterCalled: _filter_called,
        RecognitionsSeen: _recognitions_seen,
        KindRead: _kind_read,
        MakerSeen: _maker_seen,
        MakerGone: _maker_gone,
    }


def joined(maker: Maker, pod: Pod, copy: str) -> GroupKey | None:
    """The group of the maker that a pod of it, and of this copy, is in; None when it stands alone."""
    gang = next((gang for gang in maker.gangs if not gang.tasks or pod.task in gang.tasks), None)
    if gang is None or (gang.loose and not _wants_company(pod)):
        return None
    return _named(maker.key, gang.name, copy if maker.copies else "")


def maker_key(key: GroupKey) -> MakerKey:
    """The maker that a group of source `owner` is of."""
    kind, _, rest = key.name.partition(MARK)
    return MakerKey(kind, key.namespace, rest.partition(MARK)[0])


def group_of(maker: Maker | None, key: GroupKey) -> Group | None:
    """The maker's group of this key; None where it has none."""
    if maker is None or maker_key(key) != maker.key:
        return None
    rest = key.name.split(MARK)[2:]
    for gang in maker.gangs:
        own = [gang.name] if gang.name else []
        if rest[: len(own)] == own and len(rest) == len(own) + maker.copies:
            return replace(gang.group, key=key)
    return None


def _named(key: MakerKey, *more: str) -> GroupKey:
    return GroupKey(Source.OWNER, key.namespace, MARK.join((key.kind, key.name, *filter(None, more))))


def _may_be_made(pod: Pod) -> bool:
    return pod.group.lone and pod.owner is not None


def _recognised(kind: Recognition, pod: Pod, owner: Owner, labels: dict[str, str]) -> _Found | None:
    if not kind.label:
        return _Found(MakerKey(kind.word, pod.namespace, owner.name), owner.uid, labels.get(kind.copy, ""))
    name = labels.get(kind.label, "")
    return _Found(MakerKey(kind.word, pod.namespace, name), "", labels.get(kind.copy, "")) if name else None


def _wants_company(pod: Pod) -> bool:
    return pod.declared.min_member is not None or bool(pod.parts) or pod.prefers is not None
