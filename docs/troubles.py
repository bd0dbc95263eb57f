"""docs/troubleshooting.md: every reason of the closed sets, in the words that status, plugin and live answers use.

Takes extender.core.reasons and explain, gives the page; only where to look is said here. `make docs`
writes it, and a test compares.
"""

from __future__ import annotations

from collections.abc import Iterator

from extender.core import explain
from extender.core.reasons import KIND_OF, Ground, Kind, Overcommit, Reason, Refusal

#: what a person looks at, in Markdown
LOOK: dict[Reason, str] = {
    Reason.QUEUE_NOT_FOUND: "`kubectl muster queues`; the label `muster.dev/queue` of pods and namespace, and the "
    "group's `queue`: a queue of ours or of Volcano must have that name",
    Reason.QUEUE_INVALID: "`kubectl muster queues`, column WRONG: the detail `blamed` names the queue, `problem` its "
    "fault (no such parent, a circle, amounts that contradict each other)",
    Reason.QUEUE_NOT_LEAF: "the details `below`: the queues under it, of which one is to be named",
    Reason.QUEUE_CLOSED: "the detail `closed`: the queue whose `state` is Closed, which may be one above",
    Reason.NAMESPACE: "the detail `queue`, and `namespaces` in the spec of that queue",
    Reason.QUOTA: "`kubectl muster queues`: the detail `queue` names the one whose `capability` would be passed, which "
    "may be one above; ALLOCATED has running work and plans",
    Reason.RESERVED: "the detail `for` (a group that waits for what its queue owns), or `queue` (a guarantee that is "
    "kept for others)",
    Reason.RESERVED_FOR_HEAD: "`kubectl muster why` of the group that the detail `head` names; `expected_at` is when "
    "that one starts, as seconds since 1970",
    Reason.FIRM: "the queue's `deserved` and `guarantee`, against all its work that nobody may evict "
    "(`preemptible: false`, or a disruption budget that never lets a pod go)",
    Reason.VICTIMS: "the details `victims` and `group`; pods with a `deletionTimestamp` and how long their "
    "`terminationGracePeriodSeconds` is",
    Reason.NO_VICTIMS: "the details: what protects those in question (a disruption budget, `minRuntimeSeconds`, "
    "`reclaimable: false`, `preemptible: false`, a queue that is inside what it deserves, or an eviction that was "
    "refused)",
    Reason.QUEUED: "the position: who stands before it in `kubectl muster gangs -A`",
    Reason.RESOURCES: "`kubectl muster nodes --resource NAME` for the detail `resource`; `asked` and `free` are of the "
    "nodes that it accepts, and `largest` is said where no node is so large",
    Reason.FRAGMENTED: "`kubectl muster nodes`, column LARGEST; `asked` and `fit` count pods. "
    "`muster_extender_fragmented_gpus` shows whether it grows",
    Reason.DEVICE_NO_FIT: "the annotation `hami.io/node-nvidia-register` of the node, and what its pods were given "
    "(`hami.io/vgpu-devices-allocated`)",
    Reason.DEVICE_UNHEALTHY: "the details `node`, `card` and `problem`: ill, cordoned (`hami.io/device-cordon`), or "
    "refused by its kubelet",
    Reason.NODE_UNAVAILABLE: "the details `node` and `problem`: not ready, cordoned, tainted, its MIG layout "
    "(`nvidia.com/mig.config.state`) not in place, or a kubelet that refused pods",
    Reason.TOPOLOGY: "`kubectl muster nodes --level LABEL`: `domain` is the one that would take most, `fit` of `asked` "
    "pods; `no topology has this level` means a wrong name, or no node with that label",
    Reason.UNLABELLED: "`kubectl get nodes -L LABEL` for the detail `label`; "
    "`muster_extender_topology_unlabelled_nodes` counts such nodes",
    Reason.CONSTRAINTS: "`nodeSelector`, required node affinity and tolerations of the pods, against labels and taints "
    "of the nodes",
    Reason.SIBLING: "`kubectl muster why pod/NAME` of the detail `member`, which waits for the detail `reason`",
    Reason.MEMBERS: "`have` and `minimum`, by `task` where tasks have minimums: the controller that makes the pods, a "
    "ResourceQuota that stops it, or the detail `gate`: a scheduling gate of somebody else",
    Reason.GROUP_NOT_FOUND: "the mark on the pod (label, annotation or `schedulingGroup`) and the group's object in "
    "the same namespace; without one, `muster.dev/min-member` on every member. Of a group `owner:KIND:NAME` the object "
    "that made the pod: is it there, and of that kind",
    Reason.INVALID: "the details `problem`: which field, or on what members disagree",
    Reason.SCHEDULER_REFUSED: "the message of the pod's condition PodScheduled: a volume, a port, affinity between "
    "pods, or another check of kube-scheduler",
    Reason.HELD_ELSEWHERE: "nothing, for seconds. If it lasts: `kubectl -n muster-system logs deploy/muster -c "
    "kube-scheduler`, and `muster_gate_held_binds`",
    Reason.STAYS_SUSPENDED: "the detail `error`. `forbidden` means that Muster lacks the right: add the component "
    "`queue-by-suspension`, or bind a role with the verb `patch` for that kind. It is tried again after longer and "
    "longer pauses, of three minutes at most",
    Reason.EVICTING: "its pods with a `deletionTimestamp`; `kubectl muster why` says by which rule",
    Reason.NOT_READY: "`/readyz` of the extender, which names what it waits for; `kubectl -n muster-system logs "
    "deploy/muster -c extender`",
    Reason.INACTIVE: "nothing: the other replica acts. If none does, the lease in `muster-system`",
}
HEADINGS: dict[Kind, str] = {
    Kind.WAIT: "It ends by itself, when others finish, leave or come",
    Kind.NEVER: "Somebody must change something",
    Kind.FAULT: "Muster itself is not ready",
}
OVERCOMMITS: dict[Overcommit, str] = {
    Overcommit.SETTLING: "wait: the kubelet, or the other side, may still solve it",
    Overcommit.LEAVING: "wait: it fits once those that are leaving have gone",
    Overcommit.NOT_BY_BINDING: "no concurrent binding explains it (a node that shrank, a static pod): a person decides",
    Overcommit.KEPT: "no pods of ours that may be evicted would make it fit: a person decides",
    Overcommit.REFUSED: "an eviction was refused, most often by a disruption budget: see the pod's Events",
}

