"""Fixtures of the unit tests.

Takes: the environment variable CI. Gives: the folder of shared material, and how Hypothesis searches: the
same examples each time in CI, new ones each time elsewhere.
"""

import os
import pathlib

import hypothesis
import pytest

IN_CI = os.environ.get("CI", "").lower() not in ("", "0", "false")
SHARED = pathlib.Path(__file__).resolve().parents[2] / "shared"

# no deadline for one example: the machine may be busy; the limit of the test still holds
hypothesis.settings.register_profile(
    "muster",
    deadline=None,
    max_examples=100,
    derandomize=IN_CI,
    database=None if IN_CI else hypothesis.settings().database,
)
hypothesis.settings.load_profile("muster")


@pytest.fixture(scope="session")
def shared() -> pathlib.Path:
    """The folder `shared` beside the repository. In CI it must be there."""
    if not SHARED.is_dir():
        missing = "the folder `shared` is not beside the repository"
        if IN_CI:
            pytest.fail(f"{missing}, and CI is set: it must be there in CI")
        pytest.skip(missing)
    return SHARED
