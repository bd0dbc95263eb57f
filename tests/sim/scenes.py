"""Short ways to play a scenario: YAML as in a file, so that a test reads like a report.

Takes texts, gives reports and results; must not hold expectations.
"""

from __future__ import annotations

import yaml

from extender.sim import reading, runner
from extender.sim.report import Report
from extender.sim.watching import Result


def report(scenario: str, *checks: str) -> Report:
    """A report of this scenario; the checks are YAML mappings."""
    want = [yaml.safe_load(check) for check in checks]
    loaded = {"id": "T-1", "area": "test", "scenario": yaml.safe_load(scenario), "want": want}
    return reading.read_report(loaded)


def play(scenario: str, *checks: str) -> list[Result]:
    """What the checks come to."""
    return runner.run(report(scenario, *checks))


def short(scenario: str, *checks: str) -> list[str]:
    """Those that fall short, with what was seen."""
    return [f"{result.check} ({result.seen})" for result in play(scenario, *checks) if not result.held]
