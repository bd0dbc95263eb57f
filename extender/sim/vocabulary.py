"""What a scenario file may say: the kinds of events and checks, and the fields of everything.

Takes nothing, gives tables of readers; must not look across fields (`reading` does).
"""

from __future__ import annotations

from collections.abc import Mapping

from extender.sim import report
from extender.sim.fields import (
    Need,
    Read,
    amount,
    flag,
    integer,
    list_of,
    map_of,
    one_of,
    real,
    record,
    seconds,
    text,
    word,
)

Fields = Mapping[str, Read | Need]

CODES = (
    "NotEnoughMembers",
    "GangWaiting",
    "InsufficientResources",
    "NoMatchingNode",
    "QuotaExceeded",
    "NonPreemptibleOverQuota",
    "QueueNotFound",
    "QueueNotLeaf",
    "QueueClosed",
    "QueueInvalid",
    "ReservedForHead",
    "WaitingForVictims",
    "NoEligibleVictims",
    "Preempted",
    "Reclaimed",
    "TopologyNoDomain",
    "TopologyUnlabelled",
    "Fragmented",
    "DeviceNoFit",
    "DeviceUnhealthy",
    "NodeUnavailable",
    "AlreadyBound",
    "InvalidRequest",
)
_PRIORITY = integer(-(2**31), 2**31 - 1)
_AMOUNTS = map_of(text, amount)
_LABELS = map_of(text, text)
_CODE = one_of(*CODES)
_NAMES = list_of(text, least=1)


def _or_nothing(read: Read) -> Read:
    return lambda value, path: None if value is None else read(value, path)


CARD: Fields = {
    "id": Need(text),
    "memory_mib": Need(integer(0, 2**30)),
    "cores": Need(integer()),
    "slots": Need(integer()),
    "healthy": flag,
}
NODE: Fields = {
    "name": Need(text),
    "allocatable": Need(_AMOUNTS),
    "labels": _LABELS,
    "devices": list_of(record(CARD, report.Card)),
}
_QUEUE_FIELDS: dict[str, Read | Need] = {
    "parent": text,
    "weight": integer(-(2**31), 2**31 - 1),
    "capability": _AMOUNTS,
    "deserved": _AMOUNTS,
    "guarantee": _AMOUNTS,
    "reclaimable": flag,
    "priority": _PRIORITY,
    "state": one_of("Open", "Closed"),
}
QUEUE: Fields = {"name": Need(text), **_QUEUE_FIELDS}
TASK: Fields = {
    "name": Need(text),
    "replicas": Need(integer()),
    "requests": Need(_AMOUNTS),
    "min": integer(),
    "node_selector": _LABELS,
    "at": seconds,
    "placed": map_of(text, integer()),
    "init_requests": _AMOUNTS,
    "sidecar_requests": _AMOUNTS,
    "overhead": _AMOUNTS,
}
GROUP: Fields = {
    "name": Need(text),
    "minMember": Need(integer(-(2**31), 2**31 - 1)),
    "tasks": Need(list_of(record(TASK, report.Task), least=1)),
    "queue": text,
    "priority": _PRIORITY,
    "at": seconds,
    "topology": record({"required": text, "preferred": text}),
    "preemptible": flag,
    "recreate": flag,
    "runtime": seconds,
    "declared_runtime": integer(-(2**31), 2**31 - 1),
    "grace": seconds,
}
POD: Fields = {
    "name": Need(text),
    "requests": Need(_AMOUNTS),
    "queue": text,
    "priority": _PRIORITY,
    "at": seconds,
    "node": text,
    "node_selector": _LABELS,
}
BUDGET: Fields = {"name": Need(text), "group": Need(text), "min_available": Need(integer())}
SETTINGS: Fields = {
    "end": seconds,
    "bind_window": seconds,
    "hold_seconds": seconds,
    "http_timeout": seconds,
    "stale_gang_seconds": integer(),
    "max_rejections_per_node": integer(),
    "gpu_charge": one_of("share", "gpus"),
}

_ON_NODE: Fields = {"node": Need(text)}
_ON_QUEUE: Fields = {"queue": Need(text)}
_ON_DEVICE: Fields = {"node": Need(text), "device": Need(text), "allocatable": Need(_AMOUNTS)}

