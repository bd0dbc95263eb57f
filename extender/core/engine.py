"""The engine: `handle(event, now) -> effects` is the only door to the extender's decisions.

Takes world events, calls and results; gives effects and a published view; must not read a clock, do I/O
or log. One cycle is `_cycle`, numbered as in design section 5.

    Waiting(refusal) <──revoke── Planned ──all minimums bound──> Running ──member lost──> Waiting or Planned
          └───────────place──────────^                              └─ surplus and replacements one by one

Nothing here survives a restart: on becoming active the engine rebuilds its plans from the bind calls that
the gate holds and from nominations, and judges every group anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from extender.core import messages, ordering, plans, stating
from extender.core.backlog import Backlog, Waiting
from extender.core.explain import is_ours
from extender.core.feasibility import Feasibility
from extender.core.ids import DEFAULT_QUEUE, GroupKey, NodeName, PodUid, QueueName
from extender.core.ledger import Slot
from extender.core.membership import Need, Standing, Tally, satisfied, standing
from extender.core.model import Group, Hold, Node, Pod
from extender.core.planning import EXPECT_SECONDS, Entry
from extender.core.reasons import Reason, Refusal
from extender.core.snapshot import Room, Snapshot
from extender.core.view import View
from extender.core.world import World

#: node lists that kube-scheduler offered are believed for this long
OFFERED_SECONDS = 10.0
#: a plan that kube-scheduler's checks refused is tried again after this time, or when a list is offered
REFUSED_RETRY_SECONDS = 2.0
#: a failed write is decided again after this time
FAILED_RETRY_SECONDS = 1.0
#: queues are opened at most so often; closing is immediate
REOPEN_SECONDS = 1.0
#: reasons that room would end: they close the queue for ungated pods
_FOR_ROOM = (Reason.RESOURCES, Reason.FRAGMENTED, Reason.TOPOLOGY, Reason.QUEUED)


class Engine:
    """All state of the extender's decisions. One owner calls `handle`; everybody may read `view`."""

    def __init__(self, nominate_above: int) -> None:
        self.world = World()
        self.active = False
        self.entries: dict[GroupKey, Entry] = {}
        self.backlog = Backlog()
        self._plans = plans.Plans(self.world)
        self.view = View(self.world, self._plans, self.entries)
        self._nominate_above = nominate_above
        self._feasibility = Feasibility()
        #: groups to look at in the next cycle; `_grown`: room appeared, look at all that wait
        self._dirty: dict[GroupKey, None] = {}
        self._grown = False
        #: nodes where a plan may have lost its room
        self._suspects: set[NodeName] = set()
        #: when to look at a group again though nothing happens to it
        self._timers: dict[GroupKey, float] = {}
        self._waiting: dict[GroupKey, None] = {}
        self._open_seen: frozenset[QueueName] | None = None
        self._open_asked: frozenset[QueueName] | None = None
        self._opened_at = float("-inf")
        self._effects: list[messages.Effect] = []

    def handle(self, event: messages.EngineEvent, now: float) -> list[messages.Effect]:
        """Take in one event at a time (seconds, never going back) and say what to do about it."""
        handler = self._HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event, now)
        else:
            self._world_event(event, now)
        effects, self._effects = self._effects, []
        return effects

    def self_check(self) -> int:
        """Reservations that no waiting pod, no expectation and no revocation accounts for: 0, or a fault."""
        return self._plans.unaccounted()

    # --- world events ---------------------------------------------------------------------------

    def _world_event(self, event: Any, now: float) -> None:
        """Everything that changes the world but no single group: all that waits is looked at again."""
        self.world.apply(event)
        self._grown = True

    def _pod_seen(self, event: messages.PodSeen, now: float) -> None:
        before = self.world.pods.get(event.pod.uid)
        self.world.apply(event)
        pod = self.world.pods.get(event.pod.uid)
        if pod is None or not self.active:
            return
        self._note_room(before, pod)
        if pod.ours:
            entry = self._entry(pod.group, pod.created, now)
            if before is None:
                self._member_appeared(entry, pod, now)
            else:
                self._member_changed(entry, before, pod, now)
        elif pod.group in self.entries:
            self._dirty[pod.group] = None

    def _pod_gone(self, event: messages.PodGone, now: float) -> None:
        before = self.world.pods.get(event.uid)
        self.world.apply(event)
        if before is None or not self.active:
            return
        self._note_room(before, None)
        if before.group in self.entries:
            self._member_lost(self.entries[before.group], before.uid, now)

    def _note_room(self, before: Pod | None, pod: Pod | None) -> None:
        was = before.node if before is not None and not before.ended else None
        is_now = pod.node if pod is not None and not pod.ended else None
        if was is not None and was != is_now:
            self._grown = True
        if is_now is not None and was != is_now:
            self._suspects.add(is_now)

    def _member_appeared(self, entry: Entry, pod: Pod, now: float) -> None:
        entry.changed_at = now
        if standing(pod) is Standing.WAITING and self._plans.claim(pod):
            self._effects += self._plans.lead_one(entry, pod, self._nominating, now)
        else:
            self._dirty[entry.key] = None

    def _member_changed(self, entry: Entry, before: Pod, pod: Pod, now: float) -> None:
        was, is_now = standing(before), standing(pod)
        if is_now is Standing.BOUND and was is not Standing.BOUND:
            self._member_bound(entry, pod)
        elif was is not is_now:
            if is_now in (Standing.LEAVING, Standing.FAILED, Standing.SUCCEEDED):
                self._member_lost(entry, pod.uid, now)
            self._dirty[entry.key] = None
        elif _judged_by(before) != _judged_by(pod):
            if self._plans.forget(pod.uid):
                self._grown = True
            self._dirty[entry.key] = None
        elif pod.rejection != before.rejection and pod.rejection:
            self._scheduler_rejected(entry, pod, now)

    def _member_bound(self, entry: Entry, pod: Pod) -> None:
        self._plans.forget(pod.uid)
        entry.led.pop(pod.uid, None)
        entry.offered.pop(pod.uid, None)
        entry.rejected.discard(pod.uid)
        need = self.world.need(entry.key)
        if not isinstance(need, Need) or satisfied(need, self.world.tallies[entry.key]):
            self._dirty[entry.key] = None

    def _member_lost(self, entry: Entry, uid: PodUid, now: float) -> None:
        entry.changed_at = now
        entry.led.pop(uid, None)
        entry.offered.pop(uid, None)
        entry.rejected.discard(uid)
        if self._plans.forget(uid):
            self._grown = True
        self._dirty[entry.key] = None

    def _node_seen(self, event: messages.NodeSeen, now: float) -> None:
        before = self.world.node(event.node.name)
        self.world.apply(event)
        if before is None or _facts(before) != _facts(event.node):
            self._suspects.add(event.node.name)
            self._grown = True

    def _node_gone(self, event: messages.NodeGone, now: float) -> None:
        for reservation in self._plans.ledger.drop_node(event.name):
            self._unplaced(reservation.group, PodUid(reservation.slot))
        self.world.apply(event)

    def _group_seen(self, event: messages.GroupSeen, now: float) -> None:
        before = self.world.groups.get(event.group.key)
        self.world.apply(event)
        if event.group.key in self.entries and (before is None or _asked(before) != _asked(event.group)):
            self._dirty[event.group.key] = None

    def _group_gone(self, event: messages.GroupGone, now: float) -> None:
        self.world.apply(event)
        if event.key in self.entries:
            self._dirty[event.key] = None

    # --- calls and results ----------------------------------------------------------------------

    def _filter_called(self, event: messages.FilterCalled, now: float) -> None:
        if not self.active:
            return
        if not self.world.knows(event.pod.uid):
            self._pod_seen(messages.PodSeen(event.pod), now)
        pod = self.world.pods.get(event.pod.uid)
        if pod is None or not pod.waiting:
            return
        entry = self._entry(pod.group, pod.created, now)
        node = self.view.planned(pod.uid)
        if node is None:
            self._judge_now(entry, pod, event.offered, now)
            node = self.view.planned(pod.uid)
        if node is not None and node not in event.offered:
            self._not_offered(entry, pod, event.offered, now)
        if self.view.planned(pod.uid) is None:
            entry.rejected.add(pod.uid)

    def _judge_now(self, entry: Entry, pod: Pod, offered: tuple[NodeName, ...], now: float) -> None:
        if entry.refusal is not None and entry.refusal.reason is Reason.SCHEDULER_REFUSED:
            self._offer(entry, pod.uid, offered, now)
            entry.retry_at = now
        self._dirty[entry.key] = None
        self._cycle(now)

    def _not_offered(self, entry: Entry, pod: Pod, offered: tuple[NodeName, ...], now: float) -> None:
        """kube-scheduler's own checks took the planned node away: the offered list is the truth."""
        if len(offered) == 1 and offered[0] == pod.nominated:
            return  # the first pass of a pod with an older nomination; the full list follows
        self._offer(entry, pod.uid, offered, now)
        room = self._room()
        if not self._plans.move(entry, pod, room):
            refusal = (
                self._plans.remake(entry, room, now) if not self._held(entry) else Refusal(Reason.QUEUED)
            )
            if refusal is not None:
                self._refuse(entry, plans.refused_by_scheduler(entry), now)
                return
        self._lead(entry, now)

    def _scheduler_rejected(self, entry: Entry, pod: Pod, now: float) -> None:
        """kube-scheduler found no node at all for a planned pod, so filter was not even called."""
        if is_ours(pod.rejection) or self.view.planned(pod.uid) is None or pod.uid in self._plans.holds:
            return
        entry.refused_by = pod.rejection
        self._offer(entry, pod.uid, (), now)
        self._refuse(entry, plans.refused_by_scheduler(entry), now)

    def _offer(self, entry: Entry, uid: PodUid, offered: tuple[NodeName, ...], now: float) -> None:
        entry.offered[uid] = frozenset(offered)
        entry.offered_at = now

    def _filter_rejected(self, event: messages.FilterRejected, now: float) -> None:
        pod = self.world.pods.get(event.uid)
        if pod is not None and pod.group in self.entries:
            self.entries[pod.group].rejected.add(event.uid)

    def _holds_seen(self, event: messages.HoldsSeen, now: float) -> None:
        before, self._plans.holds = self._plans.holds, {hold.uid: hold for hold in event.holds}
        if not self.active:
            return
        for uid in before.keys() - self._plans.holds.keys():
            self._settle(uid, self._plans.settle(uid))
        astray = tuple(hold.uid for hold in event.holds if hold.uid not in before and self._astray(hold))
        if astray:
            self._effects.append(messages.Withdraw(astray))

    def _astray(self, hold: Hold) -> bool:
        """True when the held call is of no plan of ours, and cannot become part of one."""
        pod = self.world.pods.get(hold.uid)
        if pod is None or not pod.waiting or pod.group.lone:
            return False  # the gate judges these itself
        planned = self._plans.ledger.get(Slot(hold.uid))
        if planned is not None and planned.node == hold.node:
            return False
        if planned is None and self._waits(pod.group):
            return True
        self._plans.forget(hold.uid)
        self._dirty[pod.group] = None
        return not self._plans.adopt(pod, hold.node)

    def _waits(self, key: GroupKey) -> bool:
        entry = self.entries.get(key)
        return entry is not None and entry.refusal is not None

    def _activity_changed(self, event: messages.ActivityChanged, now: float) -> None:
        if event.active == self.active:
            return
        self.active = event.active
        self.entries.clear()
        self._plans.reset()
        self.backlog = Backlog()
        for index in (self._dirty, self._timers, self._waiting, self._suspects):
            index.clear()
        self._open_asked = None
        if self.active:
            self._adopt_all(now)

    def _adopt_all(self, now: float) -> None:
        for pod in list(self.world.pods.values()):
            if not pod.ours:
                continue
            entry = self._entry(pod.group, pod.created, now)
            self._dirty[pod.group] = None
            hold = self._plans.holds.get(pod.uid)
            node = hold.node if hold is not None else pod.nominated
            if node is not None and standing(pod) is Standing.WAITING and self._plans.adopt(pod, node):
                entry.planned_at = now

    def _open_queues_seen(self, event: messages.OpenQueuesSeen, now: float) -> None:
        self._open_seen = event.names
        self._open_asked = None

    def _effect_done(self, event: messages.EffectDone, now: float) -> None:
        effect = event.effect
        if isinstance(effect, messages.SetOpenQueues):
            self._open_asked = None if event.error else self._open_asked
        elif isinstance(effect, messages.Nominate) and effect.node is None:
            # an error here means that the pod is gone or bound: nothing of it is nominated either way
            self._settle(effect.uid, self._plans.cleared(effect.uid))
        elif event.error and isinstance(effect, messages.Ungate | messages.Nominate | messages.Wake):
            pod = self.world.pods.get(effect.uid)
            if pod is not None and pod.group in self.entries:
                self.entries[pod.group].led.pop(effect.uid, None)
                self._timers[pod.group] = now + FAILED_RETRY_SECONDS

    def _settle(self, uid: PodUid, freed: bool) -> None:
        if freed:
            self._grown = True
            pod = self.world.pods.get(uid)
            if pod is not None and pod.group in self.entries:
                self._dirty[pod.group] = None

    def _tick(self, event: messages.Tick, now: float) -> None:
        for key in [key for key, at in self._timers.items() if at <= now]:
            del self._timers[key]
            self._dirty[key] = None
        if self.active:
            self._cycle(now)

    # --- the cycle ------------------------------------------------------------------------------

    def _cycle(self, now: float) -> None:
        """One round of decisions over one snapshot. Steps 2 and 5 of design section 5 come with queues."""
        for reservation in self._plans.broken(self._suspects, self._feasibility.at(self.world)):
            self._unplaced(reservation.group, PodUid(reservation.slot))
        self._suspects.clear()
        if self._grown:
            self._dirty.update(self._waiting)
            self._grown = False
        if self._dirty:
            room = self._room()  # 1. snapshot
            failed: dict[object, Refusal] = {}
            for entry in self._in_order():  # 3. order
                self._turn(entry, room, failed, now)  # 4. place
        self._list_open_queues(now)

    def _in_order(self) -> list[Entry]:
        found = [self.entries[key] for key in self._dirty if key in self.entries]
        self._dirty.clear()
        if len(found) > 1:
            found.sort(key=lambda e: ordering.order_key(e.key, self._priority(e.key), e.arrival))
        return found

    def _priority(self, key: GroupKey) -> int:
        tally = self.world.tallies.get(key)
        group = self.world.groups.get(key)
        lowest = min(tally.priorities, default=0) if tally is not None else 0
        return lowest if group is None or group.priority is None else min(lowest, group.priority)

    def _turn(self, entry: Entry, room: Room, failed: dict[object, Refusal], now: float) -> None:
        if entry.key not in self.world.members:
            self._forget_group(entry)
            return
        if self._plans.lingers(entry) or now < entry.retry_at:
            self._timers.setdefault(entry.key, max(entry.retry_at, now))
            return
        if entry.offered and now - entry.offered_at > OFFERED_SECONDS:
            entry.offered.clear()
        same = self._same(entry)
        refusal = failed.get(same) or self._plans.make(entry, room, now)
        need = self.world.need(entry.key)
        tally = self.world.tallies[entry.key]
        entry.running = isinstance(need, Need) and satisfied(need, tally)
        if refusal is None:
            self._admitted(entry, now)
        else:
            if same is not None:
                failed[same] = refusal
            self._refuse(entry, refusal, now, keep=entry.running)
        self._state(entry, now)

    def _same(self, entry: Entry) -> object | None:
        """Lone pods with an equal value fare alike in one cycle, as room only shrinks while it lasts."""
        if not entry.key.lone or entry.offered or self._plans.ledger.of_group(entry.key):
            return None
        pod = next(iter(self.world.members[entry.key].values()))
        declared = pod.declared
        return (pod.shape, declared.topology_required) if standing(pod) is Standing.WAITING else None

    def _admitted(self, entry: Entry, now: float) -> None:
        entry.refusal = None
        self._waiting.pop(entry.key, None)
        self.backlog.put(entry.key, None)
        expecting = any(r.expected for r in self._plans.ledger.of_group(entry.key).values())
        if expecting:
            self._timers[entry.key] = entry.changed_at + EXPECT_SECONDS
        self._lead(entry, now)

    def _refuse(self, entry: Entry, refusal: Refusal, now: float, keep: bool = False) -> None:
        """The group waits. Its plan is given up, unless it runs and only more members wait (`keep`)."""
        if refusal.reason is Reason.SCHEDULER_REFUSED:
            entry.retry_at = now + REFUSED_RETRY_SECONDS
            self._timers[entry.key] = entry.retry_at
        if keep:
            self._lead(entry, now)
        elif self._plans.ledger.of_group(entry.key):
            self._effects += self._plans.revoke(entry)
            self._grown = True
        if entry.refusal is None or entry.refusal.reason is not refusal.reason:
            entry.refused_at = now
        entry.refusal = refusal
        self._waiting[entry.key] = None
        self.backlog.put(entry.key, self._as_waiting(entry, refusal))

    def _as_waiting(self, entry: Entry, refusal: Refusal) -> Waiting:
        tally = self.world.tallies.get(entry.key) or Tally()
        need = self.world.need(entry.key)
        queue = need.queue if isinstance(need, Need) else next(filter(None, tally.queues), DEFAULT_QUEUE)
        planned = len(self._plans.ledger.of_group(entry.key))
        strays = max(0, tally.count(Standing.WAITING) - tally.gated - planned)
        return Waiting(queue, strays, refusal.reason in _FOR_ROOM)

    def _forget_group(self, entry: Entry) -> None:
        self._effects += self._plans.revoke(entry)
        self.backlog.put(entry.key, None)
        for index in (self.entries, self._waiting, self._timers):
            index.pop(entry.key, None)

    # --- small things ---------------------------------------------------------------------------

    def _entry(self, key: GroupKey, created: float, now: float) -> Entry:
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = Entry(key, arrival=created, changed_at=now)
        entry.arrival = min(entry.arrival, created)
        return entry

    def _room(self) -> Room:
        self._plans.ledger.fit()
        return Room(Snapshot.take(self.world, self._feasibility, self._plans.ledger.reserved))

    def _held(self, entry: Entry) -> bool:
        return any(PodUid(slot) in self._plans.holds for slot in self._plans.ledger.of_group(entry.key))

    def _unplaced(self, key: GroupKey, uid: PodUid) -> None:
        """A reservation was lost with its node or its room."""
        self._grown = True
        entry = self.entries.get(key)
        if entry is not None:
            entry.led.pop(uid, None)
            self._dirty[key] = None

    def _lead(self, entry: Entry, now: float) -> None:
        self._effects += self._plans.lead(entry, self._nominating, now)

    @property
    def _nominating(self) -> bool:
        """With many nodes the scheduler is led by nomination; then no queue is open (design 3.3)."""
        return len(self.world.nodes.row_of) > self._nominate_above

    def _state(self, entry: Entry, now: float) -> None:
        group = self.world.groups.get(entry.key)
        if group is None:
            return
        statement = stating.state(entry, group, self.world.tallies[entry.key])
        if statement is None:
            return
        due = entry.refused_at + stating.STATE_AFTER_SECONDS
        if entry.refusal is not None and not entry.running and now < due:
            self._timers.setdefault(entry.key, due)
            return
        entry.stated = stating.said(statement)
        self._effects.append(statement)

    def _list_open_queues(self, now: float) -> None:
        known = {DEFAULT_QUEUE, *(name for name, queue in self.world.queues.items() if not queue.closed)}
        wanted = frozenset(name for name in known if not self._nominating and self.backlog.is_open(name))
        have = self._open_asked if self._open_asked is not None else self._open_seen
        if wanted == have:
            return
        opening = have is not None and wanted > have
        if opening and now < self._opened_at + REOPEN_SECONDS:
            return
        self._opened_at = now
        self._open_asked = wanted
        self._effects.append(messages.SetOpenQueues(wanted))

    _HANDLERS: ClassVar[dict[type, Callable[[Engine, Any, float], None]]] = {
        messages.PodSeen: _pod_seen,
        messages.PodGone: _pod_gone,
        messages.NodeSeen: _node_seen,
        messages.NodeGone: _node_gone,
        messages.GroupSeen: _group_seen,
        messages.GroupGone: _group_gone,
        messages.FilterCalled: _filter_called,
        messages.FilterRejected: _filter_rejected,
        messages.HoldsSeen: _holds_seen,
        messages.ActivityChanged: _activity_changed,
        messages.OpenQueuesSeen: _open_queues_seen,
        messages.EffectDone: _effect_done,
        messages.Tick: _tick,
    }


def _judged_by(pod: Pod) -> tuple[object, ...]:
    """What of a waiting pod changes its group's judgement."""
    return (pod.shape, pod.task, pod.queue, pod.priority, pod.declared, pod.problems)


def _facts(node: Node) -> tuple[object, ...]:
    return (node.labels, node.taints, node.unschedulable, node.ready, node.allocatable)


def _asked(group: Group) -> tuple[object, ...]:
    """The part of a group's object that its owner writes."""
    return (
        group.uid,
        group.min_member,
        group.tasks,
        group.queue,
        group.topology_required,
        group.topology_preferred,
        group.schedule_timeout,
        group.priority,
        group.problems,
    )
