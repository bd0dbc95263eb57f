"""What is not looked at again, since it is known, would have been found the same: an engine that forgets all agrees.

The machine of `test_engine_random` drives two engines with the same events: ours, and one that knows nothing of
any group when an event comes, so that it looks at each of them itself and works everything out anew.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from extender.core import messages
from extender.core.asking import Asking
from extender.core.engine import Engine
from extender.core.model import Pod
from extender.core.waiting import Waiting
from tests.core.cluster_model import Cluster
from tests.core.test_engine_random import Machine


class Forgetful(Waiting):
    """Answers nothing from memory."""

    asks = Asking.asks
    asked = Asking.asked
    order_key = Asking.order_key
    same = Asking.same

    def forget(self) -> None:
        """Nothing is known of any group any more."""
        for key in list(self._places):
            self.doubt(key)


def forgetful(above: int) -> Engine:
    """The slow engine."""
    engine = Engine(above)
    engine._cycle.asking = engine._plans.asking = Forgetful(engine.world, engine._plans.ledger)
    return engine


class Twins(Cluster):
    """A cluster that tells a slow engine the same, and finds that it does the same."""

    def restart(self) -> None:
        self._turns = None
        self.slow = forgetful(self._above)
        super().restart()

    def _handle(self, event: messages.EngineEvent) -> list[messages.Effect]:
        waiting = self.slow._cycle.asking
        assert isinstance(waiting, Forgetful)
        waiting.forget()
        self.slow._cycle.preemption.doubt_all()
        wanted, found = self.slow.handle(event, self.now), super()._handle(event)
        assert sorted(map(repr, found)) == sorted(map(repr, wanted))
        assert decisions(self.engine) == decisions(self.slow)
        return found


def decisions(engine: Engine) -> dict[str, object]:
    """All that an engine has decided and others may see."""
    pods: list[Pod] = list(engine.world.pods.values())
    backlog = engine.backlog
    return {
        "plans": {pod.uid: engine.view.planned(pod.uid) for pod in pods},
        "refusals": {key: entry.refusal for key, entry in engine.entries.items()},
        "backlog": (backlog.strays, backlog.for_room, backlog.groups, backlog.asked),
        "running": {key for key, entry in engine.entries.items() if entry.running},
        "earmarks": {place.slot: place.node for place in engine._plans.earmarks},
        "grown": engine._cycle.grown,
    }


class TwinMachine(Machine):
    """The same steps."""

    cluster_type = Twins


TestTwins = pytest.mark.timeout(120)(TwinMachine.TestCase)
TestTwins.settings = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
