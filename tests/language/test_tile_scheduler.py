"""`T.PersistentTileScheduler`: every tile once, in the order that its numbers say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilelang
import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.sim.tile_interp import run_reference

sizes = st.integers(1, 7)


def coordinates(tile, rows, columns, width, column_major):
    """What the numbering means, in plain Python."""
    first, second = (rows, columns) if column_major else (columns, rows)
    group, within = divmod(tile, first * width)
    around = max(1, min(width, second - group * width))
    at = within // around, group * width + within % around
    return at if column_major else at[::-1]


@given(sizes, sizes, sizes, st.integers(1, 4), st.booleans(), st.integers(1, 2))
def test_workers_share_all_tiles_in_order(m, n, workers, width, column_major, cluster):
    rows = -(-m // cluster)

    @T.prim_func
    def main(A: T.Tensor((rows, n), "int32"), B: T.Tensor((rows, n), "int32"), C: T.Tensor((2,), "int32"), t: T.int32):
        with T.Kernel(workers) as bx:
            s = T.PersistentTileScheduler(m, n, workers, width, column_major, cluster, name="s")
            s.init(bx)
            while s.valid():
                A[s.m_idx, s.n_idx] += s.linear_idx + 1
                B[s.m_idx, s.n_idx] = s.current_iter
                s.next_tile()
            if bx == 0:
                i, j = s.coord(t)
                C[0] = i
                C[1] = j

    a, b, c = np.zeros((rows, n), np.int32), np.zeros((rows, n), np.int32), np.zeros(2, np.int32)
    run_reference(main, [a, b, c, rows * n - 1])
    for tile in range(rows * n):
        at = coordinates(tile, rows, n, width, column_major)
        assert (tile + 1, tile // workers) == (a[at], b[at])
    assert list(coordinates(rows * n - 1, rows, n, width, column_major)) == c.tolist()


@pytest.mark.parametrize(
    "backend",
    [{"target": "cpu"}, {"execution_backend": "simulator", "target": {"kind": "cuda", "arch": "sm_90a"}}],
    ids=["cpu", "simulator"],
)
def test_tiles_of_symbolic_numbers_are_visited_on_every_target(backend):
    M = T.dynamic("M")

    @T.prim_func
    def main(A: T.Tensor((M, 6), "int32")):
        with T.Kernel(2, threads=32) as bx:
            s = T.PersistentTileScheduler(M, 3, num_workers=2, swizzle_size=2)
            s.init(bx)
            while s.valid():
                for j in T.Parallel(2):
                    A[s.m_idx, s.n_idx * 2 + j] += s.linear_idx + 1
                s.next_tile()

    a = np.zeros((5, 6), np.int32)
    tilelang.compile(main, **backend)(a)
    expected = np.zeros((5, 3), np.int32)
    for tile in range(15):
        expected[coordinates(tile, 5, 3, 2, column_major=True)] = tile + 1
    np.testing.assert_array_equal(np.repeat(expected, 2, axis=1), a)


def test_without_a_number_there_is_a_worker_for_each_multiprocessor(monkeypatch):
    from tilelang.carver.arch import driver

    monkeypatch.setattr(driver, "get_num_sms", lambda device=0: 132)
    seen = []

    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(4) as bx:
            seen.append(T.PersistentTileScheduler(4, 4).num_workers)
            seen.append(T.PersistentTileScheduler(4, 4, cluster_size=2).num_workers)

    assert [132, 66] == seen


def test_mistakes():
    with pytest.raises(ProgramError, match="made with stateful=False, it has no m_idx"):

        @T.prim_func
        def main(A: T.Tensor((4,), "int32")):
            with T.Kernel(1):
                A[0] = T.PersistentTileScheduler(4, 4, 1, stateful=False).m_idx

    with pytest.raises(ValueError, match="T.PersistentTileScheduler: swizzle_size is 0"):

        @T.prim_func
        def other(A: T.Tensor((4,), "int32")):
            with T.Kernel(1):
                T.PersistentTileScheduler(4, 4, 1, swizzle_size=0)
