"""Products read a copied run of global memory in place, if nothing could tell the difference."""

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.ir.stmt import Alloc
from tilelang.ir.visit import walk
from tilelang.passes.runner import run_passes
from tilelang.passes.tile import forward_copies
from tilelang.targets.cpu.backend import BACKEND

ROWS, DEPTH, TILE = 64, 16, 32


def scores(rows=ROWS, width=DEPTH, keep="", transpose=True, offset=0):
    """C = A @ K.T, by tiles of K's rows; `keep` names a reason for which the tile must stay a copy."""

    @T.prim_func
    def main(
        A: T.Tensor((TILE, DEPTH), "float32"),
        K: T.Tensor((rows, width), "float32"),
        C: T.Tensor((TILE, rows), "float32"),
    ):
        with T.Kernel(T.ceildiv(rows, TILE)) as bx:
            K_tile = T.alloc_shared((TILE, DEPTH), "float32")
            A_tile = T.alloc_shared((TILE, DEPTH), "float32")
            C_tile = T.alloc_fragment((TILE, TILE), "float32")
            T.copy(A, A_tile)
            T.copy(K[bx * TILE + offset, 0], K_tile)
            if keep == "written":
                for i, j in T.Parallel(TILE, DEPTH):
                    K_tile[i, j] = K_tile[i, j] * 2.0
            if keep == "source written":
                for j in T.Parallel(DEPTH):
                    K[bx * TILE, j] = 0.0
            T.gemm(A_tile, K_tile, C_tile, transpose_B=True, clear_accum=True)
            T.copy(C_tile, C[0, bx * TILE])

    return main


def copied(func):
    body = run_passes(func, BACKEND.passes).body
    return {s.buffer.name for s in walk(body) if isinstance(s, Alloc)} & {"A_tile", "K_tile"}


def test_runs_that_only_products_read_are_not_copied():
    assert copied(scores()) == set()


@pytest.mark.parametrize(
    "case",
    [{"keep": "written"}, {"keep": "source written"}, {"rows": ROWS - 1}, {"width": DEPTH + 1}, {"offset": 1}],
    ids=str,
)
def test_a_copy_that_makes_a_difference_stays(case):
    assert copied(scores(**case)) == {"K_tile"}


