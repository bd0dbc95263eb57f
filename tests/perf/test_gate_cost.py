"""What the permit gate's core costs for one gang of 1024 over 128 nodes of 8 GPUs.

Measured with Python 3.11 on 2 cores under other load: 93 to 145 ms from the calls to the answers, two thirds
of it the world's own book-keeping; 45 to 60 ms for the watch events. The limit leaves room for a busy machine.
"""

from __future__ import annotations

import time
from dataclasses import replace

from extender.core import gate_messages as gm
from extender.core import messages
from tests.builders import GPU, gpu_node, group_key, make_group, make_pod
from tests.core.gate_driver import Driver

MEMBERS = 1024
KEY = group_key()
#: CPU seconds for calls, questions, bindings and their answers
LIMIT_SECONDS = 0.3


def one_round() -> tuple[float, float]:
    """CPU seconds of the gate's own part, and of the watch events that show the bound pods."""
    group = make_group(min_member=MEMBERS)
    nodes = [gpu_node(f"gpu-{n}") for n in range(MEMBERS // 8)]
    pods = [make_pod(f"p{n}", {GPU: 1, "cpu": 1000}, group=KEY) for n in range(MEMBERS)]
    driver = Driver(*nodes, group, *pods)
    begun = time.process_time()
    for n, pod in enumerate(pods):
        driver.call(pod, nodes[n // 8].name)
    driver.read(group)
    effects = driver.let_go(KEY, pods)
    assert sum(isinstance(effect, gm.Bind) for effect in effects) == MEMBERS
    for pod in pods:
        driver.done(pod)
    own = time.process_time() - begun
    assert len(driver.answers) == MEMBERS
    assert set(driver.answers.values()) == {""}
    begun = time.process_time()
    for n, pod in enumerate(pods):
        driver.send(messages.PodSeen(replace(pod, node=nodes[n // 8].name, phase="Running")))
    return own, time.process_time() - begun


def test_a_round_of_1024_costs_little():
    own, shown = min(one_round() for _ in range(3))
    print(f"calls to answers {own * 1000:.0f} ms, then {shown * 1000:.0f} ms for the watch")
    assert own < LIMIT_SECONDS
