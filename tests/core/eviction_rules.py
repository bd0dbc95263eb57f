"""What must be true of each eviction at the moment at which it is decided.

Takes an engine and evictions, raises AssertionError; must not change anything.
"""

from __future__ import annotations

from extender.core import messages
from extender.core.engine import Engine
from extender.core.ids import GroupKey, QueueName
from extender.core.membership import Need, satisfied
from extender.core.model import Pod
from extender.core.reasons import Ground
from extender.core.world import World


def check_victim(engine: Engine, pod: Pod, effect: messages.Evict) -> None:
    """Priority decides inside a queue, ownership between queues; and the one for whom it is has its places."""
    world, detail = engine.world, dict(effect.detail)
    need = world.need(pod.group)
    assert not isinstance(need, Need) or need.preemptible, f"{pod.name} is not preemptible"
    queue, by = world.queue_of(pod.group), QueueName(str(detail["by-queue"]))
    if effect.ground is Ground.PREEMPTED:
        assert queue == by
        assert world.priority(pod.group) < int(detail["by-priority"])
    else:
        assert effect.ground is Ground.RECLAIMED
        path = set(engine.usage.tree.path(queue)) - set(engine.usage.tree.path(by))
        assert queue != by
        for name in path:
            assert name not in world.queues or world.queues[name].reclaimable, f"{name} does not give back"
    kept = {place.group for place in engine._plans.earmarks}
    assert any(detail["for"] in (key.name, *(p.name for p in world.members[key].values())) for key in kept)


def check_hurt(engine: Engine, key: GroupKey) -> None:
    """It is below its minimum."""
    need = engine.world.need(key)
    assert isinstance(need, Need), f"nobody knows how many {key} needs"
    assert not satisfied(need, engine.world.tallies[key]), f"{key} has its minimum"


def check_spared(engine: Engine, key: GroupKey, going: list[Pod]) -> None:
    """It reaches every minimum without those that go."""
    rest = World()
    rest.groups.update(engine.world.groups)
    for pod in engine.world.members[key].values():
        if pod not in going:
            rest.apply(messages.PodSeen(pod))
    need = rest.need(key)
    assert isinstance(need, Need), f"a member of {key} goes singly, and nobody knows how many it needs"
    assert satisfied(need, rest.tallies[key]), f"{key} is left with some but too few"
