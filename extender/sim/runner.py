"""One report from its first instant to its last: who does what when.

Takes a report, gives what each check came to; must not judge by itself. At an instant everything that is due is
done, then sidecar and kube-scheduler take turns until nothing changes, then the checks read.
"""

from __future__ import annotations

from extender.sim import report, watching
from extender.sim.agenda import Agenda
from extender.sim.cluster import Cluster
from extender.sim.faults import Faults
from extender.sim.inside import Inside
from extender.sim.scheduler import Scheduler
from extender.sim.script import Script
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
        self.sight = Sight(scenario, self.cluster, Inside(self.scheduler))
        self._end = told.end
        self._watches = [watching.watch_of(check, told.end, scenario.settings.bind_window) for check in told.want]
        #: when turns did not end, if they did not
        self._loops_at: float | None = None
        script = Script(scenario, self.cluster, Faults(scenario, self.cluster, self.scheduler))
        self.cluster.api.create("Namespace", {"apiVersion": "v1", "metadata": {"name": "default"}})
        script.begin()
        self.scheduler.sidecar.start()
        script.plan()
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


def run(told: report.Report) -> list[watching.Result]:
    """What each check of a report came to."""
    return Run(told).results()
