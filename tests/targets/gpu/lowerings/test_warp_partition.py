"""The partition of a gemm over warps: coverage, balance, policies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.errors import ResourceError
from tilelang.ops.gemm import GemmWarpPolicy
from tilelang.targets.gpu.lowerings.warp_partition import WarpPartition, held, partition, placed
from tilelang.targets.nvidia.isa.mma import ATOMS

ATOM = next(a for a in ATOMS if a.name == "m16n8k16_f32_f16_f16")
POLICIES = list(GemmWarpPolicy)


@pytest.mark.parametrize(
    ("m", "n", "threads", "policy", "rows", "columns", "copies"),
    [
        (128, 128, 128, GemmWarpPolicy.Square, 2, 2, 1),
        (128, 128, 128, GemmWarpPolicy.FullRow, 4, 1, 1),
        (128, 128, 128, GemmWarpPolicy.FullCol, 1, 4, 1),
        (128, 128, 256, GemmWarpPolicy.Square, 4, 2, 1),
        (16, 512, 128, GemmWarpPolicy.Square, 1, 4, 1),
        (32, 64, 128, GemmWarpPolicy.FullRow, 2, 2, 1),  # no warp is left without rows
        (16, 8, 128, GemmWarpPolicy.FullCol, 1, 1, 4),
        (64, 64, 96, GemmWarpPolicy.Square, 1, 3, 1),
    ],
)
def test_policies(m, n, threads, policy, rows, columns, copies):
    found = partition(m, n, ATOM, threads, policy, 32)
    assert (rows, columns, copies) == (found.rows, found.columns, found.copies)


@given(
    m=st.integers(1, 70),
    n=st.integers(1, 70),
    k=st.integers(1, 40),
    warps=st.integers(1, 9),
    policy=st.sampled_from(POLICIES),
)
def test_fragments_hold_every_element(m, n, k, warps, policy):
    split = partition(m, n, ATOM, 32 * warps, policy, 32)
    assert warps == split.rows * split.columns * split.copies
    for tile, shape in (
        (split.accumulator(ATOM, m, n), (m, n)),
        (split.left(ATOM.a, m, k), (m, k)),
        (split.right(ATOM, n, k), (n, k)),
    ):
        assert 32 * warps == tile.threads
        held = {tuple(c) for c in tile.table.reshape(-1, 2).tolist()}
        assert all(point in held for point in np.ndindex(*shape))


@given(m=st.integers(1, 70), n=st.integers(1, 70), warps=st.integers(1, 8), policy=st.sampled_from(POLICIES))
def test_a_warp_holds_the_operands_of_its_accumulator(m, n, warps, policy):
    split = partition(m, n, ATOM, 32 * warps, policy, 32)
    sums, left, right = (
        tile.table.reshape(warps, -1, 2)
        for tile in (split.accumulator(ATOM, m, n), split.left(ATOM.a, m, 16), split.right(ATOM, n, 16))
    )
    for warp in range(warps):
        assert set(sums[warp, :, 0]) == set(left[warp, :, 0])
        assert set(sums[warp, :, 1]) == set(right[warp, :, 0])


@pytest.mark.parametrize("threads", [0, 16, 48])
def test_incomplete_warps_cannot_be_partitioned(threads):
    with pytest.raises(ResourceError, match=f"{threads} threads are no whole number of warps"):
        partition(64, 64, ATOM, threads, GemmWarpPolicy.FullRow, 32)


def test_an_operand_from_an_accumulator_has_the_same_owners():
    """The second product of attention takes the first one's result: rows by warps, columns along K."""
    split = partition(64, 64, ATOM, 128, GemmWarpPolicy.FullRow, 32)
    assert split.accumulator(ATOM, 64, 64).same_owners(split.left(ATOM.a, 64, 64))


def test_a_matrix_in_any_dimensions_of_its_buffer():
    split = WarpPartition(2, 1, 1, 2, 2)
    tile = split.accumulator(ATOM, 64, 16)
    turned = placed(tile, (2, 1), (1, 16, 64))
    assert (1, 16, 64) == turned.shape
    assert np.array_equal(tile.table, turned.table[..., [2, 1]])
    assert not turned.table[..., 0].any()


def test_surplus_threads_hold_replicas():
    tile = held(partition(1, 64, ATOM, 128, GemmWarpPolicy.Square, 32).accumulator(ATOM, 1, 64))
    assert not tile.table[..., 0].any()
    assert 8 == tile.replication
    assert 64 * 8 == tile.threads * tile.values
