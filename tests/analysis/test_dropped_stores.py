import warnings

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.analysis.dropped_stores import dropped_stores, warn_of_dropped_stores
from tilelang.arith.domain import of_function
from tilelang.errors import ProgramWarning
from tilelang.ir.stmt import Launch
from tilelang.ir.visit import walk


def scaled(m, n, swapped=True, guarded=False):
    def body(A, C, by, bx):
        tile = T.alloc_shared((32, 32), "float32")
        T.copy(A[by * 32, bx * 32], tile)
        T.copy(tile, C[by * 32, bx * 32])

    @T.prim_func
    def main(A: T.Tensor((m, n), "float32"), C: T.Tensor((m, n), "float32")):
        grid = (T.ceildiv(m, 32), T.ceildiv(n, 32))
        with T.Kernel(*(grid if swapped else grid[::-1]), threads=32) as (bx, by):
            if guarded:
                if bx * 32 < n:
                    body(A, C, by, bx)
            else:
                body(A, C, by, bx)

    return main


def found(func, **sizes):
    domain = of_function(func)
    for symbol in func.symbols:
        domain = domain.with_range(symbol, sizes[symbol.name], sizes[symbol.name])
    launch = next(stmt for stmt in walk(func.body) if isinstance(stmt, Launch))
    result = dropped_stores(launch, domain)
    return result and (result.var.name, result.first, result.count)


def test_a_swapped_grid_has_blocks_that_store_nothing():
    assert ("bx", 2, 8) == found(scaled(256, 64))
    assert ("by", 2, 8) == found(scaled(64, 256))
    assert found(scaled(256, 64, swapped=False)) is None
    assert found(scaled(250, 50, swapped=False)) is None
    assert found(scaled(256, 64, guarded=True)) is None
    assert found(scaled(64, 64)) is None


@pytest.mark.parametrize(
    ("guard", "expected"),
    [
        ("by * 32 + i < m", ("bx", 2, 8)),
        ("A[0, 0] > 0", ("bx", 2, 8)),
        ("row < m", ("bx", 2, 8)),
        ("bx * 32 + j < n", None),
        ("col < n", None),
        ("inside", None),
        ("kept", None),
    ],
)
def test_guards_count_unless_they_ask_for_that_block(guard, expected):
    m, n = 256, 64

    @T.prim_func
    def main(A: T.Tensor((m, n), "float32")):
        with T.Kernel(m // 32, n // 32, threads=32) as (bx, by):
            kept = T.alloc_var("int32", init=0)
            if bx < 2:
                kept = 1
            for i, j in T.Parallel(32, 32):
                row, col, inside = by * 32 + i, bx * 32 + j, bx < 2
                guards = {
                    "by * 32 + i < m": by * 32 + i < m,
                    "A[0, 0] > 0": A[0, 0] > 0,
                    "row < m": row < m,
                    "bx * 32 + j < n": bx * 32 + j < n,
                    "col < n": col < n,
                    "inside": inside,
                    "kept": kept > 0,
                }
                if guards[guard]:
                    A[by * 32 + i, bx * 32 + j] = 1

    assert expected == found(main)


def test_sizes_of_a_call_decide_where_they_are_symbols():
    func = scaled(T.dynamic("M"), T.dynamic("N"))
    assert ("bx", 3, 4) == found(func, M=100, N=96)
    assert found(func, M=96, N=96) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_dropped_stores(func, {})  # nothing is known yet


@pytest.mark.parametrize("backend", ["reference", "simulator"])
def test_running_such_a_grid_warns(backend):
    kernel = tilelang.compile(scaled(T.dynamic("M"), T.dynamic("N")), target="sm_80", execution_backend=backend)
    with pytest.warns(ProgramWarning, match="blocks with bx = 1 to 2 store nothing"):
        kernel(np.ones((96, 32), np.float32), np.zeros((96, 32), np.float32))


def test_compiling_such_a_grid_warns_with_line_and_numbers():
    with pytest.warns(ProgramWarning) as caught:
        tilelang.lower(scaled(256, 64), target="cpu")
    lines = str(caught[0].message).splitlines()
    assert (
        "T.Kernel: blocks with bx = 2 to 7 store nothing: 'C[by * 32:by * 32 + 32, bx * 32:bx * 32 + 32]' is out of "
        "bounds in dimension 1, whose extent is 64, and so is all else that they store"
    ) == lines[0]
    assert "test_dropped_stores.py:29:" in lines[1]
    assert (
        "hint: start as many blocks as there are tiles; if the extents of the grid stand in another order than the "
        "block indices, swap them"
    ) == lines[-1]
