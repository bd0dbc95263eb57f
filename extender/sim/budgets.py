"""Disruption budgets: the numbers that their controller publishes, and what the Eviction API makes of them.

Takes the cluster's objects, gives leave to evict; must not evict.
"""

from __future__ import annotations

from collections.abc import Iterator

from extender.sim.api import Api, Json


class Budgets:
    """The disruption controller, and the part of the Eviction API that asks it. Frozen: its numbers stay."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.frozen = False

    def publish(self) -> None:
        """Bring every budget's status up to date."""
        if self.frozen:
            return
        for budget in self._api.list("PodDisruptionBudget"):
            pods = [pod for pod in self._api.list("Pod") if _selects(budget, pod)]
            healthy = sum(_healthy(pod) for pod in pods)
            least = budget["spec"]["minAvailable"]
            status = {
                "currentHealthy": healthy,
                "desiredHealthy": least,
                "disruptionsAllowed": max(0, healthy - least),
                "expectedPods": sum(pod["status"].get("phase") not in ("Succeeded", "Failed") for pod in pods),
            }
            if budget["status"] != status:
                self._api.replace("PodDisruptionBudget", {**budget, "status": status})

    def refuses(self, pod: Json) -> str:
        """The budget that does not let this pod go, or nothing; a leave is used up by being given."""
        if not _healthy(pod):
            return ""
        over = list(self._over(pod))
        for budget in over:
            if budget["status"].get("disruptionsAllowed", 0) < 1:
                return str(budget["metadata"]["name"])
        for budget in over:
            if not self.frozen:
                allowed = budget["status"]["disruptionsAllowed"] - 1
                status = {**budget["status"], "disruptionsAllowed": allowed}
                self._api.replace("PodDisruptionBudget", {**budget, "status": status})
        return ""

    def _over(self, pod: Json) -> Iterator[Json]:
        return (budget for budget in self._api.list("PodDisruptionBudget") if _selects(budget, pod))


def _selects(budget: Json, pod: Json) -> bool:
    labels = pod["metadata"].get("labels", {})
    return all(labels.get(key) == value for key, value in budget["spec"]["selector"]["matchLabels"].items())


def _healthy(pod: Json) -> bool:
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))
    return ready and "deletionTimestamp" not in pod["metadata"]
