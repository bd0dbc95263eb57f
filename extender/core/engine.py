"""The engine: `handle(event, now) -> effects` is the only door to the extender's decisions.

Takes world events, calls and results; gives effects and a published view; must not read a clock, do I/O
or log. The handlers here note what happened; `cycle` decides.

    Waiting(refusal) <──revoke── Planned ──all minimums bound──> Running ──member lost──> Waiting or Planned
          └───────────place──────────^                              └─ surplus and replacements one by one

Nothing here survives a restart: on becoming active the engine rebuilds its plans from the bind calls that
the gate holds and from nominations, and judges every group anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from extender.core import changes, messages, plans
from extender.core.admissions import Admissions
from extender.core.backlog import Backlog
from extender.core.cycle import Cycle
from extender.core.explain import is_ours
from extender.core.ids import GroupKey, NodeName, PodUid, QueueName
from extender.core.membership import Need, Standing, satisfied, standing
from extender.core.model import Group, Hold, Node, Pod
from extender.core.planning import Entry
from extender.core.preemption import Decision
from extender.core.reasons import Overcommit, Reason, Refusal
from extender.core.view import View
from extender.core.world import World

#: a failed write is decided again after this time
FAILED_RETRY_SECONDS = 1.0
#: a group whose plans kube-scheduler refused so often is tried anew when it is time, not for each call
_TRIED_AT_ONCE = 2
#: a node or card whose kubelet refused so many pods in a row gets nothing more until it reports a change
MAX_REJECTIONS = 3


class Engine:
    """All state of the extender's decisions. One owner calls `handle`; everybody may read `view`."""

    def __init__(self, nominate_above: int, turns: int | None = None, *, max_rejections: int = MAX_REJECTIONS) -> None:
        self.world = World()
        self._admissions = Admissions(self.world, max_rejections)
        self.active = False
        self._cycle = Cycle(self.world, nominate_above, turns)
        self._plans = self._cycle.plans
        self.entries, self.starts = self._cycle.entries, self._cycle.starts  # starts: whoever takes note empties it
        #: what was decided about groups while the newest event was handled
        self.decided = self._plans.decided
        cycle = self._cycle
        #: what each queue uses, and who was evicted lately
        self.usage, self.evictions = cycle.usage, cycle.evictions
        self.view = View(self.world, self._plans, self.entries, cycle.vacancy, cycle.pending, cycle.room, cycle.facts)
        #: effects that undo a plan and could not be carried out, with the time to try again
        self._again: dict[messages.Effect, float] = {}

    @property
    def backlog(self) -> Backlog:
        """What waits in each queue."""
        return self._cycle.backlog

    def handle(self, event: messages.EngineEvent, now: float) -> list[messages.Effect]:
        """Take in one event at a time (seconds, never going back) and say what to do about it."""
        self._cycle.disturbed |= not isinstance(event, messages.Tick)
        self.decided.clear()
        self._HANDLERS.get(type(event), Engine._world_event)(self, event, now)
        effects, self._cycle.effects = self._cycle.effects, []
        return effects

    @property
    def overcommits(self) -> Mapping[NodeName, Overcommit]:
        """Nodes with pods of ours on which more is bound than they have, and what becomes of each."""
        return self._cycle.repair.outlooks

    @property
    def unfinished(self) -> bool:
        """True when a round was begun and is not over: the next `Tick` goes on with it."""
        return self.active and self._cycle.unfinished

    def self_check(self) -> int:
        """Reservations that no waiting pod, no expectation and no revocation accounts for: 0, or a fault."""
        return self._plans.unaccounted()

    def check_usage(self) -> Iterator[int | None]:
        """In how many queues the usage that was kept up is not what counting anew gives: 0, or a fault. In steps, which
        give None and let events be handled between them; the last one tells, or None when queues changed meanwhile."""
        return self._plans.recount()

    def would_evict(self, entry: Entry, now: float) -> Decision | Refusal | None:
        """Who would be evicted for a group that waits, or why nobody; None when it does not wait. Changes nothing."""
        waits = entry.refusal
        return None if waits is None else self._cycle.preemption.dry_run(entry, waits, self._cycle.room(), now)

    # --- world events ---------------------------------------------------------------------------

    def _world_event(self, event: Any, now: float) -> None:
        """Everything that changes the world but no single group: all that waits is looked at again."""
        self.world.apply(event)
        self._cycle.doubt_all()
        if isinstance(event, messages.BudgetSeen | messages.BudgetGone):
            self._plans.disruptions.changed(event)

    def _pod_seen(self, event: messages.PodSeen, now: float) -> None:
        before = self.world.pods.get(event.pod.uid)
        self.world.apply(event)
        pod = self.world.pods.get(event.pod.uid)
        self._keep_up(before, pod, now)
        refusing = self._admissions.judged(before, pod) if self.active else None
        if refusing is not None:
            self._node_is(refusing, now)
        if pod is None or not self.active:
            return
        self._cycle.note_room(before, pod, now)
        if before is not None and before.group != pod.group:
            self._lost_to_group(before, now)
            before = None
        if pod.ours:
            entry = self._cycle.entry(pod.group, pod.created, now)
            if before is None:
                self._member_appeared(entry, pod, event.instead_of, now)
            else:
                self._member_changed(entry, before, pod, now)
        elif pod.group in self.entries:
            self._cycle.dirty[pod.group] = None

    def _pod_gone(self, event: messages.PodGone, now: float) -> None:
        before = self.world.pods.get(event.uid)
        self.world.apply(event)
        self._keep_up(before, None, now)
        if before is None or not self.active:
            return
        self._cycle.note_room(before, None, now)
        self._lost_to_group(before, now)

    def _keep_up(self, before: Pod | None, pod: Pod | None, now: float) -> None:
        """Keep up what queues use and who was evicted, also while inactive."""
        self.evictions.seen(before, pod, now)
        for charge, sign in changes.charges(before, pod, self.world.managed):
            self.usage.charge(*charge, sign)
        if pod is not None:
            self.usage.settle(pod.group)
        if before is not None and (pod is None or pod.group != before.group):
            self.usage.settle(before.group)
        self._cycle.backfill.runs.seen(before, pod)

    def _lost_to_group(self, before: Pod, now: float) -> None:
        if before.group in self.entries:
            self._member_lost(self.entries[before.group], before, now)

    def _member_appeared(self, entry: Entry, pod: Pod, instead_of: PodUid | None, now: float) -> None:
        entry.changed_at = now
        sound = isinstance(self.world.need(entry.key), Need)
        if sound and standing(pod) is Standing.WAITING and self._cycle.claimed(pod, instead_of):
            self._cycle.effects += self._plans.lead_one(entry, pod, self._cycle.nominating, now)
        else:
            self._cycle.dirty[entry.key] = None

    def _member_changed(self, entry: Entry, before: Pod, pod: Pod, now: float) -> None:
        self._nomination_seen(entry, before, pod)
        was, is_now = standing(before), standing(pod)
        if is_now is Standing.BOUND and was is not Standing.BOUND:
            self._member_bound(entry, pod)
        elif was is not is_now:
            if is_now in (Standing.LEAVING, Standing.FAILED, Standing.SUCCEEDED):
                self._member_lost(entry, pod, now)
            self._cycle.dirty[entry.key] = None
        elif changes.judged_by(before) != changes.judged_by(pod):
            self._cycle.grown |= self._plans.forget(pod.uid) is not None
            self._cycle.dirty[entry.key] = None
        elif pod.rejection != before.rejection and pod.rejection:
            self._rejection_seen(entry, pod, now)
        elif pod.gates != before.gates and entry.refusal is not None:
            self._cycle.count_waiting(entry)

    def _nomination_seen(self, entry: Entry, before: Pod, pod: Pod) -> None:
        """A nomination that nobody remembers: an earlier life's write has come to pass."""
        if pod.nominated in (None, before.nominated) or not pod.waiting:
            return
        if pod.uid not in entry.nominated and not self._plans.clearing(pod.uid):
            entry.nominated[pod.uid] = pod.nominated
            self._cycle.dirty[entry.key] = None

    def _member_bound(self, entry: Entry, pod: Pod) -> None:
        if self._plans.forget(pod.uid) != pod.node:
            self._cycle.grown = True
        entry.forget(pod.uid)
        entry.times_refused = entry.in_vain = 0
        need = self.world.need(entry.key)
        if not isinstance(need, Need) or satisfied(need, self.world.tallies[entry.key]):
            self._cycle.dirty[entry.key] = None

    def _member_lost(self, entry: Entry, pod: Pod, now: float) -> None:
        if pod.owner is not None:  # only a controller makes another one; the permit gate counts alike
            entry.changed_at = now
        entry.forget(pod.uid)
        self._cycle.grown |= self._plans.forget(pod.uid) is not None
        self._cycle.dirty[entry.key] = None

    def _node_seen(self, event: messages.NodeSeen, now: float) -> None:
        self._node_is(self._admissions.seen(self.world.node(event.node.name), event.node), now)

    def _node_is(self, node: Node, now: float) -> None:
        before = self.world.node(node.name)
        self.world.apply(messages.NodeSeen(node))
        if before is None or changes.node_facts(before) != changes.node_facts(node):
            self._cycle.suspects.add(node.name)
            self._cycle.backfill.runs.doubt_node(node.name)
            self._cycle.cluster_changed()
            self._cycle.doubt_refusals()
        if before is not None and self.active:
            self._cycle.repair.node_changed(before, now)

    def _node_gone(self, event: messages.NodeGone, now: float) -> None:
        for reservation in self._plans.drop_node(event.name):
            self._cycle.unplaced(reservation.group, PodUid(reservation.slot))
        self._admissions.gone(event.name)
        self.world.apply(event)
        self._cycle.backfill.runs.doubt_node(event.name)
        self._cycle.cluster_changed()

    def _group_seen(self, event: messages.GroupSeen, now: float) -> None:
        self._group_changed(event.group.key, event.group, event, now)

    def _group_gone(self, event: messages.GroupGone, now: float) -> None:
        self._group_changed(event.key, None, event, now)

    def _group_changed(self, key: GroupKey, group: Group | None, event: messages.WorldEvent, now: float) -> None:
        before = self.world.groups.get(key)
        self.world.apply(event)
        self.usage.settle(key)
        self._cycle.backfill.runs.doubt(key)
        entry = self.entries.get(key)
        was, is_now = changes.asked(before), changes.asked(group)
        if was == is_now:
            return
        if entry is None:
            self._cycle.vacancy.changed(key, was[:1] != is_now[:1], now)
            return
        self._cycle.dirty[key] = None
        if before is None or group is None or before.uid != group.uid:
            entry.stated = ("", "", 0)  # it speaks of another object
        elif changes.domains(before) != changes.domains(group) and self._plans.ledger.of_group(key):
            self._cycle.refuse(entry, Refusal(Reason.QUEUED), now)  # its plan was made for another level

    def _queue_seen(self, event: messages.QueueSeen, now: float) -> None:
        self._queue_changed(event.queue.name, event)

    def _queue_gone(self, event: messages.QueueGone, now: float) -> None:
        self._queue_changed(event.name, event)

    def _queue_changed(self, name: QueueName, event: messages.WorldEvent) -> None:
        before = changes.rules(self.world.queues.get(name))
        self.world.apply(event)
        if changes.rules(self.world.queues.get(name)) != before:
            self._cycle.queues_changed()

    def _namespace_seen(self, event: messages.NamespaceSeen, now: float) -> None:
        self._namespace_changed(event.name, event, now)

    def _namespace_gone(self, event: messages.NamespaceGone, now: float) -> None:
        self._namespace_changed(event.name, event, now)

    def _namespace_changed(self, name: str, event: messages.WorldEvent, now: float) -> None:
        before = name in self.world.managed
        self._world_event(event, now)
        if (managed := name in self.world.managed) != before:
            for charge in changes.foreign_charges(self.world.pods.values(), name):
                self.usage.charge(*charge, 1 if managed else -1)
        self._cycle.namespace_changed(name)

    # --- calls and results ----------------------------------------------------------------------

    def _filter_called(self, event: messages.FilterCalled, now: float) -> None:
        if not self.active:
            return
        if not self.world.knows(event.pod.uid):
            self._pod_seen(messages.PodSeen(event.pod), now)
        pod = self.world.pods.get(event.pod.uid)
        if pod is None or not pod.waiting:
            return
        entry = self._cycle.entry(pod.group, pod.created, now)
        node = self._cycle.planned(pod.uid)
        if node is None:
            self._judge_now(entry, pod, event.offered, now)
            node = self._cycle.planned(pod.uid)
        entry.woken.discard(pod.uid)
        if node is not None and node not in event.offered and not entry.first_pass(event.pod, event.offered):
            self._not_offered(entry, pod, event.offered, now)
        if self._cycle.planned(pod.uid) is None and not self._cycle.pending(entry.key):
            entry.reject(pod.uid)

    def _judge_now(self, entry: Entry, pod: Pod, offered: tuple[NodeName, ...], now: float) -> None:
        if pod.uid in entry.refused:  # taken up again: the list says where its own checks let it go now
            entry.offer(pod.uid, offered, now)
            # what keeps members from each other shows only when all are tried: soon no more for each call
            if entry.key.lone or entry.times_refused < _TRIED_AT_ONCE:
                entry.retry_at = now
        self._cycle.dirty[entry.key] = None
        self._cycle.run(now)

    def _not_offered(self, entry: Entry, pod: Pod, offered: tuple[NodeName, ...], now: float) -> None:
        """kube-scheduler's own checks took the planned node away: the offered list is the truth."""
        entry.offer(pod.uid, offered, now)
        room = self._cycle.room()
        left: Refusal | None = None
        if not self._plans.move(entry, pod, room, now):
            left = self._plans.remake(entry, room, now) if self._plans.movable(entry) else None
        self._cycle.grown |= self._plans.take_freed()
        node = self._cycle.planned(pod.uid)
        refused = node is not None and node not in offered
        if refused or not self._cycle.startable(entry, expecting=True):
            entry.refused.add(pod.uid)
            self._cycle.refuse(entry, plans.refused_by_scheduler(entry), now)
        elif left is not None:
            self._cycle.refuse(entry, left, now, keep=True)
        else:
            self._cycle.lead(entry, now)

    def _rejection_seen(self, entry: Entry, pod: Pod, now: float) -> None:
        """kube-scheduler has put the pod aside: for our answer, or because no node passed its own checks."""
        node = self._cycle.planned(pod.uid)
        if node is None or pod.uid in self._plans.holds:
            return
        if self._cycle.vacated.outdate(pod.rejection, node, now):
            self._lead_rejected(entry, pod, now)
        elif not is_ours(pod.rejection):
            entry.refused_by = pod.rejection
            entry.refused.add(pod.uid)
            entry.offer(pod.uid, (), now)
            self._cycle.refuse(entry, plans.refused_by_scheduler(entry), now)
        elif pod.uid not in entry.woken:
            self._lead_rejected(entry, pod, now)

    def _filter_rejected(self, event: messages.FilterRejected, now: float) -> None:
        pod = self.world.pods.get(event.uid)
        entry = self.entries.get(pod.group) if pod is not None else None
        if pod is None or entry is None or not pod.waiting:
            return
        if self._cycle.planned(event.uid) is not None:
            self._lead_rejected(entry, pod, now)  # it was planned after the answer was given
        else:
            entry.reject(event.uid)

    def _lead_rejected(self, entry: Entry, pod: Pod, now: float) -> None:
        entry.reject(pod.uid)
        self._cycle.effects += self._plans.lead_one(entry, pod, self._cycle.nominating, now)

    def _holds_seen(self, event: messages.HoldsSeen, now: float) -> None:
        self._cycle.follow_queues()
        before, self._plans.holds = self._plans.holds, {hold.uid: hold for hold in event.holds}
        if not self.active:
            return
        self._cycle.doubt_holds(before.values(), event.holds)
        for uid in [uid for uid in before if uid not in self._plans.holds]:
            self._settle(uid, self._plans.settle(uid))
        news = [hold for hold in event.holds if hold.uid not in before or before[hold.uid].node != hold.node]
        astray = tuple(hold.uid for hold in news if self._astray(hold))
        if astray:
            self._cycle.effects.append(messages.Withdraw(astray))

    def _astray(self, hold: Hold) -> bool:
        """True when the held call is of no plan of ours, and cannot become part of one."""
        pod = self.world.pods.get(hold.uid)
        if pod is None or not pod.waiting or pod.group.lone:
            return False  # the gate judges these itself
        planned = self._cycle.planned(hold.uid)
        if planned == hold.node:
            return False
        need = self.world.need(pod.group)
        if isinstance(need, Refusal) or need.confines(pod) or (planned is None and self._waits(pod.group)):
            return True
        self._plans.forget(hold.uid)
        self._cycle.grown = True
        self._cycle.dirty[pod.group] = None
        self._cycle.suspects.add(hold.node)
        return not self._plans.adopt(pod, hold.node)

    def _waits(self, key: GroupKey) -> bool:
        entry = self.entries.get(key)
        return entry is not None and entry.refusal is not None

    def _activity_changed(self, event: messages.ActivityChanged, now: float) -> None:
        if event.active == self.active:
            return
        self.active = event.active
        self._cycle.reset()
        self._cycle.follow_queues()
        self._again.clear()
        if self.active:
            for pod in list(self.world.pods.values()):
                if pod.ours:
                    entry = self._cycle.entry(pod.group, pod.created, now)
                    self._cycle.dirty[pod.group] = None
                    if standing(pod) is Standing.WAITING:
                        self._adopt(entry, pod, now)
            self._cycle.vacancy.look_at_all(now)

    def _adopt(self, entry: Entry, pod: Pod, now: float) -> None:
        """Take over what an earlier life planned for this pod, or undo it."""
        hold = self._plans.holds.get(pod.uid)
        node = hold.node if hold is not None else pod.nominated
        if node is None:
            return
        if pod.nominated is not None:
            entry.nominated[pod.uid] = pod.nominated
        if self._plans.adopt(pod, node):
            entry.planned_at = now
            self._cycle.suspects.add(node)  # it may not be fit for the pod any more
            return
        if hold is not None and not pod.group.lone:
            self._cycle.effects.append(messages.Withdraw((pod.uid,)))

    def _open_queues_seen(self, event: messages.OpenQueuesSeen, now: float) -> None:
        self._cycle.opening.seen(event.names)

    def _effect_done(self, event: messages.EffectDone, now: float) -> None:
        effect, failed = event.effect, bool(event.error)
        match effect:
            case messages.SetOpenQueues() if failed:
                self._cycle.opening.failed(now)
            case messages.Nominate(node=None):
                self._clearing_done(effect, failed, now)
            case messages.Evict():
                self._cycle.eviction_done(effect, failed, now)
            case messages.Withdraw() if failed:
                self._again[effect] = now + FAILED_RETRY_SECONDS
            case messages.StateQueue() if failed:
                self._cycle.statements.failed(effect.name, now)
            case messages.StateGroup() if failed:
                self._cycle.statement_failed(effect.key, now)
            case messages.Suspend() if failed:
                self._cycle.not_switched(effect, event.error, now)
            case messages.Ungate() | messages.Nominate() | messages.Wake() if failed:
                self._leading_failed(effect, now)

    def _clearing_done(self, effect: messages.Nominate, failed: bool, now: float) -> None:
        pod = self.world.pods.get(effect.uid)
        if failed and pod is not None and pod.waiting:
            self._again[effect] = now + FAILED_RETRY_SECONDS
        else:
            self._settle(effect.uid, self._plans.cleared(effect.uid))

    def _leading_failed(self, effect: messages.Ungate | messages.Nominate | messages.Wake, now: float) -> None:
        pod = self.world.pods.get(effect.uid)
        entry = self.entries.get(pod.group) if pod is not None else None
        if entry is not None:
            if isinstance(effect, messages.Wake):
                entry.reject(effect.uid)
            else:
                entry.led.pop(effect.uid, None)
            self._cycle.look_at(entry.key, now + FAILED_RETRY_SECONDS)

    def _settle(self, uid: PodUid, freed: bool) -> None:
        if freed:
            self._cycle.grown = True
            pod = self.world.pods.get(uid)
            if pod is not None and pod.group in self.entries:
                self._cycle.dirty[pod.group] = None

    def _tick(self, event: messages.Tick, now: float) -> None:
        if self.active:
            self._cycle.ring(now)
            self._try_again(now)
            self._cycle.run(now)

    def _try_again(self, now: float) -> None:
        for effect in [effect for effect, at in self._again.items() if at <= now]:
            del self._again[effect]
            if isinstance(effect, messages.Withdraw):
                uids = tuple(uid for uid in effect.uids if self._plans.held_astray(uid))
                self._cycle.effects += [messages.Withdraw(uids)] if uids else []
            elif isinstance(effect, messages.Nominate) and not self._nominated_anew(effect.uid):
                self._cycle.effects.append(effect)

    def _nominated_anew(self, uid: PodUid) -> bool:
        """True when the pod does not wait any more, or a newer nomination was written over the old one."""
        pod = self.world.pods.get(uid)
        return pod is None or not pod.waiting or uid in self.entries[pod.group].nominated

    _HANDLERS: ClassVar[dict[type, Callable[[Engine, Any, float], None]]] = {
        messages.PodSeen: _pod_seen,
        messages.PodGone: _pod_gone,
        messages.NodeSeen: _node_seen,
        messages.NodeGone: _node_gone,
        messages.GroupSeen: _group_seen,
        messages.GroupGone: _group_gone,
        messages.QueueSeen: _queue_seen,
        messages.QueueGone: _queue_gone,
        messages.NamespaceSeen: _namespace_seen,
        messages.NamespaceGone: _namespace_gone,
        messages.FilterCalled: _filter_called,
        messages.FilterRejected: _filter_rejected,
        messages.HoldsSeen: _holds_seen,
        messages.ActivityChanged: _activity_changed,
        messages.OpenQueuesSeen: _open_queues_seen,
        messages.EffectDone: _effect_done,
        messages.Tick: _tick,
    }
