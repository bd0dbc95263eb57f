"""Bindings that HAMi's extender writes: those of pods for which its filter has chosen cards.

Takes a bind effect, sends it to HAMi once the lock of the node is free, gives what the API server shows of it then;
must not choose cards, take locks, or believe what HAMi says without a proof.

HAMi hands out the cards of one pod of a node at a time, under a lock of the node that its device plugin gives back, and
of most pods it does not wait for the lock. So members on one node come here one after the other, and each waits until
the one before has been served.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aiohttp

from extender.core import gate_messages as gm
from extender.kube import bind, client, errors, node_lock, resources
from extender.wire import extender_v1, hami

#: so long HAMi may take for one binding: it waits for its lock itself, for up to 28 s
CALL_SECONDS = 40.0
#: a binding that HAMi refuses is sent so often: its lock may have been taken between our look and its own
ATTEMPTS = 3
#: an answer holds one error text
ANSWER_LIMIT = 2**16
_PODS = resources.Served(resources.PODS, "v1")


class Hami:
    """HAMi's extender, of which only filter stands in the scheduler's configuration."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self._session = session
        self._url = f"{base}/bind"

    async def forward(self, api: client.Api, effect: gm.Bind) -> bind.Outcome | None:
        """The outcome of its binding; None for a pod of which it has chosen nothing, so that it is not HAMi's."""
        pod, outcome = await self._look(api, effect, "")
        if outcome is not None:
            return outcome
        chosen = _chosen(pod)
        if chosen is None:
            return None
        if chosen != effect.node:
            return bind.Outcome(bind.Verdict.REFUSED, "", f"HAMi has chosen cards on node {chosen[:253]}")
        why = ""
        for _ in range(ATTEMPTS):
            why = await node_lock.wait(api, effect.node, effect.namespace, effect.name)
            if why:
                break
            said = await self._send(effect)
            why = said or "HAMi says that the pod is bound, and it is not"
            _, outcome = await self._look(api, effect, why)
            if outcome is not None:
                return outcome
            if not said:
                break
        return bind.Outcome(bind.Verdict.REFUSED, "", why)

    async def _look(
        self, api: client.Api, effect: gm.Bind, cause: str
    ) -> tuple[Mapping[str, Any], bind.Outcome | None]:
        """The live pod, and the outcome if it shows one."""
        try:
            pod = await api.read(_PODS.path(effect.namespace, effect.name))
        except errors.NotFound as error:
            return {}, bind.Outcome(bind.Verdict.GONE, "", error.message)
        except errors.KubeError as error:
            return {}, bind.Outcome(bind.Verdict.UNSETTLED, "", f"{cause}; then {error}".lstrip("; "))
        return pod, bind.judge(pod, effect.uid, effect.node, cause)

    async def _send(self, effect: gm.Bind) -> str:
        """What HAMi says against the binding; "" when it says that it is done."""
        body = extender_v1.encode_bind_args(effect.namespace, effect.name, effect.uid, effect.node)
        limit = aiohttp.ClientTimeout(total=CALL_SECONDS)
        headers = {"Content-Type": "application/json"}
        try:
            # its certificate is its own, and proves nothing: what it says is not believed without a proof
            async with self._session.post(
                self._url, data=body, timeout=limit, headers=headers, ssl=False, auto_decompress=False
            ) as response:
                if response.status != 200:
                    return f"HAMi answered {response.status}"
                return extender_v1.decode_bind_result(await client.read_bounded(response, ANSWER_LIMIT))
        except (aiohttp.ClientError, TimeoutError, errors.Unreadable, extender_v1.WireError) as error:
            return f"HAMi: {type(error).__name__} {error}".strip()


def _chosen(pod: Mapping[str, Any]) -> str | None:
    """The node on which HAMi has chosen cards for the pod; None where it has chosen none."""
    meta = pod.get("metadata")
    notes = meta.get("annotations") if isinstance(meta, dict) else None
    chosen = notes.get(hami.NODE) if isinstance(notes, dict) else None
    return chosen if isinstance(chosen, str) else None
