"""No card is given twice, nor over its memory or cores, whatever order filter, bind, failure, news and restart come in.

A small cluster of nodes with cards: its truth is what bindings carried, the engine hears of it late, and calls that
were made before come back after. What stands on each card is added up from the truth alone.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from extender.core import messages
from extender.core.cards import ALONE
from extender.core.engine import Engine
from extender.core.ids import NodeName
from extender.core.model import Card, CardAsk, CardRequest, Hold, Node, Pod, Share, Trouble
from extender.core.view import Member
from tests import builders
from tests.builders import GPU, make_group, make_node, make_pod, make_shape
from tests.core import engine_driver

NODES = ("n0", "n1")
OFFERED = tuple(map(NodeName, NODES))
ASKS = st.builds(
    CardAsk,
    number=st.sampled_from([1, 1, 1, 2]),
    memory=st.sampled_from([None, 300, 4000, 8000, 9000]),
    percent=st.sampled_from([None, 50]),
    cores=st.sampled_from([0, 0, 30, 50, 100]),
)
REQUESTS = st.one_of(
    ASKS.map(lambda one: CardRequest((one,))),
    st.tuples(ASKS, ASKS).map(CardRequest),
    ASKS.map(lambda one: CardRequest((None, one), not_ids=("g0",))),
)


def node_of(name: str, cards: tuple[Card, ...], **more: object) -> Node:
    slots = sum(card.slots for card in cards if not card.trouble)
    return make_node(name, {"cpu": 96_000, "memory": 2**40, GPU: slots}, hami=True, cards=cards, **more)


BOUND: list[str] = []


class Cluster(RuleBasedStateMachine):
    """The truth, a watch that lags, and an engine that is started anew now and then."""

    @initialize(slots=st.sampled_from([1, 2, 4]), first=st.lists(REQUESTS, min_size=2, max_size=5))
    def begin(self, slots: int, first: list[CardRequest]) -> None:
        self.cards = tuple(Card(f"g{n}", slots, 16_000, 100, "NVIDIA-A100") for n in range(2))
        self.now = engine_driver.START
        self.nodes = {name: node_of(name, self.cards) for name in NODES}
        self.pods: dict[str, Pod] = {}
        self.news: deque[messages.WorldEvent] = deque()
        self.holds: dict[str, Hold] = {}
        self.made = 0
        for request in first:
            self.submit(request, 1)
        self.restart()

    def send(self, *events: messages.EngineEvent) -> None:
        for event in events:
            self.engine.handle(event, self.now)
            engine_driver.check(self.engine)

    # --- what happens ---------------------------------------------------------------------------

    @rule(request=REQUESTS, members=st.sampled_from([1, 1, 2, 3]))
    def submit(self, request: CardRequest, members: int) -> None:
        self.made += 1
        number = sum(ask.number for ask in request.asks)
        shape = replace(make_shape({"cpu": 100, GPU: number}), cards=request)
        key = f"gang-{self.made}" if members > 1 else None
        if key:
            self.tell(make_group(key, members))
        for n in range(members):
            self.put(make_pod(f"p{self.made}-{n}", shape=shape, group=key))

    @rule(data=st.data())
    def ask(self, data: st.DataObject) -> None:
        """kube-scheduler's filter call, also for a pod that the watch has not shown."""
        waiting = [pod for pod in self.pods.values() if pod.waiting]
        if waiting:
            self.send(messages.FilterCalled(data.draw(st.sampled_from(waiting)), OFFERED), messages.Tick())

    @rule(most=st.integers(1, 4))
    def hold(self, most: int) -> None:
        """Bind calls for what is planned."""
        for pod in self.pods.values():
            node = self.engine.view.planned(pod.uid)
            if pod.waiting and node is not None and pod.uid not in self.holds and most:
                most -= 1
                self.holds[pod.uid] = Hold(pod.uid, node, pod.group)
        self.send(messages.HoldsSeen(tuple(self.holds.values())))

    @rule(data=st.data(), written=st.sampled_from([3, 3, 3, 2, 1, 0]))
    def release(self, data: st.DataObject, written: int) -> None:
        """The gate asks, and writes the bindings that it may: the last ones fail, and their calls are refused."""
        self.hold(4)
        groups = list(dict.fromkeys(hold.group for hold in self.holds.values()))
        if not groups:
            return
        group = data.draw(st.sampled_from(groups))
        held = [hold for hold in self.holds.values() if hold.group == group]
        self.send(messages.Tick())
        vetoes = self.engine.view.vetoes(Member(hold.uid, hold.node) for hold in held)
        for hold in [hold for hold in held if hold.uid not in vetoes]:
            pod = self.pods.get(hold.uid)
            if written and pod is not None and pod.waiting:
                written -= 1
                shares = self.engine.view.shares(hold.uid)
                assert [len(one) for one in shares] == [one.number if one else 0 for one in pod.shape.cards.containers]
                self.put(replace(pod, node=hold.node, phase="Running", shares=shares))
                BOUND.append(hold.uid)
            del self.holds[hold.uid]
        self.send(messages.HoldsSeen(tuple(self.holds.values())))

    @rule(data=st.data(), how=st.sampled_from(["Succeeded", "Failed", "refused", "gone"]))
    def end(self, data: st.DataObject, how: str) -> None:
        if not self.pods:
            return
        pod = data.draw(st.sampled_from(list(self.pods.values())))
        self.holds.pop(pod.uid, None)
        if how == "gone" or pod.node is None:
            del self.pods[pod.uid]
            self.news.append(messages.PodGone(pod.uid))
        else:
            phase = "Failed" if how == "refused" else how
            self.put(replace(pod, phase=phase, not_admitted=how == "refused"))

    @rule(name=st.sampled_from(NODES), card=st.integers(0, 1), trouble=st.sampled_from(["", "unhealthy", "gone"]))
    def change_card(self, name: str, card: int, trouble: str) -> None:
        cards = list(self.cards)
        if trouble == "gone":
            del cards[card]
        elif trouble:
            cards[card] = replace(cards[card], trouble=Trouble(trouble))
        self.nodes[name] = node_of(name, tuple(cards))
        self.tell(self.nodes[name])

    @rule(name=st.sampled_from(NODES), cordoned=st.booleans())
    def cordon(self, name: str, cordoned: bool) -> None:
        self.nodes[name] = replace(self.nodes[name], unschedulable=cordoned)
        self.tell(self.nodes[name])

    @rule(number=st.integers(1, 8))
    def deliver(self, number: int) -> None:
        for _ in range(min(number, len(self.news))):
            self.send(self.news.popleft())
        self.send(messages.Tick())

    @rule(seconds=st.sampled_from([0.5, 3.0, 20.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.send(messages.Tick())

    @rule()
    def restart(self) -> None:
        """A new engine lists the cluster; what the gate holds is still held."""
        self.engine = Engine(engine_driver.BY_LIST)
        self.news.clear()
        self.send(*map(builders.seen, (*self.nodes.values(), *self.pods.values())))
        for number in {pod.group.name for pod in self.pods.values() if not pod.group.lone}:
            members = [pod for pod in self.pods.values() if pod.group.name == number]
            self.send(builders.seen(make_group(number, len(members))))
        holds = messages.HoldsSeen(tuple(self.holds.values()))
        self.send(holds, messages.ActivityChanged(True), messages.Tick())

    def put(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        self.tell(pod)

    def tell(self, thing: object) -> None:
        self.news.append(builders.seen(thing))  # type: ignore[arg-type]

    # --- what holds -----------------------------------------------------------------------------

    @invariant()
    def nothing_is_given_twice(self) -> None:
        given: dict[tuple[str, str], list[Share]] = {}
        for pod in getattr(self, "pods", {}).values():
            if pod.node is not None and not pod.ended:
                for container in pod.shares:
                    for share in container:
                        given.setdefault((pod.node, share.card), []).append(share)
        for (node, name), shares in given.items():
            card = next(one for one in self.cards if one.id == name)
            assert len(shares) <= card.slots, (node, name)
            assert sum(share.memory for share in shares) <= card.memory, (node, name)
            assert sum(share.cores for share in shares) <= card.cores, (node, name)
            assert len(shares) == 1 or all(share.cores < ALONE for share in shares), (node, name)


@pytest.mark.timeout(180)
def test_no_card_is_given_twice_nor_over() -> None:
    BOUND.clear()
    run_state_machine_as_test(Cluster, settings=settings(max_examples=40, stateful_step_count=30, deadline=None, phases=(Phase.generate,)))
    print(len(BOUND))
    assert len(BOUND) > 200
