"""One report on a real cluster, from its objects' making to their removal.

Takes a report, a port and the scale of time, gives what each check came to. Must not judge, and must leave nothing
behind. Time is the scenario's: it begins once nodes are ready, placed pods run, and Muster has told of their groups.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import datetime
from collections.abc import Awaitable, Callable

from extender.kube import errors, watch
from extender.sim import report, watching
from extender.sim.agenda import Agenda
from extender.sim.api import Json
from extender.sim.happenings import Happenings
from extender.sim.real.cluster import RealCluster, Write
from extender.sim.real.hands import WATCHED, Port
from extender.sim.real.outside import Outside
from extender.sim.real.translation import PROBE, RUN, Translation
from extender.sim.script import Script
from extender.sim.sight import Sight

#: how long nodes, placed pods and Muster may take until time begins
READY_SECONDS = 60.0
POLL_SECONDS = 0.2
#: when nothing is to come but the end, and nothing has changed for so long, time goes so many times faster: what is
#: left to see there is only that nothing happens
REST_SECONDS, REST_TIMES = 2.0, 5.0
#: live answers are asked for so often, and at each moment at which a check is read
ASK_SECONDS = 1.0
CLEAN_SECONDS = 60.0
_NOT_READY = "node.kubernetes.io/not-ready"
#: refusals of writes to what has gone meanwhile are a matter of course
_IN_VAIN = (errors.NotFound, errors.Conflict, errors.Invalid)

Heard = tuple[str, watch.Change]


#: returns when a run that is ready may begin
Begin = Callable[[], Awaitable[None]]


async def _at_once() -> None:
    """Nobody is waited for."""


class NotReady(Exception):
    """The cluster cannot be played on; the text says what is missing and the mend."""


class Clock:
    """The scenario's time; 0 until it starts."""

    def __init__(self, scale: float) -> None:
        self._scale = self._pace = scale
        self._since: float | None = None
        self._then = 0.0

    @property
    def now(self) -> float:
        """Scenario seconds since the start."""
        return self._then + (0.0 if self._since is None else (_loop_time() - self._since) * self._pace)

    def start(self) -> None:
        """Begin at 0."""
        self._since = _loop_time()

    def hurry(self, hurried: bool) -> None:
        """Go faster from now on, or as usual."""
        pace = self._scale * (REST_TIMES if hurried else 1.0)
        if pace != self._pace:
            self._then, self._since, self._pace = self.now, _loop_time(), pace

    def until(self, moment: float) -> float:
        """Real seconds until a moment, at the pace of now."""
        return max(0.0, (moment - self.now) / self._pace)


