"""What Muster reads from manifests: groups, their tasks and minimums, requests, queues and topology wishes.

Takes files, gives plain values for people and tests; must not place anything. Pods and groups are made as their
controllers make them (`controllers`), and read by what reads them in a cluster: the decoders and the core's membership.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from extender.core.ids import GroupKey
from extender.core.makers import Makers, MakerSeen, RecognitionsSeen
from extender.core.membership import Need, Tally, need_of
from extender.core.messages import GroupSeen, PodSeen
from extender.core.model import CardAsk, CardRequest, Group, Pod
from extender.core.parts import parts_of
from extender.core.reasons import Refusal
from extender.core.resources import GPU_SHARE, PODS
from extender.sim import controllers
from extender.sim.fields import Fault
from extender.wire import objects
from extender.wire.makers import decode_maker, recognitions_of
from extender.wire.user_kinds import merged

Result = dict[str, Any]
_NO_YAML: Result = {"problem": "this is not YAML"}


def read_files(paths: Iterable[str]) -> dict[str, list[Result]]:
    """By file what Muster reads from it; a Fault when there is no such file.

    Files are read together: one may name a runtime or a priority class of another.
    """
    loaded = {path: _load(path) for path in paths}
    every = [one for found in loaded.values() if found is not None for one in found]
    return {path: [_NO_YAML] if found is None else read(found, every) for path, found in loaded.items()}


def sound(results: Iterable[Result]) -> bool:
    """True when all was understood."""
    return not any("problem" in result or "refused" in result for result in results)


def _load(path: str) -> list[object] | None:
    """The objects of a file; None when it is not YAML."""
    try:
        return [one for one in yaml.safe_load_all(Path(path).read_text(encoding="utf-8")) if one is not None]
    except OSError as error:
        raise Fault(path, f"cannot be read ({error.strerror})", "name a file that is there") from None
    except (yaml.YAMLError, RecursionError, ValueError):
        return None


def read(found: Sequence[object], known: Iterable[object] = ()) -> list[Result]:
    """What Muster reads from these objects: groups in the order of their first pods, then pods that stand alone.

    Amounts are in base units: CPU in millicores, memory in bytes.
    """
    made = controllers.make(found, known)
    groups = [objects.decode_group(source, obj) for source, obj in made.groups]
    of = {group.key: group for group in groups}
    members: dict[GroupKey, list[Pod]] = {}
    for event in _told(made):
        if isinstance(event, PodSeen):
            members.setdefault(event.pod.group, []).append(event.pod)
        else:
            of[event.group.key] = event.group
    results = [_of_group(key, pods, of.get(key)) for key, pods in members.items() if not key.lone]
    results += [_of_group(group.key, [], group) for group in groups if group.key not in members]
    results += _lone([pod for key, pods in members.items() if key.lone for pod in pods])
    return results + [{"problem": text} for text in made.problems]


def _told(made: controllers.Made) -> Iterator[GroupSeen | PodSeen]:
    """The pods in their groups, and those groups that their makers name."""
    known = Makers()
    known.hear(RecognitionsSeen(recognitions_of(merged(made.added))))
    for kind, obj in made.makers:
        known.hear(MakerSeen(decode_maker(kind, obj)))
    for obj in made.pods:
        yield from known.hear(PodSeen(objects.decode_pod(obj)))


def _of_group(key: GroupKey, pods: Sequence[Pod], group: Group | None) -> Result:
    tally = Tally()
    for pod in pods:
        tally.add(pod)
    need = need_of(key, tally, group, None)
    result: Result = {"group": str(key)} | (_refused(need) if isinstance(need, Refusal) else _wanted(need))
    least = dict(need.tasks) if isinstance(need, Need) else {}
    numbers = Counter((pod.task, pod.shape) for pod in pods)
    examples = {(pod.task, pod.shape): pod for pod in pods}
    tasks = []
    for (task, shape), number in numbers.items():
        minimum = {"minimum": least[task]} if task in least else {}
        tasks.append({"name": str(task), "pods": number, **minimum, **_asks(examples[task, shape])})
    parts = Counter(part for pod in pods for part in parts_of(pod, group.parts if group is not None else ()))
    domains: dict[str, list[int]] = {}
    for part, number in parts.items():
        domains.setdefault(part.level, []).append(number)
    told = [{"level": level, "pods": numbers} for level, numbers in domains.items()]
    return result | ({"domains": told} if told else {}) | ({"tasks": tasks} if tasks else {})


def _lone(pods: Sequence[Pod]) -> list[Result]:
    """Pods that stand alone, equal ones together."""
    numbers: Counter[tuple[object, ...]] = Counter()
    examples: dict[tuple[object, ...], Pod] = {}
    for pod in pods:
        wish = tuple(part.level for part in pod.parts)
        like = (pod.namespace, pod.queue, pod.priority, pod.task, pod.shape, pod.problems, wish)
        numbers[like] += 1
        examples.setdefault(like, pod)
    results: list[Result] = []
    for alike, pod in examples.items():
        tally = Tally()
        tally.add(pod)
        need = need_of(pod.group, tally, None, None)
        said = _refused(need) if isinstance(need, Refusal) else _wanted(need)
        said.pop("minimum", None)
        task = {"task": str(pod.task)} if pod.task else {}
        # which for one pod are met anywhere
        levels = {"levels": [part.level for part in pod.parts]} if pod.parts else {}
        results.append({"alone": numbers[alike], "namespace": pod.namespace, **task, **said, **levels, **_asks(pod)})
    return results


def _wanted(need: Need) -> Result:
    topology = {"required": need.topology_required, "preferred": need.topology_preferred}
    wish = {key: value for key, value in topology.items() if value is not None}
    return {
        "minimum": need.min_member,
        "queue": str(need.queue),
        **({"priority": need.priority} if need.priority else {}),
        **({"topology": wish} if wish else {}),
        **({} if need.preemptible else {"preemptible": False}),
    }


def _refused(refusal: Refusal) -> Result:
    return {"refused": str(refusal.reason), "because": [f"{name}: {value}" for name, value in refusal.detail]}


def _asks(pod: Pod) -> Result:
    """What one pod asks for: amounts, shares of cards, and nodes by selector."""
    hidden = (PODS, GPU_SHARE)
    result: Result = {"requests": {name: amount for name, amount in pod.shape.request if name not in hidden}}
    cards, constraints = pod.shape.cards, pod.shape.constraints
    if cards is not None and not cards.plain:
        result["cards"] = _cards(cards)
    if constraints.selector:
        result["selector"] = dict(constraints.selector)
    return result


def _cards(request: CardRequest) -> Result:
    chosen = {key: list(getattr(request, key)) for key in ("kinds", "not_kinds", "ids", "not_ids")}
    asks = [_ask(ask) if ask is not None else {} for ask in request.containers]
    return {"containers": asks} | {key: values for key, values in chosen.items() if values}


def _ask(ask: CardAsk) -> Result:
    parts = {"number": ask.number, "memory": ask.memory, "percent": ask.percent, "cores": ask.cores}
    return {key: value for key, value in parts.items() if value}
