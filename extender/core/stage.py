"""An engine whose decisions come true at once: what follows from a change when nothing else happens.

Takes an engine that is nobody's but ours, and a time; tells the engine that what it decides was carried out. Must not
decide, nor touch an engine that others read. Nobody refuses anything here: kube-scheduler's own checks pass, evicted
pods leave at once, and controllers replace them at once. So what is found is what the rules alone come to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from extender.core import messages
from extender.core.decisions import Placed
from extender.core.engine import Engine
from extender.core.ids import QUEUE_GATE, GroupKey, PodUid, QueueName
from extender.core.membership import Need, satisfied
from extender.core.model import Pod

#: pieces of a round that would end at some time; more is a fault
_PIECES = 100_000


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod was evicted."""

    at: float
    pod: Pod
    #: in which its group was
    queue: QueueName
    effect: messages.Evict


class Stage:
    """The engine, the time there, and what has happened on it."""

    def __init__(self, engine: Engine, now: float, bound: Callable[[Pod], None] = lambda _: None) -> None:
        """`bound` is told of each pod that gets its node."""
        self.engine = engine
        self.now = now
        self.evictions: list[Eviction] = []
        #: by uid of a pod that went, that of the one that takes its place
        self.heirs: dict[PodUid, PodUid] = {}
        self._ancestors: dict[PodUid, PodUid] = {}
        self._bound = bound
        #: groups of which something may have to be bound
        self._placed: dict[GroupKey, None] = {}
        self._born = 0
        #: the gate has answered the calls that it held at first
        self._released = False
        for pod in engine.world.pods.values():
            if pod.waiting and engine.view.planned(pod.uid) is not None:
                self._placed[pod.group] = None

    def tell(self, *events: messages.EngineEvent) -> list[messages.Effect]:
        """The engine hears of these; what it decides."""
        effects: list[messages.Effect] = []
        for event in events:
            effects += self.engine.handle(event, self.now)
            self._placed |= {one.group: None for one in self.engine.decided if isinstance(one, Placed)}
        return effects

    def pass_by(self, seconds: float) -> bool:
        """So much time passes, and what is decided then comes true; False when nothing was decided that matters."""
        self.now += seconds
        effects = self.tell(messages.Tick())
        for _ in range(_PIECES):
            if not self.engine.unfinished:
                break
            effects += self.tell(messages.Tick())
        done = self._carry_out(effects)
        return self._bind() or done

    def rest(self, step: float, most: int) -> bool:
        """Steps until nothing happens any more; False when there were the most that there may be."""
        quiet = 0
        for _ in range(most):
            quiet = 0 if self.pass_by(step) else quiet + 1
            if quiet > 1:
                return True
        return False

    def succeed(self, pod: Pod) -> PodUid:
        """The controller of a pod that is gone makes another one."""
        heir = self._heir(pod)
        self.hear(messages.PodSeen(heir))
        return heir.uid

    def hear(self, event: messages.EngineEvent) -> None:
        """The engine hears of this, and what it decides comes true."""
        self._carry_out(self.tell(event))

    def first(self, uid: PodUid) -> PodUid:
        """The pod that came first of those of which each stands for one before."""
        while (before := self._ancestors.get(uid)) is not None:
            uid = before
        return uid

    def newest(self, uid: PodUid) -> PodUid:
        """The pod that stands for this one now, after evictions."""
        while (heir := self.heirs.get(uid)) is not None:
            uid = heir
        return uid

    def _heir(self, pod: Pod) -> Pod:
        self._born += 1
        uid = PodUid(f"{pod.uid}~{self._born}")
        self.heirs[pod.uid], self._ancestors[uid] = uid, pod.uid
        group = pod.group._replace(name=uid) if pod.group.lone else pod.group
        fresh = replace(
            pod, uid=uid, group=group, node=None, nominated=None, phase="Pending", gates=(), created=self.now
        )
        return replace(fresh, terminating=False, bound_at=None, checkpoint=None, rejection="", shares=())

    def _carry_out(self, effects: Iterable[messages.Effect]) -> bool:
        """Do it all; True when something of it matters to others than those who read."""
        todo, happened = list(effects), False
        while todo:
            effect = todo.pop(0)
            happened |= not isinstance(effect, messages.StateGroup | messages.StateQueue | messages.NoteEviction)
            for event in self._outcome(effect):
                todo += self.tell(event)
            todo += self.tell(messages.EffectDone(effect))
        return happened

    def _outcome(self, effect: messages.Effect) -> list[messages.EngineEvent]:
        if isinstance(effect, messages.SetOpenQueues):
            return [messages.OpenQueuesSeen(effect.names)]
        if not isinstance(effect, messages.Evict | messages.Ungate | messages.Nominate):
            return []
        pod = self.engine.world.pods.get(effect.uid)
        if pod is None:
            return []
        if isinstance(effect, messages.Evict):
            self.evictions.append(Eviction(self.now, pod, self.engine.world.queue_of(pod.group), effect))
            heir = [messages.PodSeen(self._heir(pod))] if pod.owner is not None else []
            return [messages.PodGone(pod.uid), *heir]
        if isinstance(effect, messages.Ungate):
            return [messages.PodSeen(replace(pod, gates=tuple(gate for gate in pod.gates if gate != QUEUE_GATE)))]
        return [messages.PodSeen(replace(pod, nominated=effect.node))]

    def _bind(self) -> bool:
        """All groups that can start do; True when one did."""
        placed, self._placed = self._placed, {}
        events = [messages.PodSeen(self._on_node(pod)) for key in placed for pod in self._ready(key)]
        for event in events:
            self._bound(event.pod)
            self._carry_out(self.tell(event))
        if (events or not self._released) and self.engine.active:
            self._released = True
            self.hear(messages.HoldsSeen(()))
        return bool(events)

    def _ready(self, key: GroupKey) -> list[Pod]:
        """Members with places that nothing keeps from them, when they are enough."""
        world, view = self.engine.world, self.engine.view
        members = world.members.get(key, {}).values()
        planned = [pod for pod in members if pod.waiting and view.planned(pod.uid) is not None]
        need = world.need(key)
        enough = isinstance(need, Need) and satisfied(need, world.tallies[key], [pod.task for pod in planned])
        if planned and not enough:
            self._placed[key] = None
        return planned if enough else []

    def _on_node(self, pod: Pod) -> Pod:
        view = self.engine.view
        node, shares = view.planned(pod.uid), view.shares(pod.uid)
        return replace(pod, node=node, phase="Running", gates=(), bound_at=self.now, shares=shares, rejection="")
