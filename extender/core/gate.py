"""The permit gate's one door: `gate.handle(event, now) -> effects`.

Takes what the watches show, bind calls, answers and the time; gives effects for the shell to carry out. Must
not do I/O, and knows pods, groups and nodes only, nothing of queues or plans.

`now` never runs backwards and counts seconds since the epoch: it is compared with when pods were bound.
The three parts below it: `rounds` decides about groups, `book` keeps holds and room, `holds` is the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from extender.core import gate_messages as gm
from extender.core import messages
from extender.core.book import Book
from extender.core.gate_messages import GateEffect, GateEvent, Why
from extender.core.holds import Hold, State
from extender.core.ids import GroupKey, NodeName, PodUid, Source
from extender.core.model import Hold as ShownHold
from extender.core.model import Pod
from extender.core.reasons import Refusal
from extender.core.rounds import OF_TIMEOUT, Rounds
from extender.core.world import World

#: what speaks against a call may be old news: kube-scheduler may know already that a gate was removed, a node
#: added, or room left by a pod. So long a call waits for our watch before it is refused for that
WATCH_LAG_SECONDS = 0.3


class Gate:
    """All of the permit gate's state. Only `handle` changes it."""

    def __init__(self, world: World, http_timeout: float) -> None:
        self._world = world
        self._book = Book(world)
        self._rounds = Rounds(world, self._book, http_timeout)
        self._longest = OF_TIMEOUT * http_timeout
        self._synced = False
        self._stopping = False
        #: holds whose pod is not known well enough yet
        self._reading: dict[PodUid, Hold] = {}
        #: pods whose binding was proved to us before our watch shows it
        self._proved: dict[PodUid, NodeName] = {}

    def handle(self, event: GateEvent, now: float) -> list[GateEffect]:
        """Take in one event and say what is to be done."""
        handler: Callable[[Any, float], None] = self._HANDLERS[type(event)].__get__(self)
        handler(event, now)
        effects, self._book.out = self._book.out, []
        return effects

    # --- what the shell may ask -----------------------------------------------------------------

    @property
    def version(self) -> int:
        """Changes whenever `shown` does."""
        return self._book.version

    @property
    def held(self) -> int:
        """How many calls' pods wait or are being bound."""
        return len(self._book.holds)

    def take_ended(self) -> list[tuple[GroupKey, str, float]]:
        """Rounds that ended since this was asked last: group, outcome, seconds that the release took."""
        ended, self._rounds.ended = self._rounds.ended, []
        return ended

    @property
    def binding(self) -> int:
        """How many bindings are under way."""
        return sum(hold.state is State.COMMITTING for hold in self._book.holds.values())

    def shown(self) -> tuple[ShownHold, ...]:
        """The list of holds, as the extender reads it."""
        return tuple(
            ShownHold(
                uid=hold.uid,
                node=hold.node,
                group=hold.group or GroupKey(Source.POD, hold.namespace, hold.uid),
                round=hold.gang.round if hold.gang is not None else 0,
                releasing=hold.state is State.COMMITTING,
            )
            for hold in self._book.holds.values()
        )

    def stories(self, limit: int) -> list[dict[str, object]]:
        """The newest holds with their stories, for `/debug/state`."""
        return [
            {"uid": h.uid, "node": h.node, "group": str(h.group), "since": h.since, "story": h.story}
            for h in list(self._book.holds.values())[-limit:]
        ]

    # --- calls ----------------------------------------------------------------------------------

    def _hold_called(self, event: gm.HoldCalled, now: float) -> None:
        refused = self._refuses_all()
        if refused is not None:
            self._book.out.append(gm.Answer(event.call, refused))
            return
        before = self._book.holds.get(event.uid)
        if before is not None and before.state is State.COMMITTING:
            if before.node == event.node:
                self._book.join(before, event.call)
            else:
                self._book.out.append(gm.Answer(event.call, f"muster: the pod is being bound to {before.node}"))
            return
        if before is not None:
            self._end(before, Why.SUPERSEDED, now)
        self._admit(self._book.open(event, now), now)

    def _refuses_all(self) -> Why | None:
        if self._stopping:
            return Why.STOPPING
        if not self._synced:
            return Why.NOT_READY
        return None if self._rounds.acting else Why.NOT_ACTIVE

    def _call_closed(self, event: gm.CallClosed, now: float) -> None:
        hold = self._book.hang_up(event.call, now)
        if hold is not None:
            self._left(hold, now)

    def _end(self, hold: Hold, error: str, now: float) -> None:
        self._book.answer(hold, error, now)
        self._left(hold, now)

    def _left(self, hold: Hold, now: float) -> None:
        """A hold has ended, or only its call has."""
        self._reading.pop(hold.uid, None)
        if hold.gang is not None:
            self._rounds.look(hold.gang.key, now)

    # --- from a call to its place ---------------------------------------------------------------

    def _admit(self, hold: Hold, now: float) -> None:
        """Look at the pod of a hold that waits for nothing but that."""
        pod = self._world.pods.get(hold.uid)
        if pod is None and not self._world.knows(hold.uid):
            self._reading[hold.uid] = hold
            self._read(hold)
            return
        if pod is not None and pod.gates and not hold.pod_is_live and _unfit(hold, pod) is None:
            if hold.uid not in self._reading:
                self._reading[hold.uid] = hold
                hold.read_at = now + WATCH_LAG_SECONDS
            return
        self._reading.pop(hold.uid, None)
        if pod is None:
            self._book.answer(hold, Why.POD_GONE, now)
        elif pod.node == hold.node:
            self._book.answer(hold, "", now)
        else:
            refused = _unfit(hold, pod) or (Why.POD_GATED if pod.gates else None)
            if refused is not None:
                self._book.answer(hold, refused, now)
            else:
                self._place(hold, pod, now)

    def _read(self, hold: Hold) -> None:
        if not hold.read_sent:
            hold.read_sent = True
            self._book.out.append(gm.ReadPod(hold.uid, hold.namespace, hold.name))

    def _place(self, hold: Hold, pod: Pod, now: float) -> None:
        """A pod that can be bound: at once, or with its group."""
        hold.group, hold.task = pod.group, pod.task
        self._book.measure(hold, pod)
        refused = self._book.refusal(hold, pod) if pod.ours else None
        if refused is not None and now < hold.since + WATCH_LAG_SECONDS:
            hold.again = True
            self._reading[hold.uid] = hold
        elif refused is not None:
            self._book.answer(hold, refused, now)
        elif pod.ours and pod.group.lone and isinstance(self._world.need(pod.group), Refusal):
            self._book.answer(hold, Why.INVALID, now)
        elif pod.ours and (not pod.group.lone or self._rounds.on_hami(hold)):
            self._rounds.place(hold, now)
        else:
            self._book.commit([hold], {}, now)

    def _pod_read(self, event: gm.PodRead, now: float) -> None:
        hold = self._reading.get(event.uid)
        if hold is None or not hold.read_sent:
            return
        if event.failed:
            self._end(hold, Why.POD_UNREAD, now)
        elif event.pod is None or event.pod.uid != event.uid:
            self._end(hold, Why.POD_GONE, now)
        else:
            hold.pod_is_live = True
            self._take_pod(event.pod, now)
            if hold.state is State.READING:
                self._admit(hold, now)

    # --- what the watches show ------------------------------------------------------------------

    def _pod_seen(self, event: messages.PodSeen, now: float) -> None:
        pod = event.pod
        proved = self._proved.get(pod.uid)
        if proved is not None:
            if pod.node is None:
                pod = replace(pod, node=proved)  # an older state than the one that was proved
            else:
                del self._proved[pod.uid]
        self._take_pod(pod, now)

    def _take_pod(self, pod: Pod, now: float) -> None:
        before = self._world.pods.get(pod.uid)
        self._world.apply(messages.PodSeen(pod))
        if pod.uid not in self._world.pods:
            return  # known to be gone
        self._rounds.member_changed(before, pod, now)
        hold = self._book.holds.get(pod.uid)
        if hold is not None:
            self._hold_changed(hold, pod, now)
        if pod.node is not None and (before is None or _use(before) != _use(pod)):
            self._book.recheck(pod.node, now)
        self._rounds.look(pod.group, now)

    def _hold_changed(self, hold: Hold, pod: Pod, now: float) -> None:
        if hold.state is State.READING:
            self._admit(hold, now)
        elif hold.state is State.COMMITTING:
            if pod.node == hold.node:
                self._end(hold, "", now)  # the watch is ahead of the reply: proved
            elif not pod.waiting:
                self._rounds.write_off(hold)
        elif pod.node == hold.node:
            self._end(hold, "", now)
        else:
            refused = _unfit(hold, pod) or (Why.POD_REGROUPED if pod.group != hold.group else None)
            if refused is not None:
                self._end(hold, refused, now)
            else:
                self._book.reshape(hold, pod, now)

    def _pod_gone(self, event: messages.PodGone, now: float) -> None:
        pod = self._world.pods.get(event.uid)
        self._world.apply(event)
        self._proved.pop(event.uid, None)
        self._rounds.member_changed(pod, None, now)
        hold = self._book.holds.get(event.uid)
        if hold is not None and hold.state is State.COMMITTING:
            self._rounds.write_off(hold)
        elif hold is not None:
            self._end(hold, Why.POD_GONE, now)
        if pod is not None:
            self._rounds.look(pod.group, now)

    def _node_seen(self, event: messages.NodeSeen, now: float) -> None:
        self._world.apply(event)
        self._book.recheck(event.node.name, now)

    def _node_gone(self, event: messages.NodeGone, now: float) -> None:
        self._world.apply(event)
        self._book.recheck(event.name, now)

    def _group_seen(self, event: messages.GroupSeen, now: float) -> None:
        self._rounds.learn(event.group)
        self._rounds.look(event.group.key, now)

    def _group_gone(self, event: messages.GroupGone, now: float) -> None:
        self._world.apply(event)
        self._rounds.look(event.key, now)

    def _other_seen(self, event: messages.WorldEvent, now: float) -> None:
        self._world.apply(event)

    # --- answers --------------------------------------------------------------------------------

    def _bind_done(self, event: gm.BindDone, now: float) -> None:
        hold = self._book.holds.get(event.uid)
        if hold is None or hold.state is not State.COMMITTING:
            return
        self._book.answer(hold, event.error, now)
        pod = self._world.pods.get(event.uid)
        if event.gone:
            self._pod_gone(messages.PodGone(event.uid), now)
        elif not event.error and pod is not None and pod.node is None:
            self._proved[event.uid] = hold.node
            self._take_pod(replace(pod, node=hold.node), now)
        if hold.gang is not None:
            self._rounds.settle(hold.gang, now)
            self._rounds.look(hold.gang.key, now)

    def _withdrawn(self, event: gm.Withdrawn, now: float) -> None:
        for uid in event.uids:
            hold = self._book.holds.get(uid)
            if hold is not None and hold.state is not State.COMMITTING:
                self._end(hold, Why.WITHDRAWN, now)

    def _group_read(self, event: gm.GroupRead, now: float) -> None:
        self._rounds.group_read(event, now)

    def _release_answered(self, event: gm.ReleaseAnswered, now: float) -> None:
        self._rounds.released(event, now)

    def _evict_done(self, event: gm.EvictDone, now: float) -> None:
        self._rounds.evicted(event, now)

    # --- the whole gate -------------------------------------------------------------------------

    def _synced_now(self, event: gm.Synced, now: float) -> None:
        self._synced = True
        if self._rounds.acting:
            self._rounds.recognise(now)

    def _activity_changed(self, event: messages.ActivityChanged, now: float) -> None:
        if event.active and not self._rounds.acting and self._synced:
            self._rounds.recognise(now)
        self._rounds.acting = event.active and not self._stopping
        if not event.active:
            self._refuse_waiting(Why.NOT_ACTIVE, now)

    def _stop(self, event: gm.Stopping, now: float) -> None:
        self._stopping = True
        self._rounds.acting = False
        self._refuse_waiting(Why.STOPPING, now)

    def _refuse_waiting(self, why: Why, now: float) -> None:
        for hold in list(self._book.holds.values()):
            if hold.state is not State.COMMITTING:
                self._end(hold, why, now)

    def _tick(self, event: messages.Tick, now: float) -> None:
        for hold in list(self._reading.values()):
            if now - hold.since >= self._longest:
                self._end(hold, Why.POD_UNREAD, now)
            elif hold.read_at is not None and now >= hold.read_at:
                hold.read_at = None
                self._read(hold)
            elif hold.again:
                hold.again = False
                self._admit(hold, now)
        self._rounds.on_time(now)

    _HANDLERS: ClassVar[dict[type, Any]] = {
        gm.HoldCalled: _hold_called,
        gm.CallClosed: _call_closed,
        gm.Synced: _synced_now,
        gm.PodRead: _pod_read,
        gm.GroupRead: _group_read,
        gm.ReleaseAnswered: _release_answered,
        gm.BindDone: _bind_done,
        gm.EvictDone: _evict_done,
        gm.Withdrawn: _withdrawn,
        gm.Stopping: _stop,
        messages.ActivityChanged: _activity_changed,
        messages.Tick: _tick,
        messages.PodSeen: _pod_seen,
        messages.PodGone: _pod_gone,
        messages.NodeSeen: _node_seen,
        messages.NodeGone: _node_gone,
        messages.GroupSeen: _group_seen,
        messages.GroupGone: _group_gone,
        messages.NamespaceSeen: _other_seen,
        messages.NamespaceGone: _other_seen,
        messages.TopologySeen: _other_seen,
        messages.TopologyGone: _other_seen,
        messages.HyperNodeSeen: _other_seen,
        messages.HyperNodeGone: _other_seen,
        messages.QueueSeen: _other_seen,
        messages.QueueGone: _other_seen,
    }


def _unfit(hold: Hold, pod: Pod) -> str | None:
    """Why this pod cannot be bound to the hold's node for good, if so."""
    if (pod.namespace, pod.name) != (hold.namespace, hold.name):
        return Why.POD_OTHER
    if pod.node is not None and pod.node != hold.node:
        return f"muster: the pod is already bound to {pod.node}"
    if pod.ended:
        return Why.POD_ENDED
    return Why.POD_LEAVING if pod.terminating else None


def _use(pod: Pod) -> tuple[object, ...]:
    return (pod.node, pod.ended, pod.shape.request)
