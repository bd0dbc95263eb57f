"""Makers that are queued by suspension: while they wait they have no pods, and planned ones stand for these.

Takes the same news as `makers`, gives them with the planned pods among the others; must not decide. For the engine a
planned pod is one of ours behind our gate: its group waits, is ordered, counted, explained and placed as all others
are, and nothing of that knows of suspension. Only two things differ: what leads kube-scheduler to a planned pod's
place is that its maker is let go (`leading`), and the pod that then comes has the place of the one that stood for it.
So there is no second queue, and no second account of room. The permit gate knows nothing of planned pods: it counts
pods that are.

    suspended, no pod left ──> planned ──let go──> each gone for a pod that came, or KEEP_SECONDS after the newest
          ^                       └──deleted, ended, held by hand──> gone                                    │
          └────────────── suspended anew, by the engine: its pods wait and none of them runs <───────────────┘

What is given follows from what was shown, in whatever order: pods may be shown before it is shown that their maker was
let go. A planned pod has a new uid each time that it is planned, for who is gone once does not come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from extender.core import messages
from extender.core.ids import GroupKey, PodUid, Source
from extender.core.makers import MARK, Maker, MakerGone, MakerKey, Makers, MakerSeen, Suspension, maker_key
from extender.core.model import Pod

#: so long room is kept for pods that are to come, after the newest of them came
KEEP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Passed:
    """Time passed: it is so late, in seconds since the epoch."""

    now: float


@dataclass(slots=True)
class _Planned:
    """The planned pods of one maker that are told, by the uids that they have in their maker."""

    pods: dict[PodUid, Pod] = field(default_factory=dict)
    #: since when its maker was let go and no pod came; None: since what comes next
    quiet_since: float | None = None


class Suspended:
    """Makers and pods as `Makers` has them, with planned pods. `hear` is the only door."""

    def __init__(self) -> None:
        self._inner = Makers()
        self._makers: dict[MakerKey, Maker] = {}
        self._planned: dict[MakerKey, _Planned] = {}
        #: so many pods were planned
        self._count = 0
        #: pods that have not ended, by their makers
        self._pods: dict[MakerKey, dict[PodUid, None]] = {}
        self._of: dict[PodUid, MakerKey] = {}
        #: values of priority classes
        self._classes: dict[str, int] = {}

    def place(self, pod: Pod) -> Pod:
        """The pod, in the group that it is in."""
        return self._inner.place(pod)

    def hear(self, event: Any) -> list[Any]:
        """What this event means for those who know nothing of makers."""
        handler: Callable[[Suspended, Any], list[Any]] | None = self._HANDLERS.get(type(event))
        return self._through(event) if handler is None else handler(self, event)

    # --- pods that are --------------------------------------------------------------------------

    def _through(self, event: Any) -> list[Any]:
        """What `Makers` makes of it, with word of who comes for whom."""
        return [said for one in self._inner.hear(event) for said in self._told(one)]

    def _told(self, one: Any) -> list[Any]:
        if isinstance(one, messages.PodSeen):
            return self._pod_told(one)
        if isinstance(one, messages.PodGone):
            return [one, *self._left(one.uid)]
        if isinstance(one, messages.FilterCalled) and one.pod.uid not in self._of:  # ahead of our watch
            come = self._pod_told(messages.PodSeen(one.pod))
            return [*come, one] if len(come) > 1 else [one]
        return [one]

    def _pod_told(self, event: messages.PodSeen) -> list[Any]:
        pod = event.pod
        key = maker_key(pod.group) if pod.group.source is Source.OWNER and not pod.ended else None
        if self._of.get(pod.uid) == key:
            return [event]
        left = self._left(pod.uid)
        if key is None:
            return [event, *left]
        self._of[pod.uid] = key
        self._pods.setdefault(key, {})[pod.uid] = None
        taken = self._taken(key, pod)
        come = [event] if taken is None else [replace(event, instead_of=taken), messages.PodGone(taken)]
        return [*come, *left]

    def _left(self, uid: PodUid) -> list[Any]:
        key = self._of.pop(uid, None)
        if key is None:
            return []
        del self._pods[key][uid]
        if self._pods[key]:
            return []
        del self._pods[key]
        return self._plan(key)

    def _taken(self, key: MakerKey, pod: Pod) -> PodUid | None:
        """Who of the planned pods stood for this one: of its task that with its number, else the first."""
        planned = self._planned.get(key)
        if planned is None or pod.terminating:
            return None
        alike = [uid for uid, one in planned.pods.items() if one.task == pod.task]
        if not alike:
            return None
        chosen = next((uid for uid in alike if planned.pods[uid].index == pod.index), alike[0])
        planned.quiet_since = None
        return planned.pods.pop(chosen).uid

    # --- makers ---------------------------------------------------------------------------------

    def _maker_seen(self, event: MakerSeen) -> list[Any]:
        key = event.maker.key
        if event.maker.suspension is None:
            self._makers.pop(key, None)
        else:
            self._makers[key] = event.maker
        news = self._through(event)
        return [*news, *self._plan(key)]

    def _maker_gone(self, event: MakerGone) -> list[Any]:
        self._makers.pop(event.key, None)
        return [*self._plan(event.key), *self._through(event)]

    def _class_seen(self, event: messages.PriorityClassSeen) -> list[Any]:
        self._classes[event.name] = event.value
        return [event, *self._of_class(event.name)]

    def _class_gone(self, event: messages.PriorityClassGone) -> list[Any]:
        self._classes.pop(event.name, None)
        return [event, *self._of_class(event.name)]

    def _of_class(self, name: str) -> list[Any]:
        keys = [
            key
            for key in self._planned
            if (maker := self._makers.get(key)) is not None and maker.suspension and name in maker.suspension.classes
        ]
        return [one for key in keys for one in self._plan(key)]

    # --- planned pods ---------------------------------------------------------------------------

    def _plan(self, key: MakerKey) -> list[Any]:
        """Tell the planned pods of a maker as they are now."""
        maker = self._makers.get(key)
        if maker is None or maker.suspension is None:
            return self._end(key)
        if not maker.suspension.waits or key in self._pods:
            return []  # what is told stands for pods that are to come; or old ones are still to go
        return self._renew(maker, maker.suspension)

    def _renew(self, maker: Maker, suspension: Suspension) -> list[Any]:
        home = GroupKey(Source.OWNER, maker.key.namespace, _name(maker))
        before = self._planned.pop(maker.key, _Planned()).pods
        there, news = _Planned(), self._inner.introduce(home) if suspension.pods else []
        for pod, name in zip(suspension.pods, suspension.classes, strict=True):
            known = before.pop(pod.uid, None)
            made = replace(pod, uid=self._uid(pod, known), group=home, priority=self._classes.get(name, 0))
            there.pods[pod.uid] = made
            if known != made:
                news.append(messages.PodSeen(made))
        if there.pods:
            self._planned[maker.key] = there
        return [*news, *_gone(before.values())]

    def _uid(self, pod: Pod, known: Pod | None) -> PodUid:
        if known is not None:
            return known.uid
        self._count += 1
        return PodUid(f"{pod.uid}~{self._count}")

    def _end(self, key: MakerKey) -> list[Any]:
        there = self._planned.pop(key, None)
        return [] if there is None else _gone(there.pods.values())

    def _passed(self, event: Passed) -> list[Any]:
        """Room is not kept for ever for pods that do not come."""
        news: list[Any] = []
        for key, there in list(self._planned.items()):
            maker = self._makers[key]
            if maker.suspension is None or maker.suspension.waits:
                continue
            if there.quiet_since is None:
                there.quiet_since = event.now
            elif event.now >= there.quiet_since + KEEP_SECONDS:
                news += self._end(key)
        return news

    _HANDLERS: ClassVar[dict[type, Callable[[Suspended, Any], list[Any]]]] = {
        MakerSeen: _maker_seen,
        MakerGone: _maker_gone,
        messages.PriorityClassSeen: _class_seen,
        messages.PriorityClassGone: _class_gone,
        Passed: _passed,
    }


def _name(maker: Maker) -> str:
    """The name of the group that starts first."""
    return MARK.join(filter(None, (maker.key.kind, maker.key.name, maker.gangs[0].name)))


def _gone(pods: Iterable[Pod]) -> list[Any]:
    return [messages.PodGone(pod.uid) for pod in pods]