class Play:
    """One run."""

    def __init__(self, told: report.Report, port: Port, translation: Translation, begin: Begin = _at_once) -> None:
        scenario = told.scenario
        self._told = told
        self._port = port
        self._begin = begin
        self._translation = translation
        self._agenda = Agenda()
        self._cluster = RealCluster(scenario, self._agenda, translation, _wall)
        self._word = Outside(self._cluster)
        self._sight = Sight(scenario, self._cluster, self._word)
        self._script = Script(scenario, self._cluster, Happenings(scenario, self._cluster))
        self._watches = [watching.watch_of(check, told.end, scenario.settings.bind_window) for check in told.want]
        self._news: collections.deque[Heard] = collections.deque()
        self._told_of = asyncio.Event()
        #: when something was heard last
        self._changed = 0.0
        self._read_at = told.check_times() | {told.end}
        self._clock = Clock(translation.scale)
        #: what could not be removed, for people
        self.left = ""

    @property
    def progress(self) -> str:
        """How far it is, for people."""
        return f"{self._told.id} at {min(self._clock.now, self._told.end):.0f} of {self._told.end:.0f} s"

    async def results(self) -> list[watching.Result]:
        """Run to the end, and remove everything however it ended."""
        try:
            async with asyncio.TaskGroup() as tasks:
                helpers = await self._open(tasks)
                await self._begin()
                await self._play(tasks)
                for helper in helpers:
                    helper.cancel()
            return watching.results(self._watches, None)
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        finally:
            try:
                async with asyncio.timeout(CLEAN_SECONDS):
                    await self._clean()
            except (errors.KubeError, TimeoutError) as error:
                self.left = f"{self._told.id}: not all is removed ({error!r}); {RUN}={self._translation.name} is on it"

    async def _clean(self) -> None:
        await self._port.clean()
        while True:
            if await self._port.read("Namespace", self._translation.name) is None:
                return
            await asyncio.sleep(POLL_SECONDS)

    # --- the start ------------------------------------------------------------------------------

    async def _open(self, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Make everything that is there at 0; the tasks that read until the end."""
        try:
            for thing in (self._translation.namespace(), *self._translation.surroundings(self._told.scenario)):
                await self._make(thing)
        except errors.KubeError as error:
            raise NotReady(f"the cluster does not take a scenario's objects: {error}") from None
        synced = {kind: asyncio.Event() for kind in WATCHED}
        helpers = [tasks.create_task(self._follow(kind, event)) for kind, event in synced.items()]
        for event in synced.values():
            await event.wait()
        await self._start_muster(tasks)
        self._script.begin()
        await self._carry(tasks)
        await self._until(
            tasks, self._nodes_ready, "nodes are not ready: KWOK must manage nodes with kwok.x-k8s.io/node"
        )
        await self._until(tasks, self._pods_run, "pods that the scenario places do not run")
        await self._until(tasks, self._groups_told, "Muster says nothing of groups that run: look at its log")
        return [*helpers, tasks.create_task(self._ask_on())]

    async def _make(self, thing: Json) -> None:
        name = thing["metadata"]["name"]
        answer = await self._port.carry_out(Write("create", thing["kind"], name, thing))
        if thing["kind"] == "ConfigMap":
            self._cluster.owners[name] = answer["metadata"]["uid"]

    async def _start_muster(self, tasks: asyncio.TaskGroup) -> None:
        """A queue of our own is told of once Muster is at work; pods need the namespace's service account."""
        try:
            await self._make(self._translation.probe())
        except errors.NotFound:
            raise NotReady("Muster's queues are not served: apply its manifests") from None
        await self._until(tasks, self._muster_told, "Muster says nothing of a new queue: is it running?")
        await self._until(tasks, self._account, "the namespace gets no service account: is the cluster whole?")

    async def _until(self, tasks: asyncio.TaskGroup, holds: Callable[[], Awaitable[bool]], what: str) -> None:
        end = _loop_time() + READY_SECONDS
        while True:
            self._take_in(tasks)
            if await holds():
                return
            if _loop_time() > end:
                raise NotReady(what)
            await asyncio.sleep(POLL_SECONDS)

    async def _muster_told(self) -> bool:
        return self._sight.status("Queue", PROBE, "state") is not None

    async def _account(self) -> bool:
        return await self._port.read("ServiceAccount", "default") is not None

    async def _nodes_ready(self) -> bool:
        names = [self._translation.name_of("Node", node.name) for node in self._told.scenario.nodes]
        return all([_is_ready(await self._port.read("Node", name)) for name in names])

    async def _pods_run(self) -> bool:
        lives = (life for life in self._cluster.lives.by_uid.values() if not life.gone)
        pods = (self._cluster.get("Pod", life.making.name) for life in lives)
        return all(pod is not None and pod["status"].get("phase") != "Pending" for pod in pods)

    async def _groups_told(self) -> bool:
        return all(group.get("status", {}).get("phase") for group in self._cluster.list("PodGroup"))

    # --- what goes on beside --------------------------------------------------------------------

    async def _follow(self, kind: str, synced: asyncio.Event) -> None:
        async for event in self._port.follow(kind):
            if isinstance(event, watch.Synced):
                synced.set()
            else:
                self._news.append((kind, event))
                self._told_of.set()

    async def _ask_on(self) -> None:
        while True:
            await asyncio.sleep(ASK_SECONDS)
            await self._ask()

    async def _ask(self) -> None:
        """The newest live answers, in the scenario's names; the last ones while nobody gives any."""
        try:
            found = await self._port.answers()
        except errors.KubeError:
            return
        told = self._translation.told({"items": found})["items"] if found is not None else None
        self._word.answers = None if told is None else {one["metadata"]["name"]: one["status"] for one in told}

    # --- time -----------------------------------------------------------------------------------

    async def _play(self, tasks: asyncio.TaskGroup) -> None:
        agenda, end = self._agenda, self._told.end
        self._script.plan()
        for at in self._read_at:
            agenda.wake(at)
        self._clock.start()
        while (moment := agenda.next()) is not None and moment <= end:
            self._clock.hurry(moment == end and _loop_time() - self._changed >= REST_SECONDS)
            if self._clock.now < moment:
                await self._wait(moment)
                agenda.advance(min(self._clock.now, moment))
                heard = self._take_in(tasks)
                # at the moment itself what is due comes first
                if heard and self._clock.now < moment:
                    self._look(agenda.now)
            else:
                agenda.run(moment)
                await self._carry(tasks)
                if moment in self._read_at:
                    await self._ask()
                self._look(moment)

    async def _wait(self, moment: float) -> None:
        """Wait for the moment, or for news before it, or for a while."""
        seconds = min(self._clock.until(moment), REST_SECONDS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._told_of.wait()

    def _look(self, moment: float) -> None:
        self._sight.note_firsts()
        for one in self._watches:
            one.look(moment, self._sight)

    def _take_in(self, tasks: asyncio.TaskGroup) -> bool:
        """Hear all news, and let kubelets do their part."""
        heard = bool(self._news)
        if heard:
            self._changed = _loop_time()
        self._told_of.clear()
        while self._news:
            kind, change = self._news.popleft()
            self._cluster.hear(kind, change.kind == watch.DELETED, change.object)
        while self._cluster.kubelets:
            tasks.create_task(self._try(self._cluster.kubelets.popleft()))
        return heard

    async def _carry(self, tasks: asyncio.TaskGroup) -> None:
        """Do all writes in their order, but equal pods at once; kubelets go on meanwhile."""
        self._take_in(tasks)
        while batch := self._cluster.take_ordered():
            await asyncio.gather(*map(self._try, batch))
            self._take_in(tasks)

    async def _try(self, write: Write) -> None:
        try:
            answer = await self._port.carry_out(write)
        except _IN_VAIN as error:
            self._cluster.refused(write, error.message)
        else:
            self._cluster.done(write, answer)


def _is_ready(node: Json | None) -> bool:
    if node is None:
        return False
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"].get("conditions", ()))
    return ready and not any(taint["key"].startswith(_NOT_READY) for taint in node["spec"].get("taints", ()))


def _wall() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
