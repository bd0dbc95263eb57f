"""Muster in a replay: the engine and the permit gate of production under the virtual clock, in a plain shell.

Takes pods and ends, tells engine and gate what their watches would show, and carries out what they decide; must not
decide. It does what `extender.app` and `permit_gate.owner` do with sockets and tasks: pods are made with the queue's
gate unless their queue is open, a planned pod is offered to kube-scheduler's own check of room, its bind call is held
at the gate until the group is whole, and the extender is asked before the release. Writes succeed at once.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from extender.core import gate_messages as gm
from extender.core import messages, model
from extender.core.decisions import Placed
from extender.core.engine import Engine
from extender.core.gate import Gate
from extender.core.ids import QUEUE_GATE, GroupKey, NodeName, PodUid, QueueName, Source
from extender.core.resources import CPU, GPU, MEMORY, PODS, Amounts, amounts
from extender.core.view import Member
from extender.core.world import World
from extender.sim.api import EPOCH
from extender.sim.traces import chance
from extender.sim.traces.common import HOST_PODS, Ask, Job
from extender.sim.trial.cluster import Broken, Pod, State
from extender.sim.trial.replay import Stage

NAMESPACE = "trace"
RACK_LABEL, MODEL_LABEL = "rack", "gpu-model"
#: as in production: the default of --nominate-above-nodes
NOMINATE_ABOVE = 1000
#: of the manifests' scheduler configuration
HTTP_TIMEOUT = 600.0
#: time alone may change a decision: looked at so often while something waits
LOOK_SECONDS = 30.0
#: turns at one instant; more is a fault
_TURNS = 10_000
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Options:
    """What is set of Muster. Each can be off, so that it is known what it brings."""

    #: groups say how long they run
    durations: bool = True
    #: what they say of it is wrong by this factor
    duration_factor: float = 1.0
    #: each says something else, from a tenth to ten times
    guessed: bool = False
    #: gangs prefer one rack
    topology: bool = True
    #: queues of equal parts of all GPUs; else all in one queue
    queues: bool = True
    #: what queues deserve is stated: by all of them, by the first one alone, for all GPUs, or by none
    deserved: Literal["equal", "first", "none"] = "equal"
    #: borrowed room is taken back, and lower priority makes room; else groups are not preemptible
    preemption: bool = True


class Ours:
    """One replay's Muster."""

    def __init__(self, stage: Stage, jobs: Sequence[Job], options: Options) -> None:
        self._stage = stage
        self._options = options
        self._engine = Engine(NOMINATE_ABOVE)
        self._gate = Gate(World(), HTTP_TIMEOUT)
        self._effects: deque[messages.Effect] = deque()
        self._gate_effects: deque[gm.GateEffect] = deque()
        self._numbers = itertools.count(1)
        #: bind calls that are not answered yet, with the groups that they are of
        self._calls: dict[gm.CallId, GroupKey] = {}
        self._now = EPOCH
        self._shown = -1
        self._open: frozenset[QueueName] = frozenset()
        #: groups of which something may have to be bound
        self._placed: dict[GroupKey, None] = {}
        self._pods: dict[str, Pod] = {}
        #: hosts by the names that the engine knows
        self._rows = {NodeName(host.name): row for row, host in enumerate(stage.cluster.hosts)}
        self._shapes: dict[Ask, model.Shape] = {}
        self._waiting = 0
        self._looked_at = 0.0
        self._begin({job.queue for job in jobs})

    def _begin(self, queues: Iterable[str]) -> None:
        """All that is there before the first job."""
        hosts = self._stage.cluster.hosts
        for host in hosts:
            there = {CPU: host.cpu, MEMORY: host.memory * _MIB, GPU: host.gpus, PODS: HOST_PODS}
            labels = {RACK_LABEL: host.rack, "kubernetes.io/hostname": host.name, MODEL_LABEL: host.model}
            self._both(messages.NodeSeen(model.Node(NodeName(host.name), labels, amounts(there))))
        self._both(messages.TopologySeen(model.Topology("racks", (RACK_LABEL,))))
        if self._options.queues:
            names = sorted(queues)
            parts = self._deserved(names, sum(host.gpus for host in hosts))
            for name in names:
                queue = model.Queue(QueueName(name), deserved=parts[name], reclaimable=self._options.preemption)
                self._both(messages.QueueSeen(queue))
        self._hear(messages.OpenQueuesSeen(None))
        self._hear_gate(gm.Synced())
        self._hear_gate(messages.ActivityChanged(True))
        self._hear(messages.HoldsSeen(()))
        self._hear(messages.ActivityChanged(True))
        self._settle()

    def _deserved(self, names: Sequence[str], gpus: int) -> dict[str, Amounts]:
        match self._options.deserved:
            case "equal":
                return {name: amounts({GPU: gpus // len(names)}) for name in names}
            case "first":
                return {name: amounts({GPU: 0 if number else gpus}) for number, name in enumerate(names)}
        return dict.fromkeys(names, amounts({}))

    # --- what happens ---------------------------------------------------------------------------

    def submitted(self, pods: Sequence[Pod], now: float) -> None:
        """A job's objects are made: its group, and its pods."""
        self._now = EPOCH + now
        job = pods[0].work.job
        if job.pods > 1:
            self._both(messages.GroupSeen(self._group(job)))
        for pod in pods:
            self._made(pod)

    def ended(self, pods: Sequence[Pod], now: float) -> None:
        """A job has succeeded, and its objects are deleted."""
        self._now = EPOCH + now
        for pod in pods:
            known = self._engine.world.pods[PodUid(pod.uid)]
            self._both(messages.PodSeen(replace(known, phase="Succeeded")))
        if pods[0].work.job.pods > 1:
            self._both(messages.GroupGone(_key(pods[0])))
        for pod in pods:
            self._both(messages.PodGone(PodUid(pod.uid)))
            del self._pods[pod.uid]

    def decide(self, now: float) -> None:
        """Think, write and bind until nothing follows."""
        self._now = EPOCH + now
        self._looked_at = now
        self._settle()

    def looks_at(self, now: float) -> float | None:
        """Time matters to who waits."""
        return self._looked_at + LOOK_SECONDS if self._waiting else None

    # --- objects --------------------------------------------------------------------------------

    def _group(self, job: Job) -> model.Group:
        return model.Group(
            GroupKey(Source.MUSTER, NAMESPACE, job.name),
            uid=f"group-{job.name}",
            min_member=job.pods,
            queue=self._queue(job),
            topology_preferred=RACK_LABEL if self._options.topology else None,
            expected_duration=self._declared(job),
            preemptible=None if self._options.preemption else False,
            created=self._now,
        )

    def _made(self, pod: Pod) -> None:
        job, queue = pod.work.job, self._queue(pod.work.job)
        self._pods[pod.uid] = pod
        self._waiting += 1
        declared = model.Declared()
        if job.pods == 1:
            preemptible = None if self._options.preemption else False
            declared = model.Declared(expected_duration=self._declared(job), preemptible=preemptible)
        known = model.Pod(
            PodUid(pod.uid),
            NAMESPACE,
            pod.uid,
            self._shape(pod.ask),
            _key(pod),
            gates=() if queue in self._open else (QUEUE_GATE,),
            priority=job.priority,
            queue=queue,
            declared=declared,
            index=(pod.number,),
            owner=model.Owner("Job", job.name, f"owner-{job.name}"),
            created=self._now,
        )
        self._both(messages.PodSeen(known))

    def _queue(self, job: Job) -> QueueName:
        return QueueName(job.queue if self._options.queues else "default")

    def _declared(self, job: Job) -> int | None:
        if not self._options.durations:
            return None
        factor = self._options.duration_factor
        if self._options.guessed:
            factor *= 10 ** (2 * chance.unit(0, "guess", job.name) - 1)
        return max(1, round(job.duration * factor))

    def _shape(self, ask: Ask) -> model.Shape:
        found = self._shapes.get(ask)
        if found is None:
            wanted = amounts({CPU: ask.cpu, MEMORY: ask.memory * _MIB, GPU: ask.gpus, PODS: 1})
            accepts = None
            if ask.models:
                accepts = (model.Term((model.Expression(MODEL_LABEL, "In", ask.models),)),)
            found = self._shapes[ask] = model.Shape(wanted, model.Constraints(affinity=accepts))
        return found

    # --- the shell ------------------------------------------------------------------------------

    def _hear(self, event: messages.EngineEvent) -> None:
        self._effects += self._engine.handle(event, self._now)
        self._placed.update((one.group, None) for one in self._engine.decided if isinstance(one, Placed))

    def _hear_gate(self, event: gm.GateEvent) -> None:
        self._gate_effects += self._gate.handle(event, self._now)
        self._gate.take_ended()

    def _both(self, event: messages.WorldEvent) -> None:
        self._hear(event)
        self._hear_gate(event)

    def _settle(self) -> None:
        for _ in range(_TURNS):
            if not self._turn():
                return
        raise Broken("engine and gate have no end of decisions at one instant")

    def _turn(self) -> bool:
        """Think, write and bind once; True when anything was done."""
        self._hear(messages.Tick())
        while self._engine.unfinished:
            self._hear(messages.Tick())
        self._hear_gate(messages.Tick())
        did = bool(self._effects or self._gate_effects)
        while self._effects:
            self._carry(self._effects.popleft())
        did = self._call() or did
        while self._gate_effects:
            self._carry_gate(self._gate_effects.popleft())
            did = True
        if self._gate.version != self._shown:
            self._shown = self._gate.version
            self._hear(messages.HoldsSeen(self._gate.shown()))
            did = True
        return did

    def _carry(self, effect: messages.Effect) -> None:
        """Write what the engine wants written."""
        match effect:
            case messages.Withdraw():
                self._hear_gate(gm.Withdrawn(effect.uids))
            case messages.SetOpenQueues():
                self._open = effect.names
                self._hear(messages.OpenQueuesSeen(effect.names))
            case messages.Ungate():
                self._change(effect.uid, gates=())
            case messages.Nominate():
                self._change(effect.uid, nominated=effect.node)
            case messages.Evict():
                self._evict(effect.uid)
        self._hear(messages.EffectDone(effect))

    def _change(self, uid: PodUid, **fields: object) -> None:
        known = self._engine.world.pods.get(uid)
        if known is not None and known.waiting:
            self._both(messages.PodSeen(replace(known, **fields)))  # type: ignore[arg-type]

    def _evict(self, uid: PodUid) -> None:
        pod = self._pods.get(uid)
        if pod is None or pod.state is not State.ON_HOST:
            return
        heir = self._stage.evict(pod)
        del self._pods[uid]
        self._both(messages.PodGone(uid))
        self._made(heir)

    # --- kube-scheduler and the gate ------------------------------------------------------------

    def _call(self) -> bool:
        """kube-scheduler makes a bind call for each planned pod that has room and no gate."""
        placed, self._placed = self._placed, {}
        view, did = self._engine.view, False
        held = {hold.uid for hold in self._gate.shown()} if placed else set()
        for key in placed:
            for known in list(self._engine.world.members.get(key, {}).values()):
                node = view.planned(known.uid)
                if node is None or not known.waiting or known.uid in held:
                    continue
                if known.gates:
                    self._placed[key] = None
                    continue
                did = True
                call = gm.CallId(next(self._numbers))
                self._calls[call] = key
                self._hear_gate(gm.HoldCalled(call, known.uid, known.namespace, known.name, node))
        return did

    def _carry_gate(self, effect: gm.GateEffect) -> None:
        match effect:
            case gm.Bind():
                self._bind(effect)
            case gm.ReadGroup():
                self._hear_gate(gm.GroupRead(effect.key, effect.ask, self._engine.world.groups.get(effect.key)))
            case gm.AskRelease():
                vetoes = self._engine.view.vetoes(Member(member.uid, member.node) for member in effect.members)
                answers: dict[PodUid, dict[str, str] | None] = {
                    member.uid: None if member.uid in vetoes else {} for member in effect.members
                }
                self._hear_gate(gm.ReleaseAnswered(effect.key, effect.ask, answers))
            case messages.Evict():
                self._evict(effect.uid)
                self._hear_gate(gm.EvictDone(effect.uid))
            case gm.Answer(call, error):
                key = self._calls.pop(call)
                if error:  # it is called for again, once it is planned
                    self._placed[key] = None

    def _bind(self, effect: gm.Bind) -> None:
        pod = self._pods[effect.uid]
        self._stage.bind(pod, self._rows[effect.node])
        self._waiting -= 1
        self._hear_gate(gm.BindDone(effect.uid))
        known = self._engine.world.pods[effect.uid]
        bound = replace(known, node=effect.node, phase="Running", bound_at=self._now, nominated=None)
        self._both(messages.PodSeen(bound))


def _key(pod: Pod) -> GroupKey:
    job = pod.work.job
    if job.pods > 1:
        return GroupKey(Source.MUSTER, NAMESPACE, job.name)
    return GroupKey(Source.POD, NAMESPACE, pod.uid)
