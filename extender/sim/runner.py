"""One report from its first instant to its last: who does what when.

Takes a report, gives what each check came to; must not judge by itself. At an instant everything that is due is
done, then sidecar and kube-scheduler take turns until nothing changes, then the checks read.
"""

from __future__ import annotations

from functools import partial

from extender.sim import objects, report, watching
from extender.sim.agenda import Agenda, Phase
from extender.sim.cluster import Cluster
from extender.sim.happenings import Happenings
from extender.sim.scheduler import Scheduler
from extender.sim.sight import Sight

#: a run that does not come to rest in so many turns has fallen short
TURNS = 1000


class Run:
    """A virtual cluster with everybody in it."""

    def __init__(self, told: report.Report) -> None:
        scenario = told.scenario
        self.agenda = Agenda()
        self.cluster = Cluster(scenario, self.agenda)
        self.scheduler = Scheduler(self.cluster)
        self.sight = Sight(scenario, self.cluster, self.scheduler)
        self._end = told.end
        self._watches = [watching.watch_of(check, told.end, scenario.settings.bind_window) for check in told.want]
        self._happenings = Happenings(scenario, self.cluster, self.scheduler)
        #: when turns did not end, if they did not
        self._loops_at: float | None = None
        self._begin(scenario)
        self._plan(scenario)
        for moment in (*told.check_times(), told.end):
            self.agenda.wake(moment)

    def results(self) -> list[watching.Result]:
        """Run to the end."""
        while self._loops_at is None and (moment := self.agenda.next()) is not None and moment <= self._end:
            self._instant(moment)
        return watching.results(self._watches, self._loops_at)

    def _instant(self, moment: float) -> None:
        self.agenda.run(moment)
        for _ in range(TURNS):
            # both, always: what one did, the other may answer
            if not any([self.scheduler.sidecar.turn(), self.scheduler.turn()]):
                break
        else:
            self._loops_at = moment
        self.scheduler.sidecar.tick()
        self.sight.note_firsts()
        for watch in self._watches:
            watch.look(moment, self.sight)

    # --- what the report says -------------------------------------------------------------------

    def _begin(self, scenario: report.Scenario) -> None:
        """What is there and running at 0, seen by a sidecar that is up."""
        cluster = self.cluster
        cluster.api.create("Namespace", {"apiVersion": "v1", "metadata": {"name": "default"}})
        for node in scenario.nodes:
            cluster.add_node(node)
        for queue in objects.queues(scenario):
            cluster.attempt(f"queue {queue.name}", "Queue", objects.queue(queue, scenario.settings))
        for topology in objects.topologies(scenario.groups):
            cluster.api.create("Topology", topology)
        for budget in scenario.budgets:
            cluster.api.create("PodDisruptionBudget", objects.budget(budget))
        for group in scenario.groups:
            if any(task.placed for task in group.tasks):
                self._make_group(group)
                for task in group.tasks:
                    self._place(group, task)
        for pod in scenario.pods:
            if pod.node is not None:
                cluster.make_running(objects.of_loose(pod), pod.node)
        self.scheduler.sidecar.start()

    def _make_group(self, group: report.Group) -> None:
        thing = objects.pod_group(group, self.cluster.settings)
        self.cluster.attempt(f"group {group.name}", "PodGroup", thing)

    def _place(self, group: report.Group, task: report.Task) -> None:
        nodes = [node for node, number in task.placed.items() for _ in range(number)]
        for index, node in enumerate(nodes):
            self.cluster.make_running(objects.of_group(group, task, index), node)

    def _submit(self, group: report.Group, task: report.Task) -> None:
        """The pods of a task that are not placed from the start."""
        if group.name not in self.cluster.ended_groups:
            for index in range(sum(task.placed.values()), task.replicas):
                self.cluster.make(objects.of_group(group, task, index))

    def _plan(self, scenario: report.Scenario) -> None:
        """What is to come."""
        for event in scenario.events:
            self.agenda.at(event.at, Phase.EVENTS, partial(self._happenings.happen, event))
        for group in scenario.groups:
            if not any(task.placed for task in group.tasks):
                self.agenda.at(group.at, Phase.GROUPS, partial(self._make_group, group))
            for task in group.tasks:
                at = group.at if task.at is None else task.at
                self.agenda.at(at, Phase.GROUPS, partial(self._submit, group, task))
        for pod in scenario.pods:
            if pod.node is None:
                making = objects.of_loose(pod)
                self.agenda.at(pod.at, Phase.PODS, partial(self.cluster.make, making))


def run(told: report.Report) -> list[watching.Result]:
    """What each check of a report came to."""
    return Run(told).results()
