"""Whose turn it is: the queue by rank at each level, and in it the group by priority and arrival."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.core import fairshare
from extender.core.ids import GroupKey, QueueName, Source
from extender.core.model import Queue
from extender.core.ordering import Line, OrderKey, Stage, Turn, Turns, order_key, passes
from extender.core.quota import Grants, Tree
from extender.core.resources import Amounts
from extender.core.usage import Usage
from tests.builders import GPU, group_key, make_queue

TOTALS = {GPU: 100}
Group = tuple[str, str, int, int, float]


@dataclass(frozen=True)
class Item:
    """A group that waits for its turn."""

    group: Group
    stage: Stage = Stage.START

    @property
    def order(self) -> OrderKey:
        name, _, _, priority, arrival = self.group
        return order_key(group_key(name), priority, arrival, False, self.stage)

    @property
    def asked(self) -> Amounts:
        return ((GPU, self.group[2]),)


def usage_of(*queues: Queue) -> Usage:
    """Nothing is used yet; the group of a queue's name is charged to it."""
    usage = Usage(lambda key: QueueName(key.name))
    usage.follow(Tree({queue.name: queue for queue in queues}), Grants({}, {}))
    return usage


def take(usage: Usage, groups: list[Group], given_to: Callable[[Group], bool] = lambda _: True) -> list[str]:
    """The names in the order of their turns, when those that it is `given_to` get what they ask for."""
    turns: Turns[Item] = Turns(usage, TOTALS)
    lines: dict[tuple[str, int], list[Item]] = {}
    for group in groups:  # two lines a queue
        lines.setdefault((group[1], group[2] % 2), []).append(Item(group))
    for (queue, _), line in lines.items():
        turns.put(QueueName(queue), Line(sorted(line, key=lambda item: item.order, reverse=True)))
    turns.rank()
    found = []
    while (first := turns.first()) is not None:
        group = first.items.pop().group
        found.append(group[0])
        if given_to(group):
            usage.charge(group_key(group[1]), None, ((GPU, group[2]),), 1)
        turns.shortened()
    return found


def g(name: str, queue: str = "default", gpus: int = 1, priority: int = 0, arrival: float = 0.0) -> Group:
    return (name, queue, gpus, priority, arrival)


def test_in_one_queue_by_priority_then_arrival_then_name() -> None:
    groups = [g("late", arrival=2.0), g("b"), g("a"), g("first", priority=5, arrival=9.0)]
    assert take(usage_of(), groups) == ["first", "a", "b", "late"]


def test_of_equal_priority_the_hurt_come_first_and_what_is_above_minimums_last() -> None:
    keys = {
        "high, above its minimum": order_key(group_key("a"), 5, 9.0, False, Stage.SURPLUS),
        "hurt": order_key(group_key("b"), 0, 9.0, False, Stage.REPAIR),
        "old": order_key(group_key("c"), 0, 1.0, False),
        "young": order_key(group_key("d"), 0, 2.0, False, Stage.START),
        "oldest, above its minimum": order_key(group_key("e"), 0, 0.0, False, Stage.SURPLUS),
        "low, hurt": order_key(group_key("f"), -1, 0.0, False, Stage.REPAIR),
    }
    assert sorted(keys, key=lambda name: keys[name]) == list(keys)


def with_surplus(usage: Usage, groups: list[Group], stages: dict[str, Stage]) -> list[str]:
    """The turns, as in `take`, when these groups ask for another turn at that stage in their first."""
    turns: Turns[Item] = Turns(usage, TOTALS)
    for group in groups:
        turns.put(QueueName(group[1]), Line([Item(group)]))
    turns.rank()
    found: list[str] = []
    while (line := turns.first()) is not None:
        item = line.items.pop()
        name, queue, gpus, _, _ = item.group
        found.append(name)
        usage.charge(group_key(queue), None, ((GPU, gpus),), 1)
        turns.shortened()
        again = Item(item.group, stages.get(name, item.stage))
        if again.order > item.order:
            turns.put(QueueName(queue), Line([again]))
            turns.rank()
    return found


