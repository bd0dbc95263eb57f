"""What is known of Jobs, their pods and Commands: the newest of what watches and the answers to our writes told.

Takes objects as the API server sends them; gives what the rules need. Must not write, or know the time. A Job is kept
as bytes: ten thousand of them fit into memory so, and are decoded when they are worked on.

Watches are slower than the answers to our own writes. Both come here; an older state of an object never replaces a
newer one (resourceVersions of one resource grow), and a pod that is gone does not come back.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from extender.core.ids import SCHEDULER_NAME
from extender.jobs.rules import model, reading
from extender.jobs.rules.cron import CRON_KIND
from extender.wire import marks

Key = tuple[str, str]
JOB_LABEL = "volcano.sh/job-name"
#: uids of pods that are gone: the answer to a creation may come after the watch told of the pod's end
GONE_KEPT = 20_000


@dataclasses.dataclass(slots=True)
class Entry:
    """A Job, and what this process has done for it. Written by `Store` and `carry`."""

    namespace: str
    name: str
    uid: str
    version: int
    body: bytes
    ours: bool
    #: uid of the CronJob that controls it; empty: none does
    cron: str
    #: when its status was last written
    written_at: float = float("-inf")
    #: the hash of that status, and the version that it made
    said: tuple[int, int] = (0, -1)
    #: what was refused of its last pods, or of its other objects, as its status says it
    refusal: str = ""
    #: objects that it needs, with the hash of what was wanted when it was last found to be so; 0: is gone
    applied: dict[tuple[str, str], int] = dataclasses.field(default_factory=dict)

    def content(self) -> dict[str, Any]:
        """The object."""
        found = orjson.loads(self.body)
        assert isinstance(found, dict)
        return found


@dataclasses.dataclass(slots=True)
class Pod:
    """A pod as it is seen; `group` is Volcano's group that it bears the mark of, `told` says that a watch knows it."""

    state: model.PodState
    version: int
    group: str
    told: bool


