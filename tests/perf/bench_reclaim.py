"""CPU time of the engine while it takes a full cluster back, piece by piece: `python -m tests.perf.bench_reclaim`.

The world of `bench_preemption`, but as the shell drives the engine: a round is made in pieces, and between two of them
pods are created, evictions come true and members are bound, some at a time, each as its own event. Prints seconds of
CPU by what the engine was given, and a digest of all that it decided, which must stay the same when only its speed
changes. Never asserts.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import replace

from extender.core import messages
from extender.core.engine import Engine
from extender.core.ids import PodUid
from extender.core.model import Pod
from tests.perf import bench_preemption as world

#: a step of the virtual clock; in each the API takes in so many writes, and the engine makes so many pieces
STEP_SECONDS = 0.02
WRITES, CREATED, PIECES = 6, 5, 10
#: how long a pod takes to end
GRACE_STEPS = 50


class Play:
    """An engine, the pods as the API has them, and what is still to be written."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.bound = self.evicted = self.steps = 0
        self._engine = Engine(10**6, 1)
        self._pods: dict[PodUid, Pod] = {pod.uid: pod for pod in world.full(self._engine)}
        self._writes: deque[messages.Effect] = deque()
        self._ending: deque[tuple[int, PodUid]] = deque()
        self._decided = hashlib.sha256()

    @property
    def digest(self) -> str:
        """Of all effects, in order."""
        return self._decided.hexdigest()[:16]

    def run(self, coming: Iterable[Pod]) -> None:
        """Until all that come are bound."""
        pods = deque(coming)
        wanted = len(pods)
        while self.bound < wanted:
            self.steps += 1
            for _ in range(min(CREATED, len(pods))):
                self._show(pods.popleft())
            while self._ending and self._ending[0][0] <= self.steps:
                uid = self._ending.popleft()[1]
                del self._pods[uid]
                self._tell(messages.PodGone(uid))
            for _ in range(min(WRITES, len(self._writes))):
                self._write(self._writes.popleft())
            for _ in range(PIECES):
                self._tell(messages.Tick())

    def _write(self, effect: messages.Effect) -> None:
        match effect:
            case messages.Evict():
                self.evicted += 1
                self._show(replace(self._pods[effect.uid], terminating=True))
                self._ending.append((self.steps + GRACE_STEPS, effect.uid))
            case messages.Ungate():
                self._bind(replace(self._pods[effect.uid], gates=()))
        self._tell(messages.EffectDone(effect))

    def _bind(self, pod: Pod) -> None:
        """kube-scheduler takes it up, and goes where it is led."""
        self._show(pod)
        node = self._engine.view.planned(pod.uid)
        assert node is not None, f"{pod.name} was let go without a place"
        self._show(world.bound(pod, node, self._now))
        self.bound += 1

    @property
    def _now(self) -> float:
        return 1000.0 + STEP_SECONDS * self.steps

    def _show(self, pod: Pod) -> None:
        self._pods[pod.uid] = pod
        self._tell(messages.PodSeen(pod))

    def _tell(self, event: messages.EngineEvent) -> None:
        began = time.process_time()
        effects = self._engine.handle(event, self._now)
        self.seconds[type(event).__name__] += time.process_time() - began
        for effect in effects:
            told = sorted(effect.names) if isinstance(effect, messages.SetOpenQueues) else effect
            self._decided.update(repr(told).encode())
        self._writes += effects


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gangs", type=int, nargs="+", default=[1, 50])
    for gangs in parser.parse_args().gangs:
        play = Play()
        play.run(world.gangs_of(gangs, world.NODES // gangs))
        spent = ", ".join(f"{name} {seconds:.2f}" for name, seconds in play.seconds.most_common())
        print(
            f"{gangs} gangs: {play.evicted} evicted, {play.bound} bound in {play.steps} steps; "
            f"{play.seconds.total():.2f} s CPU ({spent}); decisions {play.digest}",
            flush=True,
        )


if __name__ == "__main__":
    main()
