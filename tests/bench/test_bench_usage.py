"""CPU and memory of processes: what /proc says is understood, and this very process is seen to work."""

import os

import pytest

from e2e.bench import observe, usage

STAT = "4242 (a (b) c) S 1 4242 4242 0 -1 4194560 5 6 7 8 {user} {system} 900 900 20 0 12 0 1234 5 6"


def test_user_and_system_time_count_and_that_of_children_does_not():
    assert usage.stat_seconds(STAT.format(user=250, system=50), 100) == 3.0


def test_the_high_water_mark_is_in_mib():
    assert usage.status_high_water_mib("Name:\tx\nVmPeak:\t 9999 kB\nVmHWM:\t  102400 kB\nVmRSS:\t 1 kB\n") == 100


def test_a_process_that_has_ended_has_no_high_water_mark():
    with pytest.raises(ValueError, match="has ended"):
        usage.status_high_water_mib("Name:\tx\nState:\tZ (zombie)\n")


def test_this_process_uses_cpu_and_memory():
    before = usage.cpu_seconds(os.getpid())
    while usage.cpu_seconds(os.getpid()) == before:
        sum(range(10_000))
    assert usage.high_water_mib(os.getpid()) > 1


def test_a_meter_counts_from_its_making_to_the_last_bind(monkeypatch):
    used = {7: iter([10.0, 12.5]), os.getpid(): iter([1.0, 1.25])}
    monkeypatch.setattr(usage, "cpu_seconds", lambda pid: next(used[pid]))
    monkeypatch.setattr(usage, "high_water_mib", lambda pid: 64.0)
    meter = observe.Meter(observe.Watched({"scheduler": 7}))
    meter.bound()
    assert meter.read() == observe.Observed({"scheduler": 2.5, "client": 0.25}, {"scheduler": 64.0}, {})