def test_another_turn_comes_at_its_place_in_the_queue_and_only_later() -> None:
    groups = [g("a", arrival=1.0), g("b", arrival=2.0), g("high", priority=5), g("low", priority=-1)]
    stages = dict.fromkeys(("a", "high", "low"), Stage.SURPLUS) | {"b": Stage.REPAIR}
    assert with_surplus(usage_of(), groups, stages) == ["high", "high", "a", "b", "a", "low", "low"]


def test_another_turn_of_a_queue_s_last_group_is_not_lost_and_counts_for_whose_turn_is_next() -> None:
    groups = [g("a", "a", 4), g("b0", "b"), g("b1", "b")]
    queues = usage_of(make_queue("a"), make_queue("b"))
    assert with_surplus(queues, groups, {"a": Stage.SURPLUS}) == ["a", "b0", "b1", "a"]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.booleans()), max_size=8))
def test_turns_come_in_order_also_those_that_are_asked_for_meanwhile(given_: list[tuple[int, int, bool]]) -> None:
    groups = [g(f"g{n}", priority=priority, arrival=float(at)) for n, (priority, at, _) in enumerate(given_)]
    surplus = {f"g{n}" for n, (_, _, more) in enumerate(given_) if more}
    want = [(order_key(group_key(name), p, at, False), name) for name, _, _, p, at in groups]
    want += [
        (order_key(group_key(name), p, at, False, Stage.SURPLUS), name)
        for name, _, _, p, at in groups
        if name in surplus
    ]
    found = with_surplus(usage_of(), groups, dict.fromkeys(surplus, Stage.SURPLUS))
    assert found == [name for _, name in sorted(want)]


def test_queues_take_turns_by_what_was_given_to_them() -> None:
    groups = [g(f"a{n}", "a") for n in range(3)] + [g(f"b{n}", "b", 2) for n in range(2)]
    assert take(usage_of(make_queue("a"), make_queue("b")), groups) == ["a0", "b0", "a1", "a2", "b1"]


def test_who_is_given_nothing_keeps_the_turn_of_its_queue_and_holds_nobody_up() -> None:
    groups = [g("big", "a", 50), g("small", "a"), g("other", "b")]
    order = take(usage_of(make_queue("a"), make_queue("b")), groups, lambda group: group[0] != "big")
    assert order == ["big", "small", "other"]


def test_what_is_owned_goes_before_what_is_borrowed_whoever_came_first() -> None:
    queues = make_queue("a"), make_queue("b", deserved=((GPU, 2),))
    groups = [g("a0", "a", priority=9), g("b0", "b", 2, arrival=5.0), g("b1", "b", arrival=6.0)]
    assert take(usage_of(*queues), groups) == ["b0", "a0", "b1"]


def test_levels_are_ranked_from_the_top() -> None:
    """The department that has less goes first, however its teams stand to others."""
    queues = [make_queue("d1"), make_queue("d2"), *(make_queue(f"t{n}", parent="d1") for n in range(2))]
    queues.append(make_queue("t2", parent="d2"))
    usage = usage_of(*queues)
    usage.charge(group_key("t0"), None, ((GPU, 4),), 1)
    usage.charge(group_key("t2"), None, ((GPU, 3),), 1)
    assert take(usage, [g("x", "t0"), g("y", "t1"), g("z", "t2")]) == ["z", "y", "x"]


def test_groups_of_queues_that_admit_nothing_come_last_and_are_not_lost() -> None:
    queues = make_queue("dept"), make_queue("team", parent="dept"), make_queue("shut", closed=True)
    groups = [g("lost", "ghost", priority=9), g("inner", "dept"), g("closed", "shut"), g("fine", "team")]
    order = take(usage_of(*queues), groups)
    assert (order[0], sorted(order)) == ("fine", ["closed", "fine", "inner", "lost"])