class Store:
    """Everything by the namespace and name of its Job. Invariant: `_pod_keys` has each uid that is in `_pods`."""

    def __init__(self) -> None:
        self._jobs: dict[Key, Entry] = {}
        self._children: dict[str, set[Key]] = collections.defaultdict(set)
        self._pods: dict[Key, dict[str, Pod]] = collections.defaultdict(dict)
        self._pod_keys: dict[str, Key] = {}
        self._gone: collections.OrderedDict[str, None] = collections.OrderedDict()
        self._commands: dict[Key, dict[str, model.Command]] = collections.defaultdict(dict)
        self._command_keys: dict[str, Key] = {}

    # -- Jobs

    def job_seen(self, content: dict[str, Any]) -> Key | None:
        """Take in a Job; its key, None when this state of it, or a newer one, is known."""
        metadata = content["metadata"]
        metadata.pop("managedFields", None)
        key = (metadata.get("namespace", ""), metadata["name"])
        version, before = version_of(content), self._jobs.get(key)
        if before is None or before.uid != metadata["uid"]:
            body = orjson.dumps(content)
            self._forget_child(before)
            cron = _cron_of(metadata)
            self._jobs[key] = Entry(*key, metadata["uid"], version, body, _is_ours(content), cron)
            if cron:
                self._children[cron].add(key)
        elif version > before.version:
            before.version, before.body, before.ours = version, orjson.dumps(content), _is_ours(content)
        else:
            return None
        return key

    def job_gone(self, key: Key, uid: str) -> None:
        """The Job is gone, unless another one has its name by now."""
        entry = self._jobs.get(key)
        if entry is not None and entry.uid == uid:
            del self._jobs[key]
            self._forget_child(entry)

    def job(self, key: Key) -> Entry | None:
        """The Job, whoever runs it."""
        return self._jobs.get(key)

    def ours(self) -> Iterator[Key]:
        """The Jobs that ask for our scheduler."""
        return (key for key, entry in self._jobs.items() if entry.ours)

    def children(self, cron: str) -> list[Entry]:
        """The Jobs that the CronJob with this uid controls."""
        return [self._jobs[key] for key in sorted(self._children.get(cron, ()))]

    def _forget_child(self, entry: Entry | None) -> None:
        if entry is not None and entry.cron:
            self._children[entry.cron].discard((entry.namespace, entry.name))
            if not self._children[entry.cron]:
                del self._children[entry.cron]

    # -- pods

    def pod_seen(self, content: dict[str, Any], *, told: bool) -> Key | None:
        """Take in a pod, told by a watch or as the answer to a write; its key, None when its state is no news."""
        metadata, version = content["metadata"], version_of(content)
        key = (metadata.get("namespace", ""), (metadata.get("labels") or {}).get(JOB_LABEL, ""))
        before = self._pods.get(key, {}).get(metadata["uid"])
        if before is not None:
            before.told = before.told or told
            if before.version >= version:
                return None
        if metadata["uid"] in self._gone:
            return None
        state, group = reading.decode_pod(content), _volcano_group(metadata.get("annotations") or {})
        self._pods[key][state.uid] = Pod(state, version, group, told or (before is not None and before.told))
        self._pod_keys[state.uid] = key
        return key

    def pod_leaving(self, uid: str) -> None:
        """Its deletion was asked for and answered."""
        key = self._pod_keys.get(uid)
        if key is not None:
            pod = self._pods[key][uid]
            pod.state = dataclasses.replace(pod.state, deleting=True)

    def pod_gone(self, uid: str) -> Key | None:
        """The pod is gone, for ever; its key if it was known."""
        self._gone[uid] = None
        if len(self._gone) > GONE_KEPT:
            self._gone.popitem(last=False)
        key = self._pod_keys.pop(uid, None)
        if key is not None:
            del self._pods[key][uid]
            if not self._pods[key]:
                del self._pods[key]
        return key

    def pods(self, key: Key) -> list[Pod]:
        """The pods that bear the Job's name."""
        return list(self._pods[key].values()) if key in self._pods else []

    # -- Commands

    def command_seen(self, content: dict[str, Any]) -> Key:
        """Take in a Command; the key of the Job that it is for."""
        name, command = reading.decode_command(content)
        key = (content["metadata"].get("namespace", ""), name)
        self._commands[key][command.uid] = command
        self._command_keys[command.uid] = key
        return key

    def command_gone(self, uid: str) -> None:
        """The Command is gone."""
        key = self._command_keys.pop(uid, None)
        if key is not None:
            del self._commands[key][uid]
            if not self._commands[key]:
                del self._commands[key]

    def commands(self, key: Key) -> list[model.Command]:
        """The Commands for the Job, in the order of their uids, which is always the same."""
        return sorted(self._commands.get(key, {}).values(), key=lambda command: command.uid)


def adopted_group(pods: Iterable[Pod], uid: str) -> str:
    """Volcano's group of the Job with this uid, when it made its living pods; else empty."""
    groups = {pod.group for pod in pods if pod.group and pod.state.owner_uid == uid and not pod.state.deleting}
    return min(groups, default="")


def version_of(content: dict[str, Any]) -> int:
    """The resourceVersion as a number; -1 where it is none."""
    text = content["metadata"].get("resourceVersion", "")
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else -1


def _cron_of(metadata: dict[str, Any]) -> str:
    owners = metadata.get("ownerReferences") or []
    return next((str(one.get("uid")) for one in owners if one.get("controller") and one.get("kind") == CRON_KIND), "")


def _is_ours(content: dict[str, Any]) -> bool:
    spec = content.get("spec")
    return isinstance(spec, dict) and spec.get("schedulerName") == SCHEDULER_NAME


def _volcano_group(annotations: dict[str, str]) -> str:
    return annotations.get(marks.VOLCANO_GROUP_ANNOTATION) or annotations.get(marks.VOLCANO_GROUP_ANNOTATION_2) or ""
