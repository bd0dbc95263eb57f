"""What a scenario asks for, in its order: what is there at the start, and what is planned for later.

Takes a scenario and what it is played on, gives nothing; must not know on what.
"""

from __future__ import annotations

from functools import partial

from extender.sim import objects, report
from extender.sim.agenda import Phase
from extender.sim.happenings import Happenings
from extender.sim.world import World


class Script:
    """One scenario on one cluster."""

    def __init__(self, scenario: report.Scenario, world: World, happenings: Happenings) -> None:
        self._scenario = scenario
        self._world = world
        self._happenings = happenings

    def begin(self) -> None:
        """What is there and running at 0."""
        scenario, world = self._scenario, self._world
        for node in scenario.nodes:
            world.add_node(node)
        for queue in objects.queues(scenario):
            world.attempt(f"queue {queue.name}", "Queue", objects.queue(queue, scenario.settings))
        for topology in objects.topologies(scenario.groups):
            world.attempt(f"topology {topology['metadata']['name']}", "Topology", topology)
        for budget in scenario.budgets:
            world.attempt(f"budget {budget.name}", "PodDisruptionBudget", objects.budget(budget))
        for group in scenario.groups:
            if _placed(group):
                self._make_group(group)
                for task in group.tasks:
                    self._place(group, task)
        for pod in scenario.pods:
            if pod.node is not None:
                world.make_running(objects.of_loose(pod), pod.node)

    def plan(self) -> None:
        """What is to come."""
        scenario, agenda = self._scenario, self._world.agenda
        for event in scenario.events:
            agenda.at(event.at, Phase.EVENTS, partial(self._happenings.happen, event))
        for group in scenario.groups:
            if not _placed(group):
                agenda.at(group.at, Phase.GROUPS, partial(self._make_group, group))
            for task in group.tasks:
                at = group.at if task.at is None else task.at
                agenda.at(at, Phase.GROUPS, partial(self._submit, group, task))
        for pod in scenario.pods:
            if pod.node is None:
                making = objects.of_loose(pod)
                agenda.at(pod.at, Phase.PODS, partial(self._world.make, making))

    def _make_group(self, group: report.Group) -> None:
        thing = objects.pod_group(group, self._scenario.settings)
        self._world.attempt(f"group {group.name}", "PodGroup", thing)

    def _place(self, group: report.Group, task: report.Task) -> None:
        nodes = [node for node, number in task.placed.items() for _ in range(number)]
        for index, node in enumerate(nodes):
            self._world.make_running(objects.of_group(group, task, index), node)

    def _submit(self, group: report.Group, task: report.Task) -> None:
        """The pods of a task that are not placed from the start."""
        if group.name not in self._world.ended_groups:
            for index in range(sum(task.placed.values()), task.replicas):
                self._world.make(objects.of_group(group, task, index))


def _placed(group: report.Group) -> bool:
    return any(task.placed for task in group.tasks)
