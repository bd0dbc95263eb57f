"""Work that nobody may evict, and what it uses of each queue: such work may not borrow.

Takes groups, their charges and disruption budgets, gives sums by queue; must not decide. A group is firm that was
declared not to be preemptible, or of which a member is covered by a budget that never lets anybody go, or by two,
since the API server then refuses each eviction. To borrow is to use what other queues own: of a resource that no queue
owns, firm work takes like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from extender.core.budgets import Disruptions, allows_none
from extender.core.ids import GroupKey, QueueName
from extender.core.quota import Sums
from extender.core.reasons import Refusal
from extender.core.resources import add
from extender.core.usage import Usage
from extender.core.world import World

#: changes of more groups than so many are not looked at one by one
_DOUBTED = 20_000
#: a resource, how much of it is borrowed for good, and the budget that is to blame, or ""
Loan = tuple[str, int, str]


class Firm:
    """Sums over firm groups. They stand still while a round lasts, but for `refresh`; what was doubted since is counted
    anew when they are first asked for in the next one."""

    def __init__(self, world: World, usage: Usage, disruptions: Disruptions) -> None:
        self._world = world
        self._usage = usage
        self._disruptions = disruptions
        self._sums: dict[QueueName, Sums] = {}
        #: what each firm group was counted with
        self._of: dict[GroupKey, tuple[tuple[QueueName, str, int], ...]] = {}
        #: budgets by the queues in which they make groups firm
        self._budgets: dict[QueueName, str] = {}
        #: a round has begun since the sums were last asked for
        self._begun = True
        #: groups of which something may have changed since they were counted; or it may be of all
        self._doubted: dict[GroupKey, None] = {}
        self._all_doubted = True
        usage.changed = self.doubt

    def begin(self) -> None:
        """A round begins, or goes on after something has happened."""
        self._begun = True

    def doubt(self, key: GroupKey) -> None:
        """What the group is charged with may have changed, or whether it is firm."""
        if not self._all_doubted:
            self._doubted[key] = None
            self._all_doubted = len(self._doubted) > _DOUBTED

    def doubt_all(self) -> None:
        """Queues or budgets have changed."""
        self._all_doubted = True

    def is_firm(self, key: GroupKey) -> bool:
        """True when nobody of the group may be evicted."""
        return not self.preemptible(key) or self._protector(key) is not None

    def preemptible(self, key: GroupKey) -> bool:
        """False when the group was declared not to be."""
        need = self._world.need(key)
        if not isinstance(need, Refusal):
            return need.preemptible
        group, tally = self._world.groups.get(key), self._world.tallies.get(key)
        said = [one.preemptible for one in tally.declared] if tally is not None else []
        return (group is None or group.preemptible is not False) and False not in said

    def _protector(self, key: GroupKey) -> str | None:
        """The name of a budget that makes the group firm."""
        if key.namespace not in self._world.budgets:
            return None
        for pod in self._world.members.get(key, {}).values():
            over = self._disruptions.of(pod)
            never = next((budget.name for budget in over if allows_none(budget)), None)
            if never is not None or len(over) > 1:
                return never or over[0].name
        return None

    def sums(self) -> Mapping[QueueName, Mapping[str, int]]:
        """What firm work uses of each queue and of those below it."""
        if self._begun:
            self._begun = False
            # which of several budgets is named depends on the order of all groups
            self._all_doubted |= bool(self._budgets) or any(map(self._protector, self._doubted))
            doubted: Iterable[GroupKey] = self._doubted
            if self._all_doubted:
                self._sums, self._all_doubted, doubted = {}, False, self._usage.groups()
                self._of.clear()
                self._budgets.clear()
            for key in doubted:
                self._uncount(key)
                if self.is_firm(key):
                    self._count(key)
            self._doubted.clear()
        return self._sums

    def refresh(self, key: GroupKey) -> None:
        """What a group is charged with has changed in this round."""
        if not self._begun and (key in self._of or self.is_firm(key)):
            self._uncount(key)
            self._count(key)

    def lent(self, name: QueueName) -> Loan | None:
        """A resource of which firm work uses more than the queue owns, by how much, and the budget that is to blame.

        Such a loan cannot be taken back: its budget was made, or it was declared not to be preemptible, later.
        """
        tree, sums = self._usage.tree, self.sums().get(name, {})
        at = tree.at(name)
        for resource, amount in sorted(sums.items()):
            owned = at.owned.get(resource) if at is not None else None
            if owned is None and not any(resource in _owned(self._usage, above) for above in tree.path(name)):
                owned = 0
            if resource in tree.owned and owned is not None and amount > owned:
                return resource, amount - owned, self._budgets.get(name, "")
        return None

    def _uncount(self, key: GroupKey) -> None:
        for name, resource, amount in self._of.pop(key, ()):
            add(self._sums[name], ((resource, -amount),))

    def _count(self, key: GroupKey) -> None:
        counted = []
        protector = self._protector(key)
        for queue, amounts, number in self._usage.charges(key):
            for name in self._usage.tree.path(queue):
                add(self._sums.setdefault(name, {}), amounts, number)
                counted += [(name, resource, number * amount) for resource, amount in amounts]
                if protector is not None:
                    self._budgets.setdefault(name, protector)
        self._of[key] = tuple(counted)


def _owned(usage: Usage, name: QueueName) -> Mapping[str, int]:
    at = usage.tree.at(name)
    return {} if at is None else at.owned
