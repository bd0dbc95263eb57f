"""What queues use: sums at every level, kept up without drift, and what guarantees keep free."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from extender.core.ids import GroupKey, QueueName, Source
from extender.core.model import Queue
from extender.core.quota import Grants, Tree, grants
from extender.core.usage import Charge, Usage
from tests.builders import GPU, make_queue

NAMES = ("a", "b", "c", "d", "ghost")
KEYS = tuple(GroupKey(Source.MUSTER, namespace, name) for namespace in ("x", "y") for name in ("one", "two"))
AMOUNTS = (((GPU, 1),), ((GPU, 3), ("cpu", 500)), (("cpu", 7),))


def tree(*queues: Queue) -> Tree:
    return Tree({queue.name: queue for queue in queues})


def plain_sums(tree: Tree, charges: list[Charge], queue_of: dict[GroupKey, str]) -> dict[str, dict[str, int]]:
    """Each charge walks up by the parents that the queues name."""
    sums: dict[str, dict[str, int]] = {}
    for key, named, amounts in charges:
        at: str | None = named or queue_of[key]
        seen: list[str] = []
        while at is not None and at not in seen:
            seen.append(at)
            found = tree.at(QueueName(at))
            at = found.path[1] if found is not None and len(found.path) > 1 else None
        for name in seen:
            for resource, amount in amounts:
                there = sums.setdefault(name, {})
                there[resource] = there.get(resource, 0) + amount
    return sums


def plain_unused(tree: Tree, kept: Grants, usage: Usage) -> int:
    """GPUs that are promised and not used, from the top down by the definition."""

    def committed(name: QueueName) -> int:
        at = tree.at(name)
        assert at is not None
        own = usage.of(name).get(GPU, 0) - sum(usage.of(child).get(GPU, 0) for child in at.children)
        return max(kept.kept.get(name, {}).get(GPU, 0), own + sum(map(committed, at.children)))

    return sum(committed(name) - usage.of(name).get(GPU, 0) for name in tree.roots)


queues = st.lists(
    st.builds(
        lambda name, parent, gpus: make_queue(name, parent=parent, guarantee=((GPU, gpus),) if gpus else ()),
        st.sampled_from(NAMES[:4]),
        st.none() | st.sampled_from(NAMES),
        st.integers(0, 6),
    ),
    max_size=5,
)
charge = st.tuples(st.sampled_from(KEYS), st.none() | st.sampled_from(NAMES), st.sampled_from(AMOUNTS))
step = st.one_of(
    st.tuples(st.just("add"), charge),
    st.tuples(st.just("add"), charge),
    st.tuples(st.just("remove"), st.integers(0, 99)),
    st.tuples(st.just("move"), st.tuples(st.sampled_from(KEYS), st.sampled_from(NAMES))),
    st.tuples(st.just("namespace"), st.tuples(st.sampled_from(("x", "y")), st.sampled_from(NAMES))),
    st.tuples(st.just("queues"), queues),
)


def take(usage: Usage, queue_of: dict, charges: list[Charge], what: str, value: Any, kept: int = 0) -> None:
    """One step; of the charges the first so many stay."""
    if what == "add":
        usage.charge(*value, 1)
        charges.append(value)
    elif what == "remove" and len(charges) > kept:
        usage.charge(*charges.pop(-1 - value % (len(charges) - kept)), -1)
    elif what == "move":
        queue_of[value[0]] = value[1]
        usage.settle(value[0])
    elif what == "namespace":
        queue_of.update({key: value[1] for key in KEYS if key.namespace == value[0]})
        usage.settle_namespace(value[0])
    elif what == "queues":
        (new, total) = tree(*value[0]), value[1]
        usage.follow(new, grants(new, {GPU: total}))


@given(st.lists(step, max_size=25), st.integers(0, 12))
def test_sums_and_unused_guarantees_are_those_of_counting_anew(steps: list, total: int) -> None:
    queue_of = dict.fromkeys(KEYS, "a")
    usage = Usage(lambda key: QueueName(queue_of[key]))
    charges: list[Charge] = []
    for what, value in steps:
        take(usage, queue_of, charges, what, (value, total) if what == "queues" else value)
        want = plain_sums(usage.tree, charges, queue_of)
        assert {name: dict(usage.of(QueueName(name))) for name in {*want, *NAMES} if usage.of(QueueName(name))} == want
        assert usage.unused.get(GPU, 0) == plain_unused(usage.tree, usage.grants, usage)
        assert counted(usage, charges) == frozenset()


def counted(usage: Usage, charges: list[Charge]) -> frozenset[QueueName] | None:
    """What differs when these charges are counted anew at once."""
    recount = usage.recount(KEYS)
    for key in KEYS:
        recount.count(key, [charge for charge in charges if charge[0] == key])
    return usage.differing(recount)


def test_a_difference_is_found_and_named() -> None:
    usage = Usage(lambda _: QueueName("a"))
    usage.follow(tree(make_queue("a", parent="b"), make_queue("b")), Grants({}, {}))
    usage.charge(KEYS[0], None, AMOUNTS[0], 1)
    assert counted(usage, []) == {"a", "b"}


@given(st.lists(step | st.tuples(st.just("count"), st.none()), max_size=40), st.none() | charge)
@example([("add", (KEYS[0], None, AMOUNTS[0])), ("count", None), ("move", (KEYS[0], "b"))], None)
@example([("count", None), ("namespace", (KEYS[0].namespace, "b"))], (KEYS[0], None, AMOUNTS[0]))
def test_what_is_charged_while_it_is_counted_anew_makes_no_difference_and_hides_none(
    steps: list, forgotten: Charge | None
) -> None:
    """The groups are counted one at a time between the other steps; `forgotten` was never charged."""
    queue_of = dict.fromkeys(KEYS, "a")
    usage = Usage(lambda key: QueueName(queue_of[key]))
    charges: list[Charge] = [] if forgotten is None else [forgotten]
    began, left = usage.tree, list(KEYS)
    recount = usage.recount(KEYS)

    def count() -> None:
        if not left:
            return
        key = left.pop(0)
        recount.count(key, [charge for charge in charges if charge[0] == key])

    for what, value in steps:
        if what == "count":
            count()
        else:
            take(
                usage, queue_of, charges, what, (value, 9) if what == "queues" else value, 0 if forgotten is None else 1
            )
    while left:
        count()
    if usage.tree is not began:
        assert usage.differing(recount) is None
        return
    found = usage.differing(recount)
    want = plain_sums(usage.tree, charges, queue_of)
    real = {name for name in {*want, *NAMES} if dict(usage.of(QueueName(name))) != want.get(name, {})}
    assert found == real
    assert bool(real) == (forgotten is not None and any(amount for _, amount in forgotten[2]))


def test_of_two_counts_the_newer_one_tells() -> None:
    usage = Usage(lambda _: QueueName("a"))
    old, new = usage.recount(()), usage.recount(())
    assert (usage.differing(old), usage.differing(new)) == (None, frozenset())


def test_what_is_promised_grows_only_by_what_is_taken_beyond_it() -> None:
    found = tree(make_queue("a", guarantee=((GPU, 4),)), make_queue("b", parent="a"))
    usage = Usage(lambda _: QueueName("b"))
    usage.follow(found, grants(found, {GPU: 16}))
    assert usage.unused == {GPU: 4}
    assert usage.commits(QueueName("b"), GPU, 6) == [("b", 6), ("a", 2)]
    usage.charge(KEYS[0], None, ((GPU, 3),), 1)
    assert (usage.unused, usage.committed(QueueName("a"), GPU)) == ({GPU: 1}, 4)
    assert usage.commits(QueueName("b"), GPU, 6) == [("b", 6), ("a", 5)]
