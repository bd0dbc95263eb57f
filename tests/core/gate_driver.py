"""A gate with a clock and short words for its events, so that a test of it reads like a log.

Takes builders' values, gives effects; must not hold expectations, but for the answers that it keeps: a call
that is answered twice, or that was never made, fails at once.
"""

from __future__ import annotations

from collections.abc import Mapping

from extender.core import gate_messages as gm
from extender.core import messages
from extender.core.gate import Gate
from extender.core.gate_messages import CallId, GateEffect, GateEvent
from extender.core.ids import GroupKey, NodeName, PodUid
from extender.core.model import Group, Node, Pod
from extender.core.world import World
from tests import builders

START = 1_000_000.0
HTTP_TIMEOUT = 600.0


class Driver:
    """A gate that has listed the cluster and acts, unless told."""

    def __init__(self, *things: Node | Pod | Group, acting: bool = True, synced: bool = True) -> None:
        self.world = World()
        self.gate = Gate(self.world, HTTP_TIMEOUT)
        self.now = START
        self.answers: dict[CallId, str] = {}
        self._open: set[CallId] = set()
        self._calls = 0
        self.see(*things)
        if synced:
            self.send(gm.Synced())
        if acting:
            self.send(messages.ActivityChanged(True))

    def send(self, event: GateEvent) -> list[GateEffect]:
        """Hand over one event."""
        effects = self.gate.handle(event, self.now)
        for effect in effects:
            if isinstance(effect, gm.Answer):
                assert effect.call in self._open, f"call {effect.call} is answered twice, or after it was closed"
                self._open.remove(effect.call)
                self.answers[effect.call] = effect.error
        return effects

    @property
    def unanswered(self) -> set[CallId]:
        """Calls that are neither answered nor closed."""
        return set(self._open)

    def see(self, *things: Node | Pod | Group) -> list[GateEffect]:
        """The watch shows these."""
        return [effect for thing in things for effect in self.send(builders.seen(thing))]

    def call(self, pod: Pod, node: str = "gpu-0") -> list[GateEffect]:
        """The scheduler asks to bind this pod; calls are numbered from 1."""
        self._calls += 1
        call = CallId(self._calls)
        self.open_call(call)
        return self.send(gm.HoldCalled(call, pod.uid, pod.namespace, pod.name, NodeName(node)))

    def calls(self, pods: list[Pod], node: str = "gpu-0") -> list[GateEffect]:
        """The scheduler asks to bind all of these."""
        return [effect for pod in pods for effect in self.call(pod, node)]

    def open_call(self, call: CallId) -> None:
        """From now on this call waits for its answer."""
        self._open.add(call)

    def forget_call(self, call: CallId) -> None:
        """From now on an answer to this call is a fault."""
        self._open.discard(call)

    def close(self, call: int) -> list[GateEffect]:
        """The connection of this call is gone."""
        self.forget_call(CallId(call))
        return self.send(gm.CallClosed(CallId(call)))

    def gone(self, pod: Pod) -> list[GateEffect]:
        """The watch shows that the pod was deleted."""
        return self.send(messages.PodGone(pod.uid))

    def read(self, group: Group | None, ask: int = 1, key: GroupKey | None = None) -> list[GateEffect]:
        """The live group object is read."""
        assert group is not None or key is not None
        return self.send(gm.GroupRead(group.key if group is not None else key, ask, group))

    def let_go(self, key: GroupKey, pods: list[Pod], ask: int = 2) -> list[GateEffect]:
        """The extender lets these go without annotations, and vetoes nobody."""
        return self.release(key, {pod.uid: {} for pod in pods}, ask)

    def release(
        self, key: GroupKey, answers: Mapping[PodUid, Mapping[str, str] | None] | None, ask: int = 2
    ) -> list[GateEffect]:
        """The extender answers."""
        return self.send(gm.ReleaseAnswered(key, ask, answers))

    def done(self, pod: Pod, error: str = "", gone: bool = False) -> list[GateEffect]:
        """The binding is proved, or refused."""
        return self.send(gm.BindDone(pod.uid, error, gone))

    def wait(self, seconds: float) -> list[GateEffect]:
        """Time passes, then a tick."""
        self.now += seconds
        return self.send(messages.Tick())


def binds(pods: list[Pod], node: str = "gpu-0") -> list[GateEffect]:
    """The Bind effects of these pods."""
    return [gm.Bind(pod.uid, pod.namespace, pod.name, NodeName(node)) for pod in pods]


def asked(key: GroupKey, pods: list[Pod], ask: int = 2, node: str = "gpu-0") -> gm.AskRelease:
    """The question to the extender about these."""
    members = tuple(gm.Member(pod.uid, pod.namespace, pod.name, NodeName(node)) for pod in pods)
    return gm.AskRelease(key, ask, members)


def answers(error: str, *calls: int) -> list[GateEffect]:
    """The Answer effects of these calls."""
    return [gm.Answer(CallId(call), error) for call in calls]
