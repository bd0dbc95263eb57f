"""Writes what is generated for users: `python -m docs.generate`, from the root of the repository."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping

from docs import alerts, dashboard, figures, jobs, troubles

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES: Mapping[str, Callable[[], str]] = {
    "docs/jobs.md": jobs.page,
    "docs/metrics.md": figures.page,
    "docs/troubleshooting.md": troubles.page,
    "manifests/grafana/muster.json": dashboard.page,
    "manifests/prometheus/prometheusrule.yaml": alerts.page,
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (ROOT / name).write_text(page())
