"""A small cluster around an engine: the API server's state, a late watch, kube-scheduler and the permit gate.

Takes an engine's effects, gives it events; must not judge what the engine decides. What kube-scheduler is
modelled with: checks of resources, cordons and readiness over what is bound, assumed and nominated; a pod
that filter rejected comes back only when it is woken (harsher than the truth, where every event does it).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from extender.core import messages, verbs
from extender.core.engine import Engine
from extender.core.ids import QUEUE_GATE, GroupKey, NodeName, PodUid, QueueName, Source
from extender.core.membership import Need, Standing, satisfied, standing
from extender.core.model import Group, Hold, Node, Pod, Queue
from extender.core.reasons import Ground
from extender.core.view import Member
from extender.core.world import World
from tests import builders
from tests.core import engine_driver, eviction_rules

#: the watch of another scheduler, and its own binding, may take so long
UNSEEN_SECONDS = 5.0
NO_NODE = "0/5 nodes are available: insufficient resources"


@dataclass(frozen=True)
class Race:
    """Another scheduler's pod on a node, those of ours that each alone would mend it by going, and the node then."""

    rival: PodUid
    alone: frozenset[PodUid]
    node: Node | None


class Cluster:
    """The truth, and everybody who acts on it but the engine."""

    def __init__(self, above: int, turns: int | None = None) -> None:
        self._above = above
        self._turns = turns
        self.now = engine_driver.START
        self.truth = World()
        self.open: frozenset[QueueName] | None = None
        #: what the watch has not shown yet
        self.watch: deque[messages.EngineEvent] = deque()
        #: effects that were not carried out yet
        self.writes: deque[messages.Effect] = deque()
        self.holds: dict[PodUid, NodeName] = {}
        #: pods that kube-scheduler will try, that its own checks put aside, and that filter rejected
        self.active: dict[PodUid, None] = {}
        self.aside: dict[PodUid, None] = {}
        self.rejected: dict[PodUid, None] = {}
        self.bindings = 0
        #: nodes overcommitted by a race of schedulers
        self.raced: dict[NodeName, Race] = {}
        #: nodes of whose past the engine does not know enough to tell a race from a loss
        self.excused: set[NodeName] = set()
        #: pods whose eviction is under way, and gangs that were to go as wholes
        self.evicting: set[PodUid] = set()
        self.going: dict[GroupKey, frozenset[PodUid]] = {}
        self.replaced = 0
        #: nodes that kube-scheduler keeps a pod off for reasons that the engine does not model
        self.conflicts: dict[PodUid, frozenset[NodeName]] = {}
        #: filter calls are answered before the engine has come to judge them
        self.late = False
        self.restart()

    # --- the engine -----------------------------------------------------------------------------

    def restart(self) -> None:
        """A new engine lists the cluster; what the old one had not written is lost."""
        self.engine = Engine(self._above, self._turns)
        self.watch.clear()
        self.writes.clear()
        self.evicting.clear()
        self.going.clear()
        for node in list(self.truth.nodes.nodes):
            if node is not None:
                self.tell(messages.NodeSeen(node))
        for name, chosen in self.truth.namespace_queue.items():
            self.tell(messages.NamespaceSeen(name, chosen, name in self.truth.managed))
        for group in self.truth.groups.values():
            self.tell(messages.GroupSeen(group))
        for queue in self.truth.queues.values():
            self.tell(messages.QueueSeen(queue))
        for pod in self.truth.pods.values():
            self.tell(messages.PodSeen(pod))
        self.tell(self._shown(), messages.OpenQueuesSeen(self.open), messages.ActivityChanged(True))

    def tell(self, *events: messages.EngineEvent) -> list[messages.Effect]:
        """The engine hears of these now."""
        found = []
        for event in events:
            if isinstance(event, messages.ActivityChanged):
                self.excused.update(self.truth.overcommitted())
            before = self._used()
            effects = self._handle(event)
            engine_driver.check(self.engine)
            self._check_capabilities(before, event)
            self._check_shown([effect for effect in effects if isinstance(effect, messages.Ungate)])
            self._check_evictions([effect for effect in effects if isinstance(effect, messages.Evict)])
            found += effects
        if not self.engine.active:
            assert found == [], "an inactive engine acts"
        self.writes.extend(found)
        return found

    def _handle(self, event: messages.EngineEvent) -> list[messages.Effect]:
        return self.engine.handle(event, self.now)

    def _used(self) -> dict[tuple[QueueName, str], int]:
        usage = self.engine.usage
        self.engine._cycle.follow_queues()  # that a queue was moved below another is nobody's decision
        kept = engine_driver.earmarked(self.engine)  # it may stand where the victims still are
        return {(name, what): usage.of(name).get(what, 0) - kept[name, what] for name, what in self._caps()}

    def _caps(self) -> dict[tuple[QueueName, str], int]:
        """The capabilities as the engine's watch has shown them."""
        return {(name, what): most for name, one in self.engine.world.queues.items() for what, most in one.capability}

    def _check_capabilities(self, before: dict[tuple[QueueName, str], int], event: messages.EngineEvent) -> None:
        """Invariant 3: no decision makes a queue exceed its capability. Other events may move what runs anywhere."""
        if not isinstance(event, messages.Tick | messages.FilterCalled | messages.HoldsSeen):
            return
        after = self._used()
        for what, most in self._caps().items():
            assert after[what] <= max(most, before[what]), f"{what} exceeds its capability"

    def _check_shown(self, ungated: list[messages.Ungate]) -> None:
        """A gate comes off for a place, or for room that is waited for within quota where the queue shows that."""
        world, usage = self.engine.world, self.engine.usage
        shown = [world.pods[effect.uid] for effect in ungated if self.engine.view.planned(effect.uid) is None]
        for group in {pod.group for pod in shown}:
            queue, refusal = world.queue_of(group), self.engine.entries[group].refusal
            assert world.queues[queue].visible
            assert refusal is not None
            assert refusal.reason.value in (
                "InsufficientResources",
                "Fragmented",
                "TopologyUnsatisfied",
                "NoMatchingNode",
                "NodeUnavailable",
            )
            waiting = [pod for pod in world.members[group].values() if standing(pod) is Standing.WAITING]
            under_way = self.engine._cycle.visibility._asked
            assert all(not pod.queue_gated or pod.uid in under_way for pod in waiting), "a part of it stays hidden"
            gpus = sum(dict(pod.shape.request).get(builders.GPU, 0) for pod in waiting)
            for name in usage.tree.path(queue):
                most = dict(world.queues[name].capability).get(builders.GPU) if name in world.queues else None
                used = usage.of(name).get(builders.GPU, 0)
                assert most is None or not gpus or used + gpus <= most, f"{name} has no quota for it"

    def _check_evictions(self, evictions: list[messages.Evict]) -> None:
        """Only pods of ours go, each for a reason that is one, and no group is left with some but too few."""
        world = self.engine.world
        for effect in evictions:
            pod = world.pods[effect.uid]
            assert pod.ours, f"{pod.name} is not ours"
            assert pod.bound, f"{pod.name} is evicted and not bound"
            assert pod.uid not in self.evicting, f"{pod.name} is evicted twice"
            if effect.ground is Ground.STALE:
                eviction_rules.check_hurt(self.engine, pod.group)
            elif effect.ground is Ground.OVERCOMMIT:
                node = NodeName(str(dict(effect.detail)["node"]))
                assert pod.owner is not None, f"{pod.name} has no controller"
                assert node in self.raced or node in self.excused, f"{pod.name} goes for {node}, where nobody raced"
            else:
                eviction_rules.check_victim(self.engine, pod, effect)
        self.evicting |= {effect.uid for effect in evictions}
        for key in {world.pods[effect.uid].group for effect in evictions if effect.ground is Ground.STALE}:
            left = [pod.name for pod in world.members[key].values() if pod.bound and pod.uid not in self.evicting]
            assert not left, f"{key} does not go whole: {left} stay"
        for key in {world.pods[effect.uid].group for effect in evictions}:
            bound = [pod for pod in world.members[key].values() if pod.bound]
            going = [pod for pod in bound if pod.uid in self.evicting]
            if len(going) == len(bound):
                self.going[key] = frozenset(pod.uid for pod in going)
            else:
                eviction_rules.check_spared(self.engine, key, going)

    def tick(self, seconds: float = 0.0) -> None:
        """Time passes, then a cycle, or a piece of one."""
        self.now += seconds
        if not self.watch:
            fit = self.truth.nodes.row_of.keys() - set(self.truth.overcommitted())
            self.raced = {name: race for name, race in self.raced.items() if name not in fit}
            self.excused -= fit
        self.tell(messages.Tick())

    def deliver(self, number: int = 10**6) -> None:
        """The watch shows so many of the changes."""
        for _ in range(min(number, len(self.watch))):
            self.tell(self.watch.popleft())

    def carry_out(self, number: int = 10**6, error: str = "", lost: bool = False) -> None:
        """So many effects are carried out; with `error` reported as failed, and if `lost` rightly so."""
        for _ in range(min(number, len(self.writes))):
            effect = self.writes.popleft()
            failed = error
            if isinstance(effect, messages.Evict) and (lost or not self.engine.active):
                failed = error or "not active"
                self.evicting.discard(effect.uid)
            elif not lost:
                self._write(effect)
            self.tell(messages.EffectDone(effect, failed))

    def _write(self, effect: messages.Effect) -> None:
        match effect:
            case messages.Ungate(uid) | messages.Nominate(uid) | messages.Wake(uid):
                if uid in self.truth.pods:
                    self._write_pod(effect, self.truth.pods[uid])
            case messages.Evict(uid):
                self._evict(uid)
            case messages.Withdraw(uids):
                for uid in uids:
                    self.fail_hold(uid)
            case messages.SetOpenQueues(names):
                self.open = names
                self.watch.append(messages.OpenQueuesSeen(names))
            case messages.StateQueue() | messages.StateGroup():
                self._write_status(effect)

    def _write_status(self, effect: messages.StateQueue | messages.StateGroup) -> None:
        match effect:
            case messages.StateQueue(name, status):
                queue = self.truth.queues.get(name)
                if queue is not None:
                    self.show(replace(queue, status=status))
            case messages.StateGroup(key, uid, phase, refusal):
                group = self.truth.groups.get(key)
                if group is not None and group.uid == uid:
                    reason = "" if refusal is None else refusal.reason.value
                    self.show(replace(group, phase=phase, stated_reason=reason))

    def _write_pod(self, effect: messages.Ungate | messages.Nominate | messages.Wake, pod: Pod) -> None:
        match effect:
            case messages.Ungate() if QUEUE_GATE in pod.gates:
                self.show(replace(pod, gates=tuple(g for g in pod.gates if g != QUEUE_GATE)))
            case messages.Nominate(node=node) if pod.waiting and pod.nominated != node:
                self.show(replace(pod, nominated=node))
                self._retry_aside()
            case messages.Wake(uid) if uid in self.rejected or uid in self.aside:
                self.rejected.pop(uid, None)
                self.aside.pop(uid, None)
                self.active[uid] = None

    def _evict(self, uid: PodUid) -> None:
        """The pod is gone at once, and its controller makes another one."""
        self.evicting.discard(uid)
        pod = self.truth.pods.get(uid)
        if pod is None:
            return
        self.delete(pod)
        if pod.owner is None:
            return
        self.replaced += 1
        new = PodUid(f"uid-r{self.replaced:03}")
        group = GroupKey(Source.POD, pod.namespace, new) if pod.group.lone else pod.group
        fresh = replace(pod, uid=new, name=f"r{self.replaced:03}", group=group, created=self.now)
        self.show(replace(fresh, node=None, nominated=None, phase="Pending", bound_at=None, terminating=False))

    # --- the API server -------------------------------------------------------------------------

    def show(self, thing: Node | Pod | Group | Queue) -> None:
        """This is the newest state of an object."""
        event = builders.seen(thing)
        self.truth.apply(event)
        self.watch.append(event)
        if isinstance(thing, Node):
            self._retry_aside()
        if isinstance(thing, Pod) and thing.ours:
            self._queue(thing)

    def label(self, namespace: str, queue: QueueName | None, managed: bool) -> None:
        """The labels of a namespace say this from now on."""
        event = messages.NamespaceSeen(namespace, queue, managed)
        self.truth.apply(event)
        self.watch.append(event)

    def delete(self, thing: Node | Pod | Group | Queue) -> None:
        """This object is gone."""
        event = engine_driver._gone(thing)
        self.truth.apply(event)
        self.watch.append(event)
        if isinstance(thing, Pod):
            for index in (self.active, self.aside, self.rejected):
                index.pop(thing.uid, None)
            if self.holds.pop(thing.uid, None) is not None:
                self.watch.append(self._shown())
            self._retry_aside()
        if isinstance(thing, Node):
            self.excused.add(thing.name)
            for uid in [uid for uid, node in self.holds.items() if node == thing.name]:
                self.fail_hold(uid)

    def fits(self, pod: Pod, name: NodeName, foreign: bool = False, unseen: frozenset[PodUid] = frozenset()) -> bool:
        """Whether a scheduler's own checks let the pod onto the node; a foreign one sees only what is bound."""
        node = self.truth.node(name)
        if node is None or node.unschedulable or not node.ready:
            return False
        if not foreign and name in self.conflicts.get(pod.uid, ()):
            return False
        free = dict(node.allocatable)
        there = [p for p in self.truth.on_node.get(name, {}).values() if p.uid not in unseen]
        if not foreign:
            there += [self.truth.pods[uid] for uid, at in self.holds.items() if at == name]
            there += [p for p in self.truth.pods.values() if self._reserves(p, pod, name)]
        for other in there:
            for resource, amount in other.shape.request:
                free[resource] = free.get(resource, 0) - amount
        return all(free.get(resource, 0) >= amount for resource, amount in pod.shape.request)

    def _reserves(self, other: Pod, pod: Pod, name: NodeName) -> bool:
        counts = other.waiting and other.uid != pod.uid and other.uid not in self.holds
        return counts and other.nominated == name and other.priority >= pod.priority

    def race(self, pod: Pod, name: NodeName) -> None:
        """Another scheduler binds a pod, and has not seen what we bound there just before."""
        ours = {pod.uid: pod for pod in self.unseen(name)}
        if not self.fits(pod, name, foreign=True, unseen=frozenset(ours)):
            return
        self.show(builders.bound(pod, name, self.now))
        if name in self.truth.overcommitted():
            alone = [p for p in ours.values() if p.group.lone and p.owner is not None and self._mends(p, name)]
            self.raced[name] = Race(pod.uid, frozenset(p.uid for p in alone), self.truth.node(name))

    def unseen(self, name: NodeName) -> list[Pod]:
        """Pods of ours that were bound so lately that another scheduler may not know of them."""
        since = self.now - UNSEEN_SECONDS
        there = self.truth.on_node.get(name, {}).values()
        return [pod for pod in there if pod.ours and pod.bound_at is not None and pod.bound_at >= since]

    def _mends(self, pod: Pod, name: NodeName) -> bool:
        row = self.truth.nodes.row_of[name]
        used = self.truth.nodes.used[row].copy()
        used[: len(self.truth.request_row(pod))] -= self.truth.request_row(pod)
        return bool((used <= self.truth.nodes.allocatable[row]).all())

    # --- kube-scheduler -------------------------------------------------------------------------

    def _queue(self, pod: Pod) -> None:
        if not pod.waiting:
            for index in (self.active, self.aside, self.rejected):
                index.pop(pod.uid, None)
        elif not pod.gates and not any(
            pod.uid in index for index in (self.active, self.aside, self.rejected, self.holds)
        ):
            self.active[pod.uid] = None

    def _retry_aside(self) -> None:
        self.active.update(self.aside)
        self.aside.clear()

    def schedule(self, number: int = 10**6) -> None:
        """So many of the pods that kube-scheduler has are tried."""
        for uid in list(self.active)[:number]:
            if uid in self.active:
                del self.active[uid]
                self._schedule_one(self.truth.pods[uid])

    def _schedule_one(self, pod: Pod) -> None:
        answer: object = None
        if pod.nominated is not None and self.fits(pod, pod.nominated):
            answer = self._filter(pod, (pod.nominated,))
        if not isinstance(answer, verbs.Accept):
            offered = tuple(name for name in self.truth.nodes.row_of if self.fits(pod, name))
            if not offered:
                self.aside[pod.uid] = None
                self._say_rejected(pod, NO_NODE)
                return
            answer = self._filter(pod, offered)
        match answer:
            case verbs.Accept(node):
                self.holds[pod.uid] = node
                self.watch.append(self._shown())
            case verbs.Reject(text):
                self.rejected[pod.uid] = None
                self._say_rejected(pod, f"0/5 nodes are available: 5 {text}")
            case verbs.Fail():
                self.active[pod.uid] = None

    def _say_rejected(self, pod: Pod, text: str) -> None:
        newest = self.truth.pods[pod.uid]
        if newest.rejection != text:
            self.show(replace(newest, rejection=text))

    def _filter(self, pod: Pod, offered: tuple[NodeName, ...]) -> object:
        """The call as the shell answers it."""
        if not self.engine.active:
            return verbs.Fail("not active")
        answer: object = verbs.filter_known(self.engine.view, pod.uid, offered)
        if isinstance(answer, verbs.Reject):
            self.watch.append(messages.FilterRejected(pod.uid))
        elif isinstance(answer, verbs.Ask) and self.late:
            self.watch.append(messages.FilterCalled(pod, offered))
            answer = verbs.filter_judged(self.engine.view, pod.uid, offered)
        elif isinstance(answer, verbs.Ask):
            self.tell(messages.FilterCalled(pod, offered), messages.Tick())
            answer = verbs.filter_judged(self.engine.view, pod.uid, offered)
            if isinstance(answer, verbs.Reject):
                self.watch.append(messages.FilterRejected(pod.uid))
        if isinstance(answer, verbs.Accept):
            assert answer.node in offered
        return answer

    # --- the permit gate ------------------------------------------------------------------------

    def _shown(self) -> messages.HoldsSeen:
        pods = self.truth.pods
        return messages.HoldsSeen(
            tuple(Hold(uid, node, pods[uid].group) for uid, node in self.holds.items() if uid in pods)
        )

    def fail_hold(self, uid: PodUid) -> None:
        """The held call is answered with an error: kube-scheduler forgets the pod and tries it again."""
        if self.holds.pop(uid, None) is None:
            return
        self.watch.append(self._shown())
        pod = self.truth.pods.get(uid)
        if pod is not None and pod.waiting:
            if pod.nominated is not None:
                self.show(replace(pod, nominated=None))
            self.active[uid] = None
        self._retry_aside()

    def release(self) -> None:
        """Groups that are complete and not vetoed are bound; calls on nodes without room are refused."""
        for uid, node in list(self.holds.items()):
            pod = self.truth.pods.get(uid)
            if uid in self.holds and pod is not None and not self._holds_room(pod, node):
                self.fail_hold(uid)
        groups: dict[GroupKey, list[PodUid]] = {}
        for uid in self.holds:
            groups.setdefault(self.truth.pods[uid].group, []).append(uid)
        for key, uids in groups.items():
            self._release(key, uids)

    def _holds_room(self, pod: Pod, name: NodeName) -> bool:
        node = self.truth.node(name)
        return node is not None and not node.unschedulable and self.fits(pod, name, foreign=True)

    def _release(self, key: GroupKey, uids: list[PodUid]) -> None:
        need = self.truth.need(key)
        pods = [self.truth.pods[uid] for uid in uids]
        if not key.lone:
            if not isinstance(need, Need) or not self._complete(key, need, pods) or not self.engine.active:
                return
            self.tick()
            vetoes = self.engine.view.vetoes(Member(pod.uid, self.holds[pod.uid]) for pod in pods)
            pods = [pod for pod in pods if pod.uid not in vetoes]
            if not self._complete(key, need, pods):
                return
        if pods:
            left = {uid for uid in self.going.get(key, ()) if uid in self.evicting and uid in self.truth.pods}
            assert not left, f"{key} gets a member while it is being evicted"
        for pod in pods:
            node = self.holds[pod.uid]
            if self.fits(self.truth.pods[pod.uid], node, foreign=True):
                del self.holds[pod.uid]
                self.bindings += 1
                self.show(builders.bound(self.truth.pods[pod.uid], node, self.now))
            else:
                self.fail_hold(pod.uid)
        self.watch.append(self._shown())

    def _complete(self, key: GroupKey, need: Need, pods: list[Pod]) -> bool:
        return satisfied(need, self.truth.tallies[key], [pod.task for pod in pods])

    # --- everybody ------------------------------------------------------------------------------

    def settle(self) -> None:
        """Everybody does what is to be done now."""
        self.deliver()
        self.carry_out()
        self.schedule()
        self.deliver()
        self.release()
        self.deliver()

    def rest(self, quiet: float = 60.0, limit: float = 2000.0) -> None:
        """Nothing happens from outside until nothing is written for so long; fails when that never comes."""
        still_since = until = self.now
        until += limit
        step = 0.5
        while self.now < until:
            self.settle()
            self.tick(step)
            engine_driver.finish(self.engine, self.tick)
            busy = self.writes or self.watch or self.active
            if busy:
                still_since = self.now
            step = 0.5 if self.now - still_since < 12 else 5.0
            if self.now - still_since >= quiet:
                return
        raise AssertionError(f"no rest after {limit} s; at last {list(self.writes)[:3]}")
