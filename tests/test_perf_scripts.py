"""The script that plays recorded filter calls runs as the newest code stands: nothing else in CI calls it."""

from __future__ import annotations

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent


def test_the_filter_benchmark_runs() -> None:
    command = [sys.executable, "-m", "tests.perf.bench_filter", "--names", "4", "--calls", "20"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.startswith("4 names, 20 calls: ")
