"""The one task that owns the gate: an inbox of events in, effects out, and the calls that wait for answers.

Takes events from watches and calls, gives them to `core.gate` one at a time and carries its effects out; the
outcome of each comes back as an event. Must not decide. What is outside (the API server, the extender) stands
behind two small ports, so that tests can play them. No lock is needed: nobody else touches the gate.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol

from extender.core import gate_messages as gm
from extender.core import messages
from extender.core.gate import Gate
from extender.core.gate_messages import CallId, GateEffect, GateEvent
from extender.core.ids import GroupKey, NodeName, PodUid
from extender.core.model import Group, Pod
from extender.telemetry import logs

LOG = logs.Log(__name__)
#: events handled before the loop gets a turn: some milliseconds
_TURN = 100
TICK_SECONDS = 0.25
#: bindings under way at once: more only queue up inside the API server
BINDINGS = 32
#: other calls to the API server under way at once
OTHER_CALLS = 16


class Unavailable(Exception):
    """The outside gave no answer that can be used."""


class Cluster(Protocol):
    """The API server. Every method but `bind` raises Unavailable when it has no answer."""

    async def bind(self, effect: gm.Bind) -> gm.BindDone:
        """Bind a pod and prove it."""

    async def read_pod(self, namespace: str, name: str) -> Pod | None:
        """The live pod."""

    async def read_group(self, key: GroupKey) -> Group | None:
        """The live group object."""

    async def evict(self, effect: messages.Evict) -> None:
        """Evict a pod; one that is gone already is a success."""

    async def state(self, effect: gm.StateCondition) -> None:
        """Write a named condition on a pod."""


class Extender(Protocol):
    """The extender; raises Unavailable when it has no answer within its second."""

    async def release(self, effect: gm.AskRelease) -> Mapping[PodUid, Mapping[str, str] | None]:
        """Each member's Binding annotations, or None for a veto."""


class Observer(Protocol):
    """Hears of held calls and ends of rounds."""

    def held(self, number: int) -> None:
        """How many calls are held."""

    def round_ended(self, outcome: str) -> None:
        """A round is over."""

    def released(self, seconds: float) -> None:
        """A release was whole after so long."""