#: fields of each kind of event beside `at`, `kind` and `note`
EVENTS: Mapping[str, Fields] = {
    "add_node": {"node": Need(record(NODE, report.Node))},
    "label_node": {"node": Need(text), "labels": Need(map_of(text, _or_nothing(text)))},
    "cordon": _ON_NODE,
    "uncordon": _ON_NODE,
    "drain": _ON_NODE,
    "fail_node": _ON_NODE,
    "recover_node": _ON_NODE,
    "remove_node": _ON_NODE,
    "add_pods": {"group": Need(text), "pods": _NAMES, "task": record(TASK, report.Task)},
    "delete_pod": {"pods": _NAMES, "pod": text},
    "delete_group": {"group": Need(text)},
    "set_min_member": {"group": Need(text), "minMember": Need(integer(-(2**31), 2**31 - 1))},
    "add_queue": {"queue": Need(record(QUEUE, report.Queue))},
    "set_queue": {
        "queue": Need(text),
        "set": Need(record({key: _or_nothing(read) for key, read in _QUEUE_FIELDS.items() if callable(read)})),
    },
    "close_queue": _ON_QUEUE,
    "delete_queue": _ON_QUEUE,
    "recreate_pod": {"pod": Need(text), "deliver": one_of("add_before_delete", "delete_before_add")},
    "finish_pods": {"pods": Need(_NAMES), "phase": Need(one_of("Succeeded", "Failed")), "keep_object": flag},
    "device_unhealthy": _ON_DEVICE,
    "device_healthy": _ON_DEVICE,
    "kubelet_reject": {"node": Need(text), "until": Need(seconds)},
    "freeze_budget_status": {},
    "delay_watch": {"object": Need(text), "seconds": Need(seconds)},
    "api_conflict": {"object": Need(text), "times": Need(integer())},
    "delay_bind_reply": {"pod": Need(text), "seconds": Need(seconds)},
    "repeat_bind": {"pod": Need(text), "node": Need(one_of("same", "other"))},
    "crash_during_bind": {"group": Need(text), "posted": Need(integer())},
    "start_sidecar": {},
}

_COUNT = integer()
_GROUP_OR_POD: Fields = {"group": text, "pod": text}
#: fields of each kind of check beside `check`, `at`, `by` and `until`
CHECKS: Mapping[str, Fields] = {
    "bound": {**_GROUP_OR_POD, "count": Need(_COUNT)},
    "bound_always": {"group": Need(text), "allowed": Need(list_of(_COUNT, least=1))},
    "census": {"groups": Need(_NAMES), "counts": Need(map_of(_COUNT, _COUNT))},
    "held": {"group": Need(text), "max": Need(_COUNT)},
    "finished": {"groups": Need(_NAMES)},
    "order": {"first": Need(text), "then": Need(text)},
    "evicted": {**_GROUP_OR_POD, "min": _COUNT, "max": _COUNT},
    "evicted_total": {"min": _COUNT, "max": _COUNT},
    "queue_used": {"queue": Need(text), "resources": Need(_AMOUNTS)},
    "queue_used_max": {"queue": Need(text), "resources": Need(_AMOUNTS)},
    "nodes": {**_GROUP_OR_POD, "in": list_of(text), "not_in": list_of(text)},
    "same_domain": {"group": Need(text), "key": Need(text), "value": text},
    "cards": {"pods": Need(_NAMES), "relation": Need(one_of("same", "different"))},
    "card_load": {
        "node": Need(text),
        "resource": Need(one_of("cores", "memory_mib", "slots")),
        "max": Need(integer(0, 2**40)),
    },
    "reason": {**_GROUP_OR_POD, "queue": text, "code": Need(_CODE), "mentions": list_of(word)},
    "rejected": {"object": Need(text), "code": Need(_CODE)},
    "queue_state": {"queue": Need(text), "state": Need(one_of("Open", "Closing", "Closed"))},
    "group_phase": {"group": Need(text), "is": text, "not": text},
    "failed": {"group": Need(text), "max": Need(_COUNT)},
    "answer": {"call": Need(text), "result": Need(one_of("success", "error")), "code": _CODE},
    "writes": {"object": Need(text), "max": Need(_COUNT)},
    "binding_posts": {"pod": Need(text), "max": Need(_COUNT)},
    "answers": {"max_seconds": Need(real)},
}
#: of these fields a check or event must have exactly one, where its kind has several of them
CHOICES: Mapping[str, tuple[str, ...]] = {
    "bound": ("group", "pod"),
    "evicted": ("group", "pod"),
    "nodes": ("group", "pod"),
    "reason": ("group", "pod", "queue"),
    "group_phase": ("is", "not"),
    "add_pods": ("pods", "task"),
    "delete_pod": ("pods", "pod"),
}
