"""Resource vectors: what a MIG instance is of a GPU, and how parts of GPUs are told."""

from __future__ import annotations

from fractions import Fraction

import pytest

from extender.core.resources import GPU, GPU_PARTS, GPU_SHARE, gpus, parts_of, with_shares


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("nvidia.com/gpu", Fraction(1)),
        ("nvidia.com/mig-1g.5gb", Fraction(1, 7)),
        ("nvidia.com/mig-1g.10gb", Fraction(1, 7)),
        ("nvidia.com/mig-1g.10gb.me", Fraction(1, 7)),
        ("nvidia.com/mig-1g.10gb+me", Fraction(1, 7)),
        ("nvidia.com/mig-1g.12gb.me.all", Fraction(1, 7)),
        ("nvidia.com/mig-2g.35gb", Fraction(2, 7)),
        ("nvidia.com/mig-3g.47gb", Fraction(3, 7)),
        ("nvidia.com/mig-4g.90gb", Fraction(4, 7)),
        ("nvidia.com/mig-7g.141gb", Fraction(1)),
        ("nvidia.com/mig-1c.3g.20gb", Fraction(1, 7)),
        # GPUs of four slices
        ("nvidia.com/mig-1g.6gb", Fraction(1, 4)),
        ("nvidia.com/mig-2g.12gb", Fraction(1, 2)),
        ("nvidia.com/mig-4g.24gb", Fraction(1)),
        ("nvidia.com/mig-1g.24gb", Fraction(1, 4)),
        # names that say nothing of slices
        ("nvidia.com/mig-", Fraction(1)),
        ("nvidia.com/mig-large", Fraction(1)),
        ("nvidia.com/mig-9g.5gb", Fraction(1)),
        ("nvidia.com/mig-٣g.20gb", Fraction(1)),
        # no GPUs
        ("nvidia.com/gpumem", Fraction(0)),
        ("example.com/mig-1g.5gb", Fraction(0)),
        ("nvidia.com/mig.config", Fraction(0)),
        ("cpu", Fraction(0)),
    ],
)
def test_parts_of_a_gpu(name: str, want: Fraction) -> None:
    assert Fraction(parts_of(name), GPU_PARTS) == want


def test_what_fills_a_gpu_is_one_gpu_exactly() -> None:
    for profiles in (
        ["1g.5gb"] * 7,
        ["3g.20gb", "4g.20gb"],
        ["2g.10gb"] * 3 + ["1g.5gb"],
        ["1g.6gb"] * 2 + ["2g.12gb"],
    ):
        assert sum(parts_of(f"nvidia.com/mig-{profile}") for profile in profiles) == GPU_PARTS


def test_sums_count_gpus_and_instances_by_share_too() -> None:
    assert with_shares({"cpu": 5, GPU: 2, "nvidia.com/mig-1g.5gb": 7})[GPU_SHARE] == 3 * GPU_PARTS
    assert with_shares({"cpu": 5, GPU: 0}) == {"cpu": 5, GPU: 0}


@pytest.mark.parametrize(
    ("parts", "want"),
    [(0, 0), (700, 1), (1400, 2), (7, "0.01"), (350, "0.5"), (735, "1.05"), (100, "0.14"), (300, "0.43"), (699, 1)],
)
def test_parts_are_told_as_gpus(parts: int, want: str | int) -> None:
    assert gpus(parts) == want