INTRO = """# Troubleshooting, by reason

Generated by `make docs` from the closed sets in `extender/core/reasons.py` and their words in
`extender/core/explain.py`; do not edit it by hand.

Every group that waits has exactly one reason. It stands, with the same words, in the status of the group (or the
condition, or annotation, of groups of other kinds), in its Events, in `kubectl muster why NAME`, and in the live
answers. The numbers follow in brackets, as `name value`; live answers have them as `detail`. The status is written when
the reason changes, at most a few times an hour; the live answer is always of this moment. `kubectl muster history NAME`
tells the reasons of earlier.

What is said in the column *it starts when* comes with its own numbers in `kubectl muster why`: so many pods more in
which domain, so much more of which queue."""


def page() -> str:
    """The whole page."""
    return "\n".join([INTRO, *_reasons(), *_evictions(), *_overcommits()]) + "\n"


def _reasons() -> Iterator[str]:
    for kind, heading in HEADINGS.items():
        yield f"\n## {heading}\n"
        yield "| reason | what it means | what to look at | it starts when |\n|---|---|---|---|"
        for reason in Reason:
            if KIND_OF[reason] is kind:
                meaning = explain.sentence(Refusal(reason))
                yield f"| `{reason}` | {meaning} | {LOOK[reason]} | {explain.MENDS[reason]} |"


def _evictions() -> Iterator[str]:
    yield "\n## Why a pod was evicted\n"
    yield "`kubectl muster why` and `history`, the live answers, the web page and the newest eviction in the group's"
    yield "object name the rule and what was lost. A pod that Muster evicts has the annotation `muster.dev/evicted` and"
    yield "an Event, which also name for whom it goes. Evictions by others are told as far as the pod's condition"
    yield "`DisruptionTarget` says it; a pod that its owner or a user deletes was not evicted.\n"
    yield "| rule | what it means |\n|---|---|"
    for ground in Ground:
        yield f"| `{ground}` | {explain.EVICTED[ground]} |"


def _overcommits() -> Iterator[str]:
    yield "\n## A node has more on it than it has\n"
    yield "The metric `muster_extender_overcommitted_nodes` counts such nodes that have pods of ours, by `outlook`.\n"
    yield "| outlook | what to do |\n|---|---|"
    for outlook in Overcommit:
        yield f"| `{outlook}` | {OVERCOMMITS[outlook]} |"
