"""Phases of LDS: what is free of conflicts, and what is not, by the published tables."""

import dataclasses

import numpy as np
import pytest

from tilelang.layout.shared_memory import conflicts, least_wavefronts, offsets, row_major, wavefronts
from tilelang.layout.xor_swizzle import swizzled
from tilelang.targets.amd import lds_phases
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


def together(machine, kind, width):
    """The phase of each of the lower 32 lanes, by which pairs of lanes conflict: the least lane of it."""
    low, high = np.triu_indices(32, 1)
    at, pair = np.full((len(low), 64), -1), np.arange(len(low))
    at[pair, low], at[pair, high] = 0, machine.shared_banks * machine.bank_bytes
    meet = wavefronts(at, width, machine, kind) > least_wavefronts(at, width, machine, kind)
    least = np.arange(32)
    np.minimum.at(least, high[meet], low[meet])
    return least.tolist()


def phases(*groups):
    """The same of written phases, each as ranges of lanes."""
    least = {}
    for group in groups:
        lanes = [lane for first, last in group for lane in range(first, last + 1)]
        least |= dict.fromkeys(lanes, min(lanes))
    return [least[lane] for lane in range(32)]


EIGHTS = phases(*(((first, first + 7),) for first in range(0, 32, 8)))
SIXTEENS = phases(((0, 15),), ((16, 31),))
PUBLISHED = {
    ("gfx942", "load", 16): phases(
        ((0, 3), (20, 23)), ((4, 7), (16, 19)), ((8, 11), (28, 31)), ((12, 15), (24, 27))
    ),
    ("gfx942", "store", 16): EIGHTS,
    ("gfx950", "load", 16): phases(((0, 3), (12, 15), (20, 27)), ((4, 11), (16, 19), (28, 31))),
    ("gfx950", "load", 8): phases(((0, 31),)),
    ("gfx950", "store", 8): SIXTEENS,
    ("gfx950", "store", 16): EIGHTS,
}  # fmt: skip


@pytest.mark.parametrize(("name", "kind", "width"), PUBLISHED)
def test_lanes_conflict_as_published(name, kind, width):
    assert PUBLISHED[name, kind, width] == together(MACHINES[name], kind, width)


def wrong_tables(machine, kind, width):
    """A machine with another row in the place of one, or without it."""
    (right,) = (row for row in machine.shared_phases if (row.kind, row.width) == (kind, width))
    rest = tuple(row for row in machine.shared_phases if row is not right)
    yield "row missing", rest
    for together in (4, 8, 16, 32):
        lanes = tuple(tuple(range(first, first + together)) for first in range(0, 64, together))
        yield f"{together} lanes in order", (*rest, dataclasses.replace(right, lanes=lanes))
    rotated = tuple(tuple((lane + 4) % 64 for lane in phase) for phase in right.lanes)
    yield "rotated by four lanes", (*rest, dataclasses.replace(right, lanes=rotated))
    for other in (*lds_phases.CDNA3, *lds_phases.CDNA4):
        yield f"the row of {other.kind} {other.width}", (*rest, dataclasses.replace(other, kind=kind, width=width))
    for banks in (16, 32, 64):
        yield f"{banks} banks", (*rest, dataclasses.replace(right, banks=banks))


def banks_of(machine, kind, width):
    """The bytes after which two lanes of a phase meet in a bank again."""
    at = np.full(64, -1)
    for step in (64, 128, 256):
        at[:2] = 0, step
        if conflicts(at, width, machine, kind):
            return step
    return 0


@pytest.mark.slow(every=16)
@pytest.mark.parametrize(("name", "kind", "width"), PUBLISHED)
def test_a_wrong_table_shows_in_its_conflicts(name, kind, width):
    machine = MACHINES[name]
    expected = PUBLISHED[name, kind, width], banks_of(machine, kind, width)
    found = 0
    for what, rows in wrong_tables(machine, kind, width):
        wrong = dataclasses.replace(machine, shared_phases=rows)
        same = wrong.phases(kind, width), wrong.phases(kind, width).banks or wrong.shared_banks
        right = machine.phases(kind, width), machine.phases(kind, width).banks or machine.shared_banks
        if (same[0].lanes, same[1]) != (right[0].lanes, right[1]):  # a row of the same contents is no fault
            assert expected != (together(wrong, kind, width), banks_of(wrong, kind, width)), what
            found += 1
    assert found >= 5
