"""Members that did their part and whose pods are gone since: they count towards their group's minimum all the same.

Takes members as they are seen and leave, keeps their groups' tallies right; must not know what a group needs.

Jobs clean up after themselves, and people too: that a pod's object is gone says nothing of its work. What is
remembered is believed only as far as the pods themselves bear it out:
- The pod ended well while nobody had asked it to go: a container that is told to end often says that it succeeded.
  A Job counts such a pod as done all the same, so its members are an exception.
- A pod of the same name, or of the same index of the same owner, is its replacement. So is every pod of a newer
  owner of the same name (a Job that was deleted and made again): what the older one did was another run. Where the
  label muster.dev/run tells restarts of a job, or of one of its tasks, every pod of a newer one ends what was before.
- When nobody is left, and who comes then is of another owner, or of none, that is another run too.
- With the group's object its past goes, and of a group without one nothing is left when its last pod is gone.

Nothing here survives a restart: what is gone by then does not show in a list of pods, nor does its owner say which
of its pods were members of which group.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from extender.core.ids import RUN_LABEL, GroupKey, PodUid, TaskName
from extender.core.membership import Tally
from extender.core.model import Owner, Pod

#: of each group the newest so many are remembered
REMEMBERED = 10_000
_INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
#: counts its pods as done by their phase alone
_JOB = "Job"


@dataclass(frozen=True, slots=True)
class _Done:
    """A member that did its part and is gone."""

    task: TaskName
    owner: Owner | None
    index: str | None
    run: tuple[int, int]


@dataclass(slots=True)
class _Past:
    """Of one group."""

    #: pods that are there and did their part
    well: set[PodUid] = field(default_factory=set)
    #: those that are gone, by name
    gone: dict[str, _Done] = field(default_factory=dict)


class Finished:
    """The past of all groups. Invariant: a tally counts exactly those of `gone` as succeeded beside its pods."""

    def __init__(self) -> None:
        self._past: dict[GroupKey, _Past] = {}

    def seen(self, pod: Pod) -> None:
        """The newest state of a member."""
        if pod.succeeded and not pod.group.lone and (not pod.terminating or _counts_by_phase(pod)):
            self._past.setdefault(pod.group, _Past()).well.add(pod.uid)

    def joined(self, pod: Pod, tally: Tally, alone: bool) -> None:
        """A pod became a member; `alone`: nobody else is, and the tally counts nothing but it."""
        past = self._past.get(pod.group)
        if past is None or not past.gone:
            return
        void = [name for name, done in past.gone.items() if _is_void(name, done, pod, alone)]
        dropped = [past.gone.pop(name).task for name in void]
        if alone:
            tally.count_done((done.task for done in past.gone.values()), 1)
        else:
            tally.count_done(dropped, -1)

    def left(self, pod: Pod, tally: Tally, moved: bool) -> None:
        """A pod is gone, or (`moved`) a member of another group now."""
        past = self._past.get(pod.group)
        if past is None or pod.uid not in past.well:
            return
        past.well.discard(pod.uid)
        if moved:
            return
        dropped = [past.gone.pop(pod.name)] if pod.name in past.gone else []
        if len(past.gone) >= REMEMBERED:
            dropped.append(past.gone.pop(next(iter(past.gone))))
        tally.count_done((done.task for done in dropped), -1)
        past.gone[pod.name] = _Done(pod.task, pod.owner, _index(pod), _run(pod))
        tally.count_done((pod.task,), 1)

    def forget(self, key: GroupKey, tally: Tally | None) -> None:
        """What is gone counts no more; without a tally nobody is left either."""
        past = self._past.get(key)
        if past is None:
            return
        if tally is None:
            del self._past[key]
        else:
            tally.count_done((done.task for done in past.gone.values()), -1)
            past.gone.clear()


def _is_void(name: str, done: _Done, pod: Pod, alone: bool) -> bool:
    """True when a member that is gone does not count beside this new one."""
    if name == pod.name or (alone and (pod.owner is None or done.owner != pod.owner)):
        return True
    if pod.owner is None or done.owner is None:
        return False
    if done.owner == pod.owner:
        job, task = _run(pod)
        if job > done.run[0] or (task > done.run[1] and done.task == pod.task):
            return True
        return done.index is not None and done.index == _index(pod)
    return (done.owner.kind, done.owner.name) == (pod.owner.kind, pod.owner.name)


def _counts_by_phase(pod: Pod) -> bool:
    return pod.owner is not None and pod.owner.kind == _JOB


def _index(pod: Pod) -> str | None:
    return _label(pod, _INDEX_LABEL)


def _run(pod: Pod) -> tuple[int, int]:
    """The restart of its job and that of its task; zeros where nothing sound says it."""
    job, _, task = (_label(pod, RUN_LABEL) or "").partition(".")
    sound = all(part.isascii() and part.isdigit() and len(part) < 10 for part in (job, task))
    return (int(job), int(task)) if sound else (0, 0)


def _label(pod: Pod, wanted: str) -> str | None:
    return next((value for key, value in pod.labels if key == wanted), None)
