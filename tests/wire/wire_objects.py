"""Builders of JSON objects for the tests of the codecs: small, with defaults, changed by keyword."""

from __future__ import annotations

from typing import Any

import pytest

Json = dict[str, Any]


def table(names: str, cases: dict[str, tuple]) -> pytest.MarkDecorator:
    """Parameters from a mapping of sentences to cases; the sentences are the ids."""
    return pytest.mark.parametrize(names, [pytest.param(*case, id=name) for name, case in cases.items()])


def pod(*, meta: Json | None = None, spec: Json | None = None, status: Json | None = None) -> Json:
    """A pod of ours with one container."""
    return {
        "metadata": {"name": "p", "namespace": "team", "uid": "u-1"} | (meta or {}),
        "spec": {
            "schedulerName": "muster",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
        }
        | (spec or {}),
        "status": status or {},
    }


def node(*, meta: Json | None = None, spec: Json | None = None, status: Json | None = None) -> Json:
    """A ready node of eight GPUs."""
    allocatable = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
    return {
        "metadata": {"name": "n"} | (meta or {}),
        "spec": spec or {},
        "status": {"allocatable": allocatable} | (status or {}),
    }


def group(*, meta: Json | None = None, spec: Json | None = None, status: Json | None = None) -> Json:
    """A pod group of any source."""
    return {
        "metadata": {"name": "g", "namespace": "team", "uid": "g-1"} | (meta or {}),
        "spec": spec or {},
        "status": status or {},
    }
