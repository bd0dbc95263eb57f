"""What holds for all tests: a limit of time for each, so that a hang is a failure with a stack.

Takes: the collected tests. Gives: a limit to those that name none. Must not: hold fixtures; those lie in
tests/ and e2e/. This file also puts the repository's root on the import path, for `from tests import builders`.
"""

import pathlib

import pytest

HERE = pathlib.Path(__file__).parent
UNIT_SECONDS = 20
E2E_SECONDS = 300


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test its limit; in e2e without the fixtures: the first may build a whole control plane."""
    for item in items:
        if item.get_closest_marker("timeout") is None:
            e2e = HERE / "e2e" in item.path.parents
            limit = pytest.mark.timeout(E2E_SECONDS, func_only=True) if e2e else pytest.mark.timeout(UNIT_SECONDS)
            item.add_marker(limit)
