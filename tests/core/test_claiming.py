"""What waiting groups hold back from one that would borrow, by queue tree, usage and priority."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from extender.core.claiming import MOST, Claimant, Claiming
from extender.core.ids import GroupKey, QueueName
from extender.core.model import Queue
from extender.core.ordering import order_key
from extender.core.quota import Tree, grants
from extender.core.usage import Usage
from tests.builders import GPU, group_key, make_queue


def owns(name: str, gpus: int | None = None, parent: str | None = None) -> Queue:
    above = None if parent is None else QueueName(parent)
    return make_queue(name, parent=above, deserved=() if gpus is None else ((GPU, gpus),))


@dataclass
class Groups:
    """A world of groups whose names begin with those of their queues: what `Claiming` asks of one."""

    priorities: dict[str, int] = field(default_factory=dict)

    def queue_of(self, key: GroupKey) -> QueueName:
        return QueueName(key.name.split(":")[0])

    def priority(self, key: GroupKey) -> int:
        return self.priorities.get(key.name, 0)


@dataclass(frozen=True)
class Case:
    """Queues, what they use, who waits (in order) for how many GPUs; and what of it is held back from a borrower."""

    queues: list[Queue]
    used: dict[str, int]
    waits: dict[str, int]
    borrower: str
    asks: int
    held: int
    #: what evictable groups of lower priority use, by queue
    lower: dict[str, int] = field(default_factory=dict)
    priorities: dict[str, int] = field(default_factory=dict)


FLAT = [owns("a", 8), owns("b", 8), owns("c")]
ORG = [owns("org", 8), owns("x", 4, "org"), owns("y", 4, "org"), owns("b", 8)]
CASES = {
    "what a queue owns and waits for": Case(FLAT, {}, {"a:1": 4}, "c:1", 1, 4),
    "all that it owns together, in their order": Case(FLAT, {}, {"a:1": 3, "a:2": 6, "a:3": 5}, "c:1", 1, 8),
    "less what it uses": Case(FLAT, {"a": 6}, {"a:1": 1, "a:2": 1, "a:3": 1}, "c:1", 1, 2),
    "nothing when it uses all that it owns": Case(FLAT, {"a": 8}, {"a:1": 1}, "c:1", 1, 0),
    "what its own lower work could give up counts": Case(
        FLAT, {"a": 8}, {"a:1": 4}, "c:1", 1, 4, lower={"a": 6}, priorities={"a:1": 5}
    ),
    "of two queues the larger claim": Case(FLAT, {}, {"a:1": 3, "b:1": 5}, "c:1", 1, 5),
    "of two queues the larger claim, whichever it is": Case(FLAT, {}, {"a:1": 5, "b:1": 3}, "c:1", 1, 5),
    "nothing from its own queue": Case(FLAT, {}, {"a:1": 3}, "a:2", 9, 0),
    "nothing from one that owns what it asks for": Case(FLAT, {}, {"a:1": 8}, "b:1", 8, 0),
    "from one that asks for more than its queue owns": Case(FLAT, {}, {"a:1": 8}, "b:1", 9, 8),
    "from one whose queue is full": Case(FLAT, {"b": 8}, {"a:1": 8}, "b:1", 1, 8),
    "not from one that could make room below itself": Case(
        FLAT, {"b": 8}, {"a:1": 8}, "b:1", 1, 0, lower={"b": 1}, priorities={"b:1": 5}
    ),
    "nothing for a queue that owns nothing": Case(FLAT, {}, {"c:1": 8}, "b:1", 9, 0),
    "a sibling's from its sibling": Case(ORG, {"x": 4}, {"y:1": 4}, "x:1", 1, 4),
    "a sibling's, though both together borrow": Case(ORG, {"x": 9}, {"y:1": 4}, "x:1", 1, 4),
    "not from another branch while its own branch borrows": Case(ORG, {"x": 9}, {"y:1": 4}, "b:1", 9, 0),
    "from another branch while its own does not": Case(ORG, {"x": 4}, {"y:1": 4}, "b:1", 9, 4),
    "not from a branch that is inside what it owns, though its queue is not": Case(
        ORG, {"x": 4}, {"b:1": 8}, "x:1", 4, 0
    ),
    "from a branch that borrows": Case(ORG, {"x": 8}, {"b:1": 8}, "x:1", 1, 8),
}


def made(case: Case) -> tuple[Claiming, Usage]:
    groups = Groups(case.priorities)
    usage = Usage(groups.queue_of)
    tree = Tree({one.name: one for one in case.queues})
    usage.follow(tree, grants(tree, {GPU: 99}))
    for queue, gpus in case.used.items():
        usage.charge(group_key(f"{queue}:runs"), None, ((GPU, gpus),), 1)

    def lower(queue: QueueName, priority: int) -> dict[str, int]:
        return {GPU: case.lower[queue]} if priority > 0 and queue in case.lower else {}

    claiming = Claiming(groups, lower)
    for arrival, (name, gpus) in enumerate(case.waits.items()):
        key = group_key(name)
        order = order_key(key, groups.priority(key), float(arrival), False)
        claiming.put(groups.queue_of(key), Claimant(key, order, ((GPU, gpus),), frozenset()))
    return claiming, usage


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
def test_what_is_held_back(case: Case) -> None:
    claiming, usage = made(case)
    for _ in range(2):  # and the same from what is remembered
        claims = list(claiming.against(group_key(case.borrower), usage, {GPU: case.asks}))
        assert sum(claim.asked[GPU] for claim in claims) == case.held


def test_what_is_held_back_follows_what_is_used_and_who_waits() -> None:
    claiming, usage = made(CASES["what a queue owns and waits for"])

    def held() -> int:
        return sum(claim.asked[GPU] for claim in claiming.against(group_key("c:1"), usage, {GPU: 1}))

    usage.charge(group_key("a:runs"), None, ((GPU, 5),), 1)
    assert held() == 0
    usage.charge(group_key("a:runs"), None, ((GPU, 5),), -1)
    assert held() == 4
    assert claiming.drop(group_key("a:1"))
    assert held() == 0
    assert not claiming.drop(group_key("a:1"))


def test_the_first_few_of_a_queue_are_known() -> None:
    case = Case([owns("a", 99), owns("c")], {}, {f"a:{n}": 1 for n in range(MOST + 3)}, "c:1", 1, MOST)
    claiming, usage = made(case)
    tree, queue = usage.tree, QueueName("a")
    assert [claiming.has(group_key(f"a:{n}")) for n in (0, MOST - 1, MOST)] == [True, True, False]
    late, early = (order_key(group_key("a:x"), priority, 0.5, False) for priority in (-1, 1))
    asked = ((GPU, 1),)
    assert not claiming.is_early(queue, group_key("a:x"), late, asked, tree)
    assert claiming.is_early(queue, group_key("a:x"), early, asked, tree)
    assert not claiming.is_early(queue, group_key("a:x"), early, ((GPU, 100),), tree), "more than it will ever own"
    assert not claiming.is_early(QueueName("c"), group_key("c:x"), early, asked, tree), "it owns nothing"
    claiming.drop(group_key("a:0"))
    assert claiming.is_early(queue, group_key("a:x"), late, asked, tree)
