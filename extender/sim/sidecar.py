"""Extender and permit gate as one process of the virtual cluster: the real engine and gate in a plain shell.

Takes changes, calls and the time, gives answers and writes; must not decide. It does what `extender.app`,
`extender.web.verbs` and `permit_gate.owner` do with sockets and tasks, one thing after the other.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeVar

import orjson

from extender.core import gate_messages as gm
from extender.core import messages, verbs
from extender.core.engine import MAX_REJECTIONS, Engine
from extender.core.gate import Gate
from extender.core.gate_messages import CallId, GateEffect
from extender.core.ids import PodUid
from extender.core.view import Member
from extender.core.world import World
from extender.runtime import dispatcher
from extender.sim import watches
from extender.sim.agenda import Phase
from extender.sim.api import EPOCH, Change, Json, Refused
from extender.sim.cluster import Cluster
from extender.sim.writes import Writes
from extender.wire import extender_v1, hami, objects, small

T = TypeVar("T")
#: no scenario has so many nodes: kube-scheduler is led by the full list
NOMINATE_ABOVE = 1000
#: with growing delays these take 30 s
BIND_TRIES = 20
#: how often time alone may change something, as in the gate's shell; the extender's looks more often
TICK_SECONDS = 0.25


class Sidecar:
    """Both processes, which start and die together. `answered` hears of the gate's answers to bind calls."""

    def __init__(self, cluster: Cluster, answered: Callable[[CallId, bytes], None], died: Callable[[], None]) -> None:
        self.writes = Writes(cluster)
        self.up = False
        #: the longest call or cycle, in seconds of the machine that runs this
        self.longest = 0.0
        self._cluster = cluster
        self._answered = answered
        self._died = died
        self._last_call = 0
        #: changes that the watches have not shown yet, with the time from which on they may
        self._news: deque[tuple[float, Change]] = deque()
        #: objects whose changes of an instant come late: (kind, name) -> that instant, and by how much
        self._delayed: dict[tuple[str, str], tuple[float, float]] = {}
        #: group whose Bindings are counted until we die, and how many are left
        self._crash: tuple[str, int] | None = None
        cluster.api.watch(self._changed)
        self._fresh()

    def _fresh(self) -> None:
        most = self._cluster.settings.max_rejections_per_node
        self.engine = Engine(NOMINATE_ABOVE, max_rejections=MAX_REJECTIONS if most is None else most)
        self.gate = Gate(World(), self._cluster.settings.http_timeout)
        self._lanes: dict[str, deque[tuple[messages.Effect, int]]] = {}
        self._gate_effects: deque[GateEffect] = deque()
        self._shown = -1
        self._news.clear()

    # --- life -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start both, knowing only what a list gives."""
        if self.up:
            return
        self._fresh()
        self.up = True
        for kind, watch in watches.WATCHES.items():
            for thing in self._cluster.api.list(kind):
                self._show(watches.event_of(Change("ADDED", kind, thing)), watch.gate)
        if self._cluster.api.get("ConfigMap", small.OPEN_QUEUES) is None:
            self._hear(messages.OpenQueuesSeen(None))
        self._hear_gate(gm.Synced())
        self._hear_gate(messages.ActivityChanged(True))
        self._tell_holds()
        self._hear(messages.ActivityChanged(True))
        self._cluster.agenda.wake(self._cluster.agenda.now + TICK_SECONDS)

    def crash_after(self, group: str, posted: int) -> None:
        """Die when so many Bindings of the group are written."""
        self._crash = (group, posted)

    def _die(self) -> None:
        self._crash = None
        self.up = False
        self._fresh()
        self._died()

    # --- what the watches show ------------------------------------------------------------------

    def delay(self, kind: str, name: str, seconds: float) -> None:
        """What changes of this object at this instant is shown so much later."""
        self._delayed[kind, name] = (self._cluster.agenda.now, seconds)

    def show_added_first(self, name: str) -> None:
        """Of a pod that was made again, the new one is shown before the old one's end."""
        gone = next(n for n in self._news if n[1].type == "DELETED" and n[1].key[::2] == ("Pod", name))
        self._news.remove(gone)
        self._news.append(gone)

    def _changed(self, change: Change) -> None:
        if self.up and change.kind in watches.WATCHES:
            self._news.append((self._cluster.agenda.now, change))

    def _deliver(self) -> bool:
        now, did = self._cluster.agenda.now, False
        kept: deque[tuple[float, Change]] = deque()
        behind: set[object] = set()
        while self._news:
            due, change = self._news.popleft()
            instant, seconds = self._delayed.get((change.kind, change.object["metadata"]["name"]), (-1.0, 0.0))
            if due == instant == now:
                due = now + seconds
                self._cluster.agenda.at(due, Phase.LATE, lambda: None)
            if due > now or change.key in behind:
                kept.append((due, change))
                behind.add(change.key)
            else:
                did = True
                self._show(watches.event_of(change), watches.WATCHES[change.kind].gate)
        self._news = kept
        return did

    def _show(self, event: watches.Event | None, gate: bool) -> None:
        if event is None:
            return
        self._hear(event)
        if gate and not isinstance(event, messages.OpenQueuesSeen):
            self._hear_gate(event)

    # --- one turn -------------------------------------------------------------------------------

    def turn(self) -> bool:
        """Take in the news, think, and write; True when anything was done."""
        if not self.up:
            return False
        did = self._deliver()
        did = self._tell_holds() or did
        self._hear(messages.Tick())
        self._hear_gate(messages.Tick())
        did = self._carry_gate() or did
        return self._carry_lanes() or did

    def tick(self) -> None:
        """Have the next instant come at which time alone may matter."""
        if self.up:
            self._cluster.agenda.wake(self._cluster.agenda.now + TICK_SECONDS)

    def _wall(self) -> float:
        return EPOCH + self._cluster.agenda.now

    def _hear(self, event: messages.EngineEvent) -> None:
        for effect in self._timed(lambda: self.engine.handle(event, self._wall())):
            self._lanes.setdefault(dispatcher.subject(effect), deque()).append((effect, 0))

    def _hear_gate(self, event: gm.GateEvent) -> None:
        self._gate_effects += self._timed(lambda: self.gate.handle(event, self._wall()))
        self.gate.take_ended()

    def _timed(self, work: Callable[[], T]) -> T:
        began = time.perf_counter()
        result = work()
        self.longest = max(self.longest, time.perf_counter() - began)
        return result

    def _tell_holds(self) -> bool:
        if self.gate.version == self._shown:
            return False
        self._shown = self.gate.version
        self._hear(messages.HoldsSeen(self.gate.shown()))
        return True

    # --- effects --------------------------------------------------------------------------------

    def _carry_lanes(self) -> bool:
        """Carry out what stands first in each lane; what must wait for another try blocks its lane."""
        did = False
        for lane in list(self._lanes):
            for _ in range(len(self._lanes[lane])):
                if self._lanes[lane][0][1] < 0:
                    break
                did = True
                self._carry(lane, *self._lanes[lane].popleft())
            if not self._lanes[lane]:
                del self._lanes[lane]
        return did

    def _carry(self, lane: str, effect: messages.Effect, tries: int) -> None:
        error = ""
        try:
            if isinstance(effect, messages.Withdraw):
                self._hear_gate(gm.Withdrawn(effect.uids))
            else:
                self.writes.engine(effect)
        except Refused as refused:
            if refused.code == 409 and tries + 1 < dispatcher.TRIES:
                self._try_again(lane, effect, tries + 1)
                return
            error = str(refused)
        self._hear(messages.EffectDone(effect, error))

    def _try_again(self, lane: str, effect: messages.Effect, tries: int) -> None:
        waiting = (effect, -tries)
        self._lanes[lane].appendleft(waiting)

        def due() -> None:
            if self._lanes.get(lane) and self._lanes[lane][0] is waiting:
                self._lanes[lane][0] = (effect, tries)

        delay = min(dispatcher.FIRST_DELAY * 2 ** (tries - 1), dispatcher.LONGEST_DELAY)
        self._cluster.agenda.at(self._cluster.agenda.now + delay, Phase.LATE, due)

    def _carry_gate(self) -> bool:
        effects, self._gate_effects = self._gate_effects, deque()
        for effect in effects:
            if not self.up:
                break
            self._carry_one(effect)
        return bool(effects)

    def _carry_one(self, effect: GateEffect) -> None:
        match effect:
            case gm.Answer(call, error):
                self._answered(call, extender_v1.encode_error(error) if error else extender_v1.BOUND)
            case gm.Bind():
                self._bind(effect)
            case gm.ReadPod():
                pod = self._cluster.api.get("Pod", effect.name)
                self._hear_gate(gm.PodRead(effect.uid, None if pod is None else objects.decode_pod(pod)))
            case gm.ReadGroup():
                group = self._cluster.api.get("PodGroup", effect.key.name)
                read = None if group is None else objects.decode_group(effect.key.source, group)
                self._hear_gate(gm.GroupRead(effect.key, effect.ask, read))
            case gm.AskRelease():
                self._hear_gate(gm.ReleaseAnswered(effect.key, effect.ask, self._release(effect)))
            case messages.Evict():
                self._evict(effect)
            case gm.StateCondition():
                self.writes.state_condition(effect)

    def _bind(self, effect: gm.Bind, tries: int = 0) -> None:
        """Bind a pod, again and again as long as it can still be bound; the real shell gives up after as long."""
        agenda, gate = self._cluster.agenda, self.gate
        done = self.writes.bind(effect)
        if done is None and tries < BIND_TRIES:
            delay = min(dispatcher.FIRST_DELAY * 2**tries, dispatcher.LONGEST_DELAY)
            agenda.at(
                agenda.now + delay, Phase.LATE, lambda: self._bind(effect, tries + 1) if self.gate is gate else None
            )
            return
        done = done or gm.BindDone(effect.uid, "muster: unsettled: the binding was refused again and again")
        life = self._cluster.lives.by_uid[effect.uid]
        if self._crash is not None and not done.error and life.making.group is not None:
            group, left = self._crash
            if life.making.group.name == group:
                self._crash = (group, left - 1)
                if left <= 1:
                    self._die()
                    return
        self._hear_gate(done)

    def _evict(self, effect: messages.Evict) -> None:
        error = ""
        try:
            self.writes.evict(effect)
        except Refused as refused:
            error = str(refused)
        self._hear_gate(gm.EvictDone(effect.uid, error))

    def _release(self, effect: gm.AskRelease) -> dict[PodUid, dict[str, str] | None]:
        self._hear(messages.Tick())
        vetoes = self.engine.view.vetoes(Member(member.uid, member.node) for member in effect.members)
        return {member.uid: None if member.uid in vetoes else self._notes(member) for member in effect.members}

    def _notes(self, member: gm.Member) -> dict[str, str]:
        shares = self.engine.view.shares(member.uid)
        return hami.binding_notes(shares, member.node, self._wall()) if shares else {}

    # --- calls ----------------------------------------------------------------------------------

    def filter(self, pod: Json, offered: Iterable[str]) -> bytes | None:
        """The answer to a filter call; None while there is nobody to give one."""
        if not self.up:
            return None
        args = extender_v1.decode_node_args(orjson.dumps({"Pod": pod, "NodeNames": list(offered)}))
        uid = PodUid(objects.metadata(args.pod, "uid")["uid"])
        answer: verbs.Accept | verbs.Reject | verbs.Fail | verbs.Ask
        answer = self._timed(lambda: verbs.filter_known(self.engine.view, uid, args.offered))
        if isinstance(answer, verbs.Ask):
            self._hear(messages.FilterCalled(objects.decode_pod(args.pod), args.offered))
            self._hear(messages.Tick())
            answer = verbs.filter_judged(self.engine.view, uid, args.offered)
        match answer:
            case verbs.Accept(node):
                return extender_v1.encode_passed(args, (node,))
            case verbs.Reject(text):
                self._hear(messages.FilterRejected(uid))
                return extender_v1.encode_rejected(args, text)
            case verbs.Fail(text):
                return extender_v1.encode_error(text)

    def bind(self, name: str, namespace: str, uid: str, node: str) -> CallId | None:
        """Begin a bind call; None while there is nobody to take it."""
        if not self.up:
            return None
        body = {"PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node}
        args = extender_v1.decode_bind_args(orjson.dumps(body))
        self._last_call += 1
        call = CallId(self._last_call)
        self._hear_gate(gm.HoldCalled(call, args.uid, args.namespace, args.name, args.node))
        return call

    def hang_up(self, call: CallId) -> None:
        """kube-scheduler no longer waits for a call."""
        if self.up:
            self._hear_gate(gm.CallClosed(call))
