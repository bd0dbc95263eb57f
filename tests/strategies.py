"""Hypothesis strategies for small clusters, odd labels and pods of every kind.

Takes bounds, gives model objects; small on purpose, so that oracles can try everything and shrinking ends.
"""

from __future__ import annotations

from hypothesis import strategies as st

from extender.core.ids import NodeName, TaskName
from extender.core.model import Constraints, Expression, Node, Shape, Taint, Term, Toleration
from extender.core.placement import Demand
from extender.core.resources import PODS, amounts
from tests.builders import GPU, make_node, make_shape

#: few names, so that they meet; not only ASCII, and numbers that Go and Python read differently
KEYS = ("zone", "rack", "größe", "gpu.count")
VALUES = ("", "a", "b", "7", "-3", "+7", "007", "9223372036854775808", "1_0", " 7", "٣", "ß")
TAINT_KEYS = ("gpu", "node.kubernetes.io/unschedulable", "")
TAINT_VALUES = ("", "yes", "5")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")

labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
taints = st.lists(
    st.builds(Taint, st.sampled_from(TAINT_KEYS), st.sampled_from(TAINT_VALUES), st.sampled_from(EFFECTS)),
    max_size=2,
).map(tuple)
tolerations = st.lists(
    st.builds(
        Toleration,
        st.sampled_from(TAINT_KEYS),
        st.sampled_from(("", "Equal", "Exists", "Gt", "Lt", "Bogus")),
        st.sampled_from(TAINT_VALUES),
        st.sampled_from(("", *EFFECTS)),
    ),
    max_size=2,
).map(tuple)
expressions = st.builds(
    Expression,
    st.sampled_from(KEYS),
    st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Bogus")),
    st.lists(st.sampled_from(VALUES), max_size=2).map(tuple),
)
fields = st.builds(
    Expression,
    st.sampled_from(("metadata.name", "metadata.uid")),
    st.sampled_from(("In", "NotIn", "Exists")),
    st.lists(st.sampled_from(("n0", "n1", "")), min_size=0, max_size=2).map(tuple),
)
terms = st.builds(Term, st.lists(expressions, max_size=2).map(tuple), st.lists(fields, max_size=1).map(tuple))
constraints = st.builds(
    Constraints,
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=1).map(
        lambda selector: tuple(sorted(selector.items()))
    ),
    st.none() | st.lists(terms, max_size=2).map(tuple),
    tolerations,
)


@st.composite
def odd_nodes(draw: st.DrawFn, name: str) -> Node:
    """A node with any labels and taints, perhaps cordoned or not ready."""
    return make_node(
        name,
        labels=draw(labels),
        taints=draw(taints),
        unschedulable=draw(st.booleans()),
        ready=draw(st.sampled_from((True, True, True, False))),
    )


@st.composite
def small_nodes(draw: st.DrawFn, most: int = 4) -> list[Node]:
    """Up to four nodes of two resources in up to two blocks of up to two racks; some lack a label."""
    nodes = []
    for n in range(draw(st.integers(1, most))):
        place = {"block": f"b{draw(st.integers(0, 1))}", "rack": f"r{draw(st.integers(0, 1))}"}
        for key in draw(st.sampled_from(((), (), (), ("block",), ("rack",)))):
            del place[key]
        room = {"cpu": draw(st.integers(0, 8)), GPU: draw(st.integers(0, 4))}
        allocatable = amounts({PODS: draw(st.integers(1, 6)), **room})
        nodes.append(Node(NodeName(f"n{n}"), place, allocatable))
    return nodes


@st.composite
def small_demands(draw: st.DrawFn, most_pods: int = 6) -> list[Demand]:
    """One to four tasks of at most six pods together."""
    left = draw(st.integers(1, most_pods))
    demands = []
    for n in range(draw(st.integers(1, 4))):
        count = draw(st.integers(0, left))
        left -= count
        demands.append(Demand(draw(small_shapes()), count, TaskName(f"task-{n}")))
    return demands


@st.composite
def small_shapes(draw: st.DrawFn) -> Shape:
    """A request of a few units, perhaps bound to a block."""
    request = {"cpu": draw(st.integers(0, 5)), GPU: draw(st.integers(0, 3))}
    block = draw(st.sampled_from((None, None, None, "b0", "b1")))
    return make_shape(request, **({"selector": (("block", block),)} if block else {}))
