import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from warps import MACHINE

from tilelang.layout.layout import Layout
from tilelang.layout.shared_memory import (
    conflicts,
    contiguous_elements,
    has_pitch,
    least_wavefronts,
    offsets,
    padded,
    row_major,
    wavefronts,
)
from tilelang.layout.xor_swizzle import swizzled
from tilelang.targets.machine import Machine, SharedPhases

LANES = np.arange(32)


def test_row_major_offsets() -> None:
    assert np.arange(12).reshape(3, 4).tolist() == offsets(row_major((3, 4))).tolist()


def test_padded_rows_begin_further_apart() -> None:
    assert [0, 68, 136] == offsets(padded((3, 64), 4))[:, 0].tolist()


def test_rows_at_equal_distances_have_a_pitch() -> None:
    assert all(has_pitch(layout) for layout in (row_major((8, 64)), padded((8, 64), 4), row_major((1, 64))))
    assert not has_pitch(swizzled((8, 64), 16, 128))
    assert not has_pitch(Layout((8, 64), lambda i, j: j * 8 + i))


def test_a_swizzle_permutes_the_tile() -> None:
    assert np.arange(512).tolist() == np.sort(offsets(swizzled((8, 64), 16, 128)).reshape(-1)).tolist()


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (row_major((4, 64)), 64),
        (row_major((4, 100)), 4),
        (row_major((4, 33)), 1),
        (row_major((96,)), 32),
        (swizzled((8, 64), 16, 128), 8),
        (swizzled((8, 32), 32, 128), 4),
        (padded((4, 64), 8), 8),
        (padded((4, 64), 1), 1),
        (Layout((4, 4), lambda i, j: (j, i)), 1),
    ],
)
def test_how_many_neighbors_stay_neighbors(layout: Layout, expected: int) -> None:
    assert expected == contiguous_elements(layout)


@given(st.integers(1, 6), st.sampled_from([4, 12, 16, 24]), st.integers(0, 9))
def test_neighbors_that_stay_are_adjacent_and_aligned(rows: int, columns: int, pad: int) -> None:
    layout = padded((rows, columns), pad)
    n = contiguous_elements(layout)
    groups = offsets(layout).reshape(rows, -1, n)
    assert (groups == groups[..., :1] + np.arange(n)).all()
    assert (groups[..., 0] % n == 0).all()


@pytest.mark.parametrize(
    ("addresses", "width", "expected"),
    [
        (LANES * 4, 4, 1),
        (LANES * 0, 4, 1),  # one word for all
        (LANES * 2, 2, 1),  # two lanes share a word
        (LANES * 8, 4, 2),
        (LANES * 128, 4, 32),
        (LANES * 132, 4, 1),
        (LANES * 8, 8, 2),
        (LANES * 16, 16, 4),
        (LANES * 32, 16, 8),
        (np.where(LANES < 8, LANES * 128, -1), 4, 8),
        (np.full(32, -1), 4, 0),
    ],
)
def test_cycles_of_usual_patterns(addresses: np.ndarray, width: int, expected: int) -> None:
    assert expected == wavefronts(addresses, width, MACHINE)


def test_accesses_are_counted_one_by_one() -> None:
    both = np.stack([LANES * 4, LANES * 128])
    assert [1, 32] == wavefronts(both, 4, MACHINE).tolist()
    assert [1, 1] == least_wavefronts(both, 4, MACHINE).tolist()
    assert 31 == conflicts(both, 4, MACHINE)


def test_matrix_rows_meet_no_conflicts_in_a_swizzled_tile() -> None:
    """ldmatrix reads 8 rows of 16 bytes at a time."""
    places = offsets(swizzled((32, 64), 16, 128))[:, 0] * 2
    assert 0 == conflicts(places, 16, MACHINE)
    assert 28 == conflicts(offsets(row_major((32, 64)))[:, 0] * 2, 16, MACHINE)


@given(st.lists(st.integers(0, 200), min_size=32, max_size=32), st.sampled_from([4, 8, 16]))
def test_cycles_are_those_of_the_fullest_bank(places: list[int], width: int) -> None:
    addresses = np.array(places) * width
    words, expected = width // 4, 0
    for phase in range(words):
        banks: dict[int, set[int]] = {}
        for address in addresses[phase * (32 // words) : (phase + 1) * (32 // words)]:
            for word in range(address // 4, address // 4 + words):
                banks.setdefault(word % 32, set()).add(word)
        expected += max(len(bank) for bank in banks.values())
    assert expected == wavefronts(addresses, width, MACHINE)


def test_a_wider_warp_over_more_banks_is_counted_by_its_machine():
    wide = Machine("wave", warp_size=64, shared_banks=64, bank_bytes=4)
    lanes = np.arange(64)
    assert [1, 2, 64] == [wavefronts(lanes * step, 4, wide).item() for step in (4, 8, 256)]
    assert (2, 0) == (least_wavefronts(lanes * 8, 8, wide).item(), conflicts(lanes * 8, 8, wide))
    half = dataclasses.replace(wide, shared_banks=32)
    assert 2 == wavefronts(lanes * 4, 4, half).item()
    assert [0, 0, 2] == [conflicts(lanes * step, width, half) for step, width in ((4, 4), (16, 16), (8, 4))]


QUADS = tuple(tuple(range(4 * n, 4 * n + 4)) for n in range(16))
PAIRED = tuple(QUADS[a] + QUADS[b] for n in (0, 8) for a, b in ((n, n + 5), (n + 1, n + 4), (n + 2, n + 7), (n + 3, n + 6)))
WAVE64 = Machine(
    "wave", warp_size=64, shared_banks=32, bank_bytes=4,
    shared_phases=(SharedPhases("load", 16, PAIRED), SharedPhases("store", 8, (tuple(range(64)),), banks=64)),
)  # fmt: skip


def test_only_lanes_of_one_phase_conflict():
    """Lanes 0-3 are served with lanes 20-23, so that what lanes 4-7 access does not matter to them."""
    lanes = np.arange(64)
    assert (8, 8) == (wavefronts(lanes * 16, 16, WAVE64).item(), least_wavefronts(lanes * 16, 16, WAVE64).item())
    same_banks = np.where(lanes < 4, lanes * 16, np.where(lanes < 8, (lanes - 4) * 16 + 128, -1))
    assert (2, 0) == (wavefronts(same_banks, 16, WAVE64).item(), conflicts(same_banks, 16, WAVE64))
    assert 1 == conflicts(same_banks, 16, WAVE64, "store")
    far = np.where(lanes < 4, lanes * 16, np.where((lanes >= 20) & (lanes < 24), (lanes - 20) * 16 + 128, -1))
    assert (1, 0) == (conflicts(far, 16, WAVE64), conflicts(far, 16, WAVE64, "store"))


def test_accesses_may_be_served_by_more_banks_than_others():
    lanes = np.arange(64)
    assert 2 == wavefronts(lanes * 8, 8, WAVE64, "store").item()
    assert 4 == wavefronts(lanes * 8, 8, WAVE64).item()


def test_each_lane_is_in_one_phase_of_an_access_without_a_row():
    for width in (1, 2, 4, 8, 16):
        phases = WAVE64.phases("store", width).lanes if width != 8 else WAVE64.phases("load", width).lanes
        assert list(range(64)) == [lane for phase in phases for lane in phase]
