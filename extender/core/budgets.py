"""Which disruption budgets cover a pod, by Kubernetes' rules for label selectors, and how many of its pods may go.

Takes budgets, pods and our own evictions, gives budgets and numbers; must not decide who goes.
"""

from __future__ import annotations

from extender.core import matching
from extender.core.ids import PodUid
from extender.core.messages import BudgetGone, BudgetSeen
from extender.core.model import Budget, Pod
from extender.core.world import World


def covers(budget: Budget, pod: Pod) -> bool:
    """True when evicting the pod would be a disruption in the sense of this budget."""
    if budget.selector is None or budget.namespace != pod.namespace:
        return False
    return matching.selects(budget.selector, dict(pod.labels))


def allows_none(budget: Budget) -> bool:
    """True when no pod may ever go: as many must be healthy as there should be in all.

    That nobody may go at the moment says less: others may have been let go just before, or be unhealthy.
    """
    return budget.desired >= budget.expected > 0


class Disruptions:
    """How many pods each budget would let go, less our own evictions that its status does not tell of yet.

    An eviction of ours counts from when it is decided. The API server notes it in the budget before it answers: so
    it is told of by a status that names the pod, and by any that comes after the answer. A status that never changes
    (its controller is away) tells of nothing.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        #: by budget: pods that we asked for, their names, and whether the answer has come
        self._asked: dict[tuple[str, str], dict[PodUid, tuple[str, bool]]] = {}
        self._of: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[Budget, ...]] = {}

    def of(self, pod: Pod) -> tuple[Budget, ...]:
        """The budgets that cover a pod."""
        budgets = self._world.budgets.get(pod.namespace)
        if not budgets:
            return ()
        found = self._of.get((pod.namespace, pod.labels))
        if found is None:
            found = tuple(budget for _, budget in sorted(budgets.items()) if covers(budget, pod))
            self._of[pod.namespace, pod.labels] = found
        return found

    def left(self, budget: Budget) -> int:
        """How many of its pods may go now."""
        return budget.allowed - len(self._asked.get((budget.namespace, budget.name), ()))

    def asked(self, pod: Pod) -> None:
        """The pod is to be evicted."""
        for budget in self.of(pod):
            self._asked.setdefault((budget.namespace, budget.name), {})[pod.uid] = (pod.name, False)

    def answered(self, uid: PodUid, refused: bool) -> None:
        """The eviction was carried out or refused."""
        for asked in self._asked.values():
            if refused:
                asked.pop(uid, None)
            elif uid in asked:
                asked[uid] = (asked[uid][0], True)

    def changed(self, event: BudgetSeen | BudgetGone) -> None:
        """A budget has a newer state, or is gone; the world has taken that in."""
        self._of.clear()
        told = event.budget if isinstance(event, BudgetSeen) else event
        namespace, name = told.namespace, told.name
        budget = self._world.budgets.get(namespace, {}).get(name)
        asked = self._asked.pop((namespace, name), {})
        if budget is None:
            return
        left: dict[PodUid, tuple[str, bool]] = {
            uid: (pod, done) for uid, (pod, done) in asked.items() if not done and pod not in budget.disrupted
        }
        if left:
            self._asked[namespace, name] = left