def test_a_product_before_the_copy_keeps_it():
    @T.prim_func
    def main(A: T.Tensor((4 * TILE, TILE), "float32"), C: T.Tensor((TILE, TILE), "float32")):
        with T.Kernel(1):
            tile = T.alloc_shared((TILE, TILE), "float32")
            total = T.alloc_fragment((TILE, TILE), "float32")
            T.clear(total)
            for k in T.serial(4):
                if k > 0:
                    T.gemm(tile, tile, total)
                T.copy(A[k * TILE, 0], tile)
            T.copy(total, C)

    assert any(isinstance(s, Alloc) and s.buffer.name == "tile" for s in walk(run_passes(main, BACKEND.passes).body))
    a = np.random.default_rng(0).standard_normal((4 * TILE, TILE), dtype=np.float32)
    c = np.zeros((TILE, TILE), np.float32)
    tilelang.compile(main, target="cpu", compile_flags="-O1")(a, c)
    tiles = a.reshape(4, TILE, TILE)[:3]
    np.testing.assert_allclose(c, (tiles @ tiles).sum(axis=0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", [{}, {"rows": ROWS - 1}, {"width": DEPTH + 1}], ids=str)
def test_results_agree_with_the_reference(case):
    func = scores(**case)
    rng = np.random.default_rng(0)
    a, k, c = (rng.standard_normal(p.buffer.static_shape, dtype=np.float32) for p in func.params)
    tilelang.compile(func, target="cpu", compile_flags="-O1")(a, k, c)
    np.testing.assert_allclose(c, a @ k[:, :DEPTH].T, rtol=1e-5, atol=1e-5)


def test_part_of_a_tile_and_leading_coordinates_are_found_in_the_source():
    @T.prim_func
    def main(
        K: T.Tensor((3, 2, 2 * TILE, DEPTH), "float32"),
        C: T.Tensor((3, 2, 2, TILE // 2, TILE // 2), "float32"),
    ):
        with T.Kernel(2, 2, 3) as (bx, by, bz):
            tile = T.alloc_shared((TILE, DEPTH), "float32")
            total = T.alloc_fragment((TILE // 2, TILE // 2), "float32")
            T.copy(K[bz, by, bx * TILE, 0], tile)
            T.gemm(tile[: TILE // 2, :], tile[TILE // 2 :, :], total, transpose_B=True, clear_accum=True)
            T.copy(total, C[bz, by, bx, 0, 0])

    assert not any(
        isinstance(s, Alloc) and s.buffer.name == "tile" for s in walk(run_passes(main, BACKEND.passes).body)
    )
    k = np.random.default_rng(0).standard_normal((3, 2, 2 * TILE, DEPTH), dtype=np.float32)
    c = np.zeros((3, 2, 2, TILE // 2, TILE // 2), np.float32)
    tilelang.compile(main, target="cpu", compile_flags="-O1")(k, c)
    halves = k.reshape(3, 2, 2, 2, TILE // 2, DEPTH)
    expected = halves[:, :, :, 0] @ halves[:, :, :, 1].swapaxes(-1, -2)
    np.testing.assert_allclose(c, expected, rtol=1e-5, atol=1e-5)


def row_sums(reads="once", size=(64, 96), store=False, rows=TILE):
    """Sums of rows by tiles of columns; `reads` says how the loop reads the tile."""

    @T.prim_func
    def main(A: T.Tensor(size, "float32"), W: T.Tensor((size[1],), "float32"), Y: T.Tensor((size[0],), "float32")):
        with T.Kernel(T.ceildiv(size[0], rows)) as bx:
            tile = T.alloc_shared((rows, TILE), "float32")
            weights = T.alloc_shared((TILE,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.clear(total)
            for k in T.serial(T.ceildiv(size[1], TILE)):
                T.copy(A[bx * rows, k * TILE], tile)
                T.copy(W[k * TILE], weights)
                for i, j in T.Parallel(rows, TILE):
                    if reads == "once":
                        total[i] += tile[i, j] * weights[j]
                    elif reads == "twice":
                        total[i] += tile[i, j] * weights[j] + tile[i, TILE - 1 - j]
                    elif reads == "beyond":
                        total[i] += tile[i, T.min(j + T.cast(W[0], "int32"), TILE - 1)] * weights[j]
                if store:
                    for i in T.Parallel(rows):
                        Y[bx * rows + i] = tile[i, 0]
            T.copy(total, Y[bx * rows])

    return main


def kept(func):
    passes = BACKEND.passes[: BACKEND.passes.index(forward_copies.PASS) + 1]
    return {s.buffer.name for s in walk(run_passes(func, passes).body) if isinstance(s, Alloc)} & {"tile", "weights"}


def test_a_loop_that_reads_each_element_once_reads_it_in_place():
    assert set() == kept(row_sums())


@pytest.mark.parametrize(
    "case", [{"reads": "twice"}, {"reads": "beyond"}, {"size": (63, 96)}, {"store": True}], ids=str
)
def test_tiles_of_longer_rows_that_are_read_again_or_not_surely_inside_stay(case):
    assert {"tile"} == kept(row_sums(**case))


def test_tiles_beyond_the_tensor_stay_copies():
    assert {"tile", "weights"} == kept(row_sums(size=(64, 95)))


def test_sums_in_place_agree_with_the_reference():
    func = row_sums()
    rng = np.random.default_rng(0)
    a, w, y = (rng.integers(-8, 8, p.buffer.static_shape).astype(np.float32) for p in func.params)
    tilelang.compile(func, target="cpu", compile_flags="-O1")(a, w, y)
    np.testing.assert_array_equal(a @ w, y)


@pytest.mark.parametrize("last", ["tile", "tensor"])
def test_a_copy_of_a_copy_is_one_unless_a_tensor_is_written_first(last):
    @T.prim_func
    def main(A: T.Tensor((TILE, 64), "float32"), B: T.Tensor((TILE, 64), "float32")):
        with T.Kernel(2) as bx:
            tile = T.alloc_shared((TILE, 32), "float32")
            weights = T.alloc_fragment((TILE, 32), "float32")
            T.copy(A[0, bx * 32], tile)
            if last == "tile":
                T.copy(tile, weights)
                T.copy(weights, B[0, bx * 32])
            else:
                T.copy(tile, B[0, bx * 32])

    assert {"tile": {"weights"}, "tensor": {"tile", "weights"}}[last] == kept(main)
    a = np.random.default_rng(0).standard_normal((TILE, 64), dtype=np.float32)
    b = np.zeros_like(a)
    tilelang.compile(main, target="cpu", compile_flags="-O1")(a, b)
    np.testing.assert_array_equal(a, b)
