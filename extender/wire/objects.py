"""Kubernetes objects as model values: the one door to the decoders.

Takes decoded JSON (dicts), gives frozen values of core.model; must not do I/O. An object that cannot be
identified raises DecodeError; anything else that is wrong is stated in the value's `problems`.
"""

from __future__ import annotations

from extender.wire.budgets import decode_budget
from extender.wire.fields import DecodeError, metadata
from extender.wire.groups import decode_group
from extender.wire.network import decode_hypernode, decode_kueue_topology, kueue_topology
from extender.wire.nodes import decode_node
from extender.wire.pods import decode_pod
from extender.wire.queues import decode_queue, encode_queue_status
from extender.wire.small import (
    decode_lease,
    decode_namespace,
    decode_open_queues,
    decode_priority_class,
    decode_topology,
    encode_open_queues,
)

__all__ = [
    "DecodeError",
    "decode_budget",
    "decode_group",
    "decode_hypernode",
    "decode_kueue_topology",
    "decode_lease",
    "decode_namespace",
    "decode_node",
    "decode_open_queues",
    "decode_pod",
    "decode_priority_class",
    "decode_queue",
    "decode_topology",
    "encode_open_queues",
    "encode_queue_status",
    "kueue_topology",
    "metadata",
]
