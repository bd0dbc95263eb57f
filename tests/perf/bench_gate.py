"""What the permit gate's core costs for one gang of 1024 over 128 nodes of 8 GPUs.

`python -m tests.perf.bench_gate` prints CPU time; nothing is asserted but that all calls are answered.
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


def main() -> None:
    """Print the best of five rounds."""
    own, shown = min(one_round() for _ in range(5))
    print(f"calls to answers {own * 1000:.0f} ms, then {shown * 1000:.0f} ms for the watch")


if __name__ == "__main__":
    main()
