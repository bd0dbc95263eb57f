"""Where pods have left a moment ago: what kube-scheduler says of such a node, it may have said before it saw that.

Takes nodes and times, gives yes or no; must not decide. A refusal that lacks the room of our plan may have been on its
way, written slowly, when the plan was made: then the plan is right and stays, and what was freed goes to nobody else.
"""

from __future__ import annotations

from extender.core.ids import NodeName

#: a refusal is on its way no longer than that
LATE_SECONDS = 5.0
#: how kube-scheduler begins to say that room lacks
_LACKING = ("Insufficient ", "Too many pods")


class Vacated:
    """The nodes that pods have left, the latest last."""

    def __init__(self) -> None:
        self._at: dict[NodeName, float] = {}

    def note(self, node: NodeName, now: float) -> None:
        """A pod has left the node, or takes less of it."""
        self._at.pop(node, None)
        self._at[node] = now
        while self._at[first := next(iter(self._at))] + LATE_SECONDS < now:
            del self._at[first]

    def outdate(self, rejection: str, node: NodeName, now: float) -> bool:
        """True when this may have been said of the node as it was before."""
        return any(text in rejection for text in _LACKING) and now <= self._at.get(node, float("-inf")) + LATE_SECONDS
