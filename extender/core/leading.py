"""How kube-scheduler is led to a planned node, and how it is told that the plan is gone.

Takes a group's record, a pod and its node, gives effects; must not look at resources.
Ways of design 3.3: a. the filter verb answers one name of the full list (no write); b. the node is
nominated in the pod's status and the gate removed (`nominate`), then the scheduler looks at that node alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from extender.core import switching
from extender.core.ids import NodeName
from extender.core.messages import Effect, Nominate, Ungate, Wake
from extender.core.model import Pod
from extender.core.planning import Entry


def lead(entry: Entry, pod: Pod, node: NodeName, nominate: bool, now: float) -> Iterator[Effect]:
    """What still has to be written so that the scheduler puts this pod on this node; each thing once."""
    if pod.planned is not None:  # it comes when its maker is let go
        yield from switching.let_go(entry, pod.planned, now)
        return
    if entry.led.get(pod.uid) == node:
        return
    first = pod.uid not in entry.led
    entry.led[pod.uid] = node
    wanted = node if nominate else None
    asked = entry.nominated.get(pod.uid, pod.nominated)
    agreed = wanted == pod.nominated == asked
    if not agreed and (pod.queue_gated or asked is not None):
        yield _nominate(entry, pod, wanted)
    if pod.uid in entry.rejected:  # so the scheduler has it, whatever our watch shows
        yield _wake(entry, pod, now)
    elif pod.queue_gated:
        if first:
            yield Ungate(pod.uid, pod.namespace, pod.name)
    elif first and pod.rejection:
        yield _wake(entry, pod, now)


def unlead(entry: Entry, pod: Pod) -> Iterator[Effect]:
    """Clear a nomination that stands in the API or is on its way there."""
    if pod.nominated is not None or pod.uid in entry.nominated:
        yield _nominate(entry, pod, None)
    entry.led.pop(pod.uid, None)
    entry.woken.discard(pod.uid)


def _nominate(entry: Entry, pod: Pod, node: NodeName | None) -> Nominate:
    if node is None:
        entry.nominated.pop(pod.uid, None)
    else:
        entry.nominated[pod.uid] = node
    return Nominate(pod.uid, pod.namespace, pod.name, node)


def _wake(entry: Entry, pod: Pod, now: float) -> Wake:
    entry.rejected.discard(pod.uid)
    entry.woken.add(pod.uid)
    return Wake(pod.uid, pod.namespace, pod.name, str(int(now * 1000)))