def test_no_groups_no_turns() -> None:
    assert take(usage_of(make_queue("a")), []) == []


def plain_order(usage: Usage, groups: list[Group], given_to: Callable[[Group], bool]) -> list[str]:
    """From the top the best queue that has a group left, each time anew."""
    left, found = list(groups), []

    def head(name: str) -> Group | None:
        at = usage.tree.at(QueueName(name))
        assert at is not None
        if not at.children:
            return min((x for x in left if x[1] == name), key=lambda x: (-x[3], x[4], x[0]), default=None)
        return best(at.children)

    def best(names: tuple[QueueName, ...]) -> Group | None:
        ranked = []
        for name in names:
            group, at = head(name), usage.tree.at(name)
            if group is not None and at is not None:
                asked = ((GPU, group[2]),)
                ranked.append((fairshare.rank(at, usage.of(name), asked, TOTALS), name, group))
        return min(ranked)[2] if ranked else None

    while (group := best(usage.tree.roots)) is not None:
        left.remove(group)
        found.append(group[0])
        if given_to(group):
            usage.charge(group_key(group[1]), None, ((GPU, group[2]),), 1)
    return found


@st.composite
def trees(draw: st.DrawFn) -> list[Queue]:
    queues: list[Queue] = []
    for number in range(draw(st.integers(1, 6))):
        parent = draw(st.none() | st.sampled_from([queue.name for queue in queues])) if queues else None
        deserved = draw(st.integers(0, 4))
        fields = {"weight": draw(st.integers(0, 2)), "priority": draw(st.integers(0, 1))}
        queues.append(
            make_queue(f"q{number}", parent=parent, deserved=((GPU, deserved),) if deserved else (), **fields)
        )
    return queues


@given(trees(), st.data())
def test_turns_are_those_of_looking_anew_each_time(queues: list[Queue], data: st.DataObject) -> None:
    leaves = sorted(usage_of(*queues).tree.admitting)
    kinds = st.tuples(st.sampled_from(leaves), st.integers(1, 3), st.integers(0, 1), st.sampled_from((0.0, 1.0)))
    groups = [(f"g{n:02}", *kind) for n, kind in enumerate(data.draw(st.lists(kinds, max_size=12)))]
    given_to = data.draw(st.sets(st.sampled_from([group[0] for group in groups]))) if groups else set()
    wanted = plain_order(usage_of(*queues), groups, lambda group: group[0] in given_to)
    assert take(usage_of(*queues), groups, lambda group: group[0] in given_to) == wanted


@pytest.mark.parametrize(
    ("used", "lower", "passing"),
    [
        pytest.param(0, 0, True, id="inside what its queue owns"),
        pytest.param(2, 0, False, id="not inside"),
        pytest.param(2, 1, True, id="inside when its own lower work has made room"),
        pytest.param(3, 1, False, id="not inside even then"),
    ],
)
def test_who_may_take_what_is_kept_for_a_borrower_of_another_queue(used: int, lower: int, passing: bool) -> None:
    usage = usage_of(make_queue("a", deserved=((GPU, 4),)), make_queue("b"))
    usage.charge(group_key("a"), None, ((GPU, used),), 1)
    mine = Turn(QueueName("a"), order_key(group_key("mine"), 5, 2.0, False), ((GPU, 3),), {GPU: lower})
    head = Turn(QueueName("b"), order_key(group_key("head"), 9, 1.0, False), ((GPU, 9),), {})
    assert passes(usage, mine, head) is passing
    assert not passes(usage, head, mine)


def test_the_key_of_a_group_names_it_whole() -> None:
    keys = [GroupKey(source, "team", "x") for source in (Source.MUSTER, Source.VOLCANO)]
    assert len({order_key(key, 0, 0.0, False) for key in keys}) == 2
