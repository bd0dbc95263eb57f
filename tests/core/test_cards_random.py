"""No card is given twice, nor over its memory or cores, whatever order filter, bind, failure, news and restart come in.

A small cluster of nodes with cards: its truth is what bindings carried, the engine hears of it late, and calls that
were made before come back after. What stands on each card is added up from the truth alone.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import replace

import pytest

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
#: how often each thing happens
STEPS = {
    "submit": 6,
    "ask": 6,
    "hold": 3,
    "release": 9,
    "end": 8,
    "change_card": 2,
    "cordon": 1,
    "deliver": 9,
    "pass_time": 2,
    "restart": 1,
}


def node_of(name: str, cards: tuple[Card, ...]) -> Node:
    slots = sum(card.slots for card in cards if not card.trouble)
    return make_node(name, {"cpu": 96_000, "memory": 2**40, GPU: slots}, hami=True, cards=cards)


class Cluster:
    """The truth, a watch that lags, and an engine that is started anew now and then."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.cards = tuple(Card(f"g{n}", self.dice.choice([1, 2, 4]), 16_000, 100, "NVIDIA-A100") for n in range(2))
        self.now = engine_driver.START
        self.nodes = {name: node_of(name, self.cards) for name in NODES}
        self.pods: dict[str, Pod] = {}
        self.news: deque[messages.WorldEvent] = deque()
        self.holds: dict[str, Hold] = {}
        self.made = self.bound = 0
        self.restart()

    def send(self, *events: messages.EngineEvent) -> None:
        for event in events:
            self.engine.handle(event, self.now)
            engine_driver.check(self.engine)

    def step(self) -> None:
        (name,) = self.dice.choices(list(STEPS), list(STEPS.values()))
        getattr(self, name)()
        self.check()

    # --- what happens ---------------------------------------------------------------------------

    def submit(self) -> None:
        """A pod, or a gang of up to three."""
        self.made += 1
        request, members = self._request(), self.dice.choice([1, 1, 2, 3])
        number = sum(ask.number for ask in request.asks)
        shape = replace(make_shape({"cpu": 100, GPU: number}), cards=request)
        key = f"gang-{self.made}" if members > 1 else None
        if key:
            self.tell(make_group(key, members))
        for n in range(members):
            self.put(make_pod(f"p{self.made}-{n}", shape=shape, group=key))

    def _request(self) -> CardRequest:
        asks = [
            CardAsk(
                number=self.dice.choice([1, 1, 1, 2]),
                memory=self.dice.choice([None, 300, 4000, 8000, 9000]),
                percent=self.dice.choice([None, 50]),
                cores=self.dice.choice([0, 0, 30, 60, 100]),
            )
            for _ in range(self.dice.choice([1, 1, 2]))
        ]
        passing = self.dice.choice([(), (1,)]) if len(asks) > 1 else ()
        return CardRequest((None, *asks), not_ids=self.dice.choice([(), (), ("g0",)]), passing=passing)

    def ask(self) -> None:
        """kube-scheduler's filter call, also for a pod that the watch has not shown."""
        waiting = [pod for pod in self.pods.values() if pod.waiting]
        if waiting:
            self.send(messages.FilterCalled(self.dice.choice(waiting), OFFERED), messages.Tick())

    def hold(self) -> None:
        """Bind calls for what is planned."""
        for pod in self.pods.values():
            node = self.engine.view.planned(pod.uid)
            if pod.waiting and node is not None and pod.uid not in self.holds and self.dice.random() < 0.8:
                self.holds[pod.uid] = Hold(pod.uid, node, pod.group)
        self.send(messages.HoldsSeen(tuple(self.holds.values())))

    def release(self) -> None:
        """The gate asks, and writes the bindings that it may: some may fail, and their calls are refused."""
        self.hold()
        if not self.holds:
            return
        group = self.dice.choice(list(self.holds.values())).group
        held = [hold for hold in self.holds.values() if hold.group == group]
        self.send(messages.Tick())
        vetoes = self.engine.view.vetoes(Member(hold.uid, hold.node) for hold in held)
        for hold in [hold for hold in held if hold.uid not in vetoes]:
            pod = self.pods.get(hold.uid)
            if pod is not None and pod.waiting and self.dice.random() < 0.9:
                shares = self.engine.view.shares(hold.uid)
                assert pod.shape.cards is not None
                assert [len(one) for one in shares] == [one.number if one else 0 for one in pod.shape.cards.containers]
                self.put(replace(pod, node=hold.node, phase="Running", shares=shares))
                self.bound += 1
            del self.holds[hold.uid]
        self.send(messages.HoldsSeen(tuple(self.holds.values())))

    def end(self) -> None:
        """A pod ends, or goes."""
        if not self.pods:
            return
        bound = [pod for pod in self.pods.values() if pod.bound]
        pod = self.dice.choice(bound or list(self.pods.values()))
        how = self.dice.choice(["Succeeded", "Succeeded", "Succeeded", "Failed", "gone", "gone", "refused"])
        self.holds.pop(pod.uid, None)
        if how == "gone" or pod.node is None:
            del self.pods[pod.uid]
            self.news.append(messages.PodGone(pod.uid))
        else:
            phase = "Failed" if how == "refused" else how
            self.put(replace(pod, phase=phase, not_admitted=how == "refused"))

    def change_card(self) -> None:
        """A card falls ill, recovers, or is published no more."""
        name, card = self.dice.choice(NODES), self.dice.randrange(2)
        cards, trouble = list(self.cards), self.dice.choice(["", "", "unhealthy", "gone"])
        if trouble == "gone":
            del cards[card]
        elif trouble:
            cards[card] = replace(cards[card], trouble=Trouble(trouble))
        self.nodes[name] = node_of(name, tuple(cards))
        self.tell(self.nodes[name])

    def cordon(self) -> None:
        """A node is cordoned, or open again."""
        name = self.dice.choice(NODES)
        self.nodes[name] = replace(self.nodes[name], unschedulable=self.dice.random() < 0.3)
        self.tell(self.nodes[name])

    def deliver(self) -> None:
        """The watch shows some of the news."""
        for _ in range(min(self.dice.randrange(1, 9), len(self.news))):
            self.send(self.news.popleft())
        self.send(messages.Tick())

    def pass_time(self) -> None:
        """Time passes."""
        self.now += self.dice.choice([0.5, 3.0, 20.0])
        self.send(messages.Tick())

    def restart(self) -> None:
        """A new engine lists the cluster; what the gate holds is still held."""
        self.engine = Engine(engine_driver.BY_LIST)
        self.news.clear()
        self.send(*map(builders.seen, (*self.nodes.values(), *self.pods.values())))
        for name in {pod.group.name for pod in self.pods.values() if not pod.group.lone}:
            members = [pod for pod in self.pods.values() if pod.group.name == name]
            self.send(builders.seen(make_group(name, len(members))))
        holds = messages.HoldsSeen(tuple(self.holds.values()))
        self.send(holds, messages.ActivityChanged(True), messages.Tick())

    def put(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        self.tell(pod)

    def tell(self, thing: object) -> None:
        self.news.append(builders.seen(thing))  # type: ignore[arg-type]

    # --- what holds -----------------------------------------------------------------------------

    def check(self) -> None:
        """Nothing is given twice, nor over what there is; whether those are there that pass, or those that last."""
        for passing in (True, False):
            self._check_moment(passing)

    def _check_moment(self, passing: bool) -> None:
        given: dict[tuple[str, str], list[Share]] = {}
        for pod in self.pods.values():
            if pod.node is not None and not pod.ended:
                shares = [share for container in pod.shares for share in container]
                now = passing and any(share.passing for share in shares)
                for share in (share for share in shares if share.passing is now):
                    given.setdefault((pod.node, share.card), []).append(share)
        for (node, name), shares in given.items():
            card = next(one for one in self.cards if one.id == name)
            assert len(shares) <= card.slots, (node, name)
            assert sum(share.memory for share in shares) <= card.memory, (node, name)
            assert sum(share.cores for share in shares) <= card.cores, (node, name)
            assert len(shares) == 1 or all(share.cores < ALONE for share in shares), (node, name)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(12))
def test_no_card_is_given_twice_nor_over(seed: int) -> None:
    cluster = Cluster(seed)
    for _ in range(300):
        cluster.step()
    assert cluster.bound > 10