class Owner:
    """Owns the gate. `post` never blocks; the inbox is bounded by what the watches and calls can send."""

    def __init__(
        self, gate: Gate, cluster: Cluster, extender: Extender, wall: Callable[[], float], observer: Observer
    ) -> None:
        self.gate = gate
        self._cluster = cluster
        self._extender = extender
        self._wall = wall
        self._observer = observer
        self._inbox: deque[tuple[GateEvent, asyncio.Future[int] | None]] = deque()
        self._wake = asyncio.Event()
        self._calls: dict[CallId, asyncio.Future[str]] = {}
        self._last_call = 0
        self._events = 0
        self._cause = "start"
        self._tasks: set[asyncio.Task[None]] = set()
        self._bindings = asyncio.Semaphore(BINDINGS)
        self._others = asyncio.Semaphore(OTHER_CALLS)
        #: set, and replaced, whenever the list of holds changes
        self._change = asyncio.Event()
        self._stopping = False

    # --- for watches and handlers ---------------------------------------------------------------

    def post(self, event: GateEvent) -> None:
        """Put an event into the inbox."""
        self._inbox.append((event, None))
        self._wake.set()

    async def hold(self, uid: PodUid, namespace: str, name: str, node: NodeName) -> str:
        """Make a bind call and wait for its answer: an error, or "" for a proved binding."""
        self._last_call += 1
        call = CallId(self._last_call)
        answered: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._calls[call] = answered
        self.post(gm.HoldCalled(call, uid, namespace, name, node))
        try:
            return await answered
        except asyncio.CancelledError:
            # the scheduler hung up; a binding that is under way goes on without us
            self._calls.pop(call, None)
            self.post(gm.CallClosed(call))
            raise

    async def withdraw(self, uids: tuple[PodUid, ...]) -> int:
        """Have the held calls of these pods refused; how many were."""
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._inbox.append((gm.Withdrawn(uids), done))
        self._wake.set()
        return await done

    async def changed(self, after: int, seconds: float) -> None:
        """Return when the list of holds is no longer that of version `after`, or the time is up."""
        if self.gate.version != after or self._stopping:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._change.wait()

    async def stop(self, seconds: float) -> None:
        """Refuse what is held and wait until what is being bound is, though not for ever."""
        self._stopping = True
        self.post(gm.Stopping())
        self._tell_change()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._inbox or self.gate.binding:
                    await self._changed_or_tick()
        left = self.gate.binding
        if left:
            LOG.error("stopped before every binding was proved; their calls get no answer", bindings=left)

    async def _changed_or_tick(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TICK_SECONDS):
                await self._change.wait()

    # --- the task -------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve the inbox for ever."""
        tick_at = 0.0
        while True:
            await self._wait()
            version = self.gate.version
            for _ in range(_TURN):
                if not self._inbox:
                    self._wake.clear()
                    break
                self._handle(*self._inbox.popleft())
            if self._wall() >= tick_at:
                tick_at = self._wall() + TICK_SECONDS
                self._handle(messages.Tick(), None)
            if self.gate.version != version:
                self._tell_change()
            await asyncio.sleep(0)

    async def _wait(self) -> None:
        if not self._inbox:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await self._wake.wait()

    def _tell_change(self) -> None:
        self._observer.held(self.gate.held)
        self._change.set()
        self._change = asyncio.Event()

    def _handle(self, event: GateEvent, done: asyncio.Future[int] | None) -> None:
        self._events += 1
        self._cause = f"{type(event).__name__}-{self._events}"
        effects = self.gate.handle(event, self._wall())
        for effect in effects:
            self._carry_out(effect)
        if done is not None and not done.done():
            done.set_result(sum(isinstance(effect, gm.Answer) for effect in effects))
        for group, outcome, seconds in self.gate.take_ended():
            LOG.info("a round ended", cause=self._cause, group=str(group), outcome=outcome, seconds=seconds)
            self._observer.round_ended(outcome)
            if outcome == "released":
                self._observer.released(seconds)

    # --- effects --------------------------------------------------------------------------------

    def _carry_out(self, effect: GateEffect) -> None:
        LOG.debug("effect", cause=self._cause, effect=type(effect).__name__, what=effect)
        match effect:
            case gm.Answer(call, error):
                answered = self._calls.pop(call, None)
                if answered is not None and not answered.done():
                    answered.set_result(error)
            case gm.Bind():
                self._spawn(self._bind(effect))
            case gm.ReadPod():
                self._spawn(self._read_pod(effect))
            case gm.ReadGroup():
                self._spawn(self._read_group(effect))
            case gm.AskRelease():
                self._spawn(self._ask(effect))
            case messages.Evict():
                self._spawn(self._evict(effect))
            case gm.StateCondition():
                self._spawn(self._state(effect))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        with logs.caused(self._cause):
            task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _bind(self, effect: gm.Bind) -> None:
        try:
            # with annotations it may have to wait for its node, and does so with the others of that node alone
            async with contextlib.nullcontext() if effect.annotations else self._bindings:
                done = await self._cluster.bind(effect)
        except Exception as error:
            _note("a binding ended in a way that nobody foresaw", error, uid=effect.uid)
            done = gm.BindDone(effect.uid, "muster: internal error while binding")
        self.post(done)

    async def _read_pod(self, effect: gm.ReadPod) -> None:
        try:
            async with self._others:
                pod = await self._cluster.read_pod(effect.namespace, effect.name)
        except Exception as error:
            _note("a pod could not be read", error, uid=effect.uid)
            self.post(gm.PodRead(effect.uid, None, failed=True))
        else:
            self.post(gm.PodRead(effect.uid, pod))

    async def _read_group(self, effect: gm.ReadGroup) -> None:
        try:
            async with self._others:
                group = await self._cluster.read_group(effect.key)
        except Exception as error:
            _note("a group could not be read", error, group=str(effect.key))
            self.post(gm.GroupRead(effect.key, effect.ask, None, failed=True))
        else:
            self.post(gm.GroupRead(effect.key, effect.ask, group))

    async def _ask(self, effect: gm.AskRelease) -> None:
        answers: Mapping[PodUid, Mapping[str, str] | None] | None
        try:
            answers = await self._extender.release(effect)
        except Exception as error:
            _note("the extender gave no answer to a release", error, group=str(effect.key))
            answers = None
        self.post(gm.ReleaseAnswered(effect.key, effect.ask, answers))

    async def _evict(self, effect: messages.Evict) -> None:
        try:
            async with self._others:
                await self._cluster.evict(effect)
        except Exception as error:
            _note("an eviction was refused", error, uid=effect.uid)
            self.post(gm.EvictDone(effect.uid, str(error) or "no answer"))
        else:
            self.post(gm.EvictDone(effect.uid))

    async def _state(self, effect: gm.StateCondition) -> None:
        try:
            async with self._others:
                await self._cluster.state(effect)
        except Exception as error:
            _note("a condition could not be written", error, uid=effect.uid)


def _note(message: str, error: Exception, **fields: str) -> None:
    """Whatever an effect ended with, the gate hears of its end; what nobody foresaw is logged with its trace."""
    if isinstance(error, Unavailable):
        LOG.warning(message, error=error, **fields)
    else:
        LOG.error(message, fault=error, **fields)
