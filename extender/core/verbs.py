"""Answers to kube-scheduler's verbs out of the published view. They read; they do not decide.

Takes a call's few facts, gives an answer as a value; must not change state. `Ask` means that the engine
has to look at the pod first: the one exception of design section 5.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from extender.core.explain import TEXT
from extender.core.ids import NodeName, PodUid
from extender.core.model import Pod
from extender.core.reasons import Kind, Reason, Refusal
from extender.core.view import View
from extender.core.world import World

#: scores are 0 to this, as kube-scheduler expects of an extender
MAX_SCORE = 10


@dataclass(frozen=True, slots=True)
class Accept:
    """The pod may go to this node only."""

    node: NodeName


@dataclass(frozen=True, slots=True)
class Reject:
    """No node; `text` is constant for the reason."""

    text: str


@dataclass(frozen=True, slots=True)
class Fail:
    """Not now, through no fault of the pod: kube-scheduler tries again after its error back-off."""

    text: str


@dataclass(frozen=True, slots=True)
class Ask:
    """The view does not know: let the engine look at the pod first."""


def filter_known(view: View, uid: PodUid, offered: Collection[NodeName]) -> Accept | Reject | Ask:
    """The answer for a pod that the engine has judged, else `Ask`."""
    node = view.planned(uid)
    if node is not None:
        return Accept(node) if node in offered else Ask()
    refusal = view.refusal(uid)
    if refusal is None or refusal.reason is Reason.SCHEDULER_REFUSED:
        return Ask()
    return Reject(TEXT[refusal.reason])


def filter_judged(view: View, uid: PodUid, offered: Collection[NodeName]) -> Accept | Reject | Fail:
    """The answer after the engine has looked at the pod."""
    node = view.planned(uid)
    if node is not None:
        return Accept(node) if node in offered else Reject(TEXT[Reason.HELD_ELSEWHERE])
    refusal = view.refusal(uid) or Refusal(Reason.QUEUED)
    return Fail(TEXT[refusal.reason]) if refusal.kind is Kind.FAULT else Reject(TEXT[refusal.reason])


def scores(world: World, pod: Pod, offered: Sequence[NodeName]) -> list[int]:
    """Packing scores 0..10 for a pod without queue or gang (profile `muster-score`): fuller is better.

    Nodes that we do not know score 0. The fullest column that the pod asks for decides.
    """
    request = world.request_row(pod)
    wanted = np.flatnonzero(request)
    rows = np.array([world.nodes.row_of.get(name, -1) for name in offered], dtype=np.int64)
    known = rows >= 0
    allocatable = world.nodes.allocatable[np.ix_(rows[known], wanted)]
    after = world.nodes.used[np.ix_(rows[known], wanted)] + request[wanted]
    share = (MAX_SCORE * after // np.maximum(allocatable, 1)).max(axis=1, initial=0)
    found = np.zeros(len(rows), dtype=np.int64)
    found[known] = np.clip(share, 0, MAX_SCORE)
    return [int(score) for score in found]
