"""Phases of LDS: what is free of conflicts, and what is not, by the published tables."""

import numpy as np
import pytest

from tilelang.layout.shared_memory import conflicts, offsets, row_major, wavefronts
from tilelang.layout.xor_swizzle import swizzled
from tilelang.targets.amd.machines import MACHINES

LANES = np.arange(64)


@pytest.mark.parametrize("name", ["gfx90a", "gfx942", "gfx950"])
def test_each_lane_is_in_one_phase(name):
    for row in MACHINES[name].shared_phases:
        assert list(range(64)) == sorted(lane for phase in row.lanes for lane in phase)
        assert len({len(phase) for phase in row.lanes}) == 1


@pytest.mark.parametrize(
    ("name", "kind", "width", "expected"),
    [
        ("gfx942", "load", 4, 2), ("gfx942", "load", 8, 4), ("gfx942", "load", 16, 8), ("gfx942", "store", 16, 8),
        ("gfx950", "load", 4, 1), ("gfx950", "load", 8, 2), ("gfx950", "load", 16, 4), ("gfx950", "store", 8, 4),
        ("gfx950", "store", 16, 8),
    ],
)  # fmt: skip
def test_a_wave_that_accesses_successive_addresses_takes_the_published_phases(name, kind, width, expected):
    machine = MACHINES[name]
    assert (expected, 0) == (
        wavefronts(LANES * width, width, machine, kind).item(),
        conflicts(LANES * width, width, machine, kind),
    )


@pytest.mark.parametrize("rows", [16, 32])
@pytest.mark.parametrize(("name", "step"), [("gfx942", 1), ("gfx950", 2)])
def test_a_swizzle_frees_the_reads_of_a_matrix_instruction(name, step, rows):
    """Lane l reads 8 halves of row l mod M of a tile with rows of 64 halves, `step` of which fill all banks."""
    at = LANES % rows, LANES // rows * 8
    assert 0 == conflicts(offsets(swizzled((32, 64), 16, 128, step))[at] * 2, 16, MACHINES[name])
    assert 0 < conflicts(offsets(row_major((32, 64)))[at] * 2, 16, MACHINES[name])


def test_lanes_far_apart_share_a_phase_of_gfx942():
    """Lane 20 conflicts with lane 0, and lane 4 does not."""
    at = np.full(64, -1)
    at[0], at[4] = 0, 128
    assert 0 == conflicts(at, 16, MACHINES["gfx942"])
    at[4], at[20] = -1, 128
    assert 1 == conflicts(at, 16, MACHINES["gfx942"])


def test_lane_12_shares_a_phase_with_lane_0_on_gfx950_and_lane_4_does_not():
    at = np.full(64, -1)
    at[0], at[4] = 0, 256
    assert 0 == conflicts(at, 16, MACHINES["gfx950"])
    at[4], at[12] = -1, 256
    assert 1 == conflicts(at, 16, MACHINES["gfx950"])
