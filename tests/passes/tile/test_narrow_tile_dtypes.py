import ml_dtypes
import numpy as np
import pytest
from gpu import lower_func
from harness import run_everywhere

import tilelang.language as T
from tilelang.dtypes import SCALARS
from tilelang.ir.buffer import Scope
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import Alloc, CallStmt
from tilelang.ir.visit import walk
from tilelang.passes.base import PassContext
from tilelang.passes.tile.narrow_tile_dtypes import PASS, includes

ROWS, WIDTH, TRIPS = 4, 32, 3


def tile_dtype(func: PrimFunc) -> str:
    """The dtype that the first tile in shared memory has after the pass."""
    result = PASS.run(func, PassContext())
    tile, *_ = [s.buffer for s in walk(result.body) if isinstance(s, Alloc) and s.buffer.scope is Scope.SHARED]
    return str(tile.dtype)


def kernel(case, source="bfloat16", dtype="float32", stages=2):
    """Sums tiles of A by way of a tile in shared memory; `case` says how it is used besides."""

    @T.prim_func
    def main(A: T.Tensor((ROWS, WIDTH * TRIPS), source), B: T.Tensor((ROWS, WIDTH), dtype)):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((ROWS, WIDTH), dtype)
            held = T.alloc_fragment((ROWS, WIDTH), dtype)
            total = T.alloc_fragment((ROWS, WIDTH), dtype)
            if case == "layout":
                T.annotate_layout({tile: T.Layout((ROWS, WIDTH), lambda i, j: (i, j))})
            elif case == "view":
                flat = T.view(tile, (ROWS * WIDTH,), dtype)
            T.clear(total)
            for k in T.Pipelined(TRIPS, num_stages=stages):
                T.copy(A[0, k * WIDTH], tile)
                if case == "copied":
                    T.copy(tile, held)
                elif case == "reduced":
                    T.cumsum(tile, dim=1)
                elif case == "written":
                    tile[0, 0] = 1
                elif case == "view":
                    flat[0] = 2
                for i, j in T.Parallel(ROWS, WIDTH):
                    total[i, j] += held[i, j] if case == "copied" else tile[i, j] * 3
            T.copy(total, B)

    return main


@pytest.mark.parametrize(
    ("wide", "narrow", "expected"),
    [
        ("float32", "bfloat16", True),
        ("float32", "float16", True),
        ("float32", "tfloat32", False),  # of the same size
        ("tfloat32", "bfloat16", True),
        ("tfloat32", "float16", True),
        ("bfloat16", "float16", False),
        ("float16", "float32", False),
        ("float32", "float32", False),
        ("float32", "int16", False),
        ("int32", "int16", False),
    ],
)
def test_a_float_includes_narrower_ones_of_no_more_bits(wide, narrow, expected):
    assert expected == includes(SCALARS[wide], SCALARS[narrow])


@pytest.mark.parametrize(("case", "source"), [("loaded", "float16"), ("copied", "bfloat16")])
def test_readers_convert_what_is_copied_ahead(case, source):
    func = kernel(case, source)
    assert source == tile_dtype(func)
    copies = [s for s in walk(lower_func(func).body) if isinstance(s, CallStmt) and "cp_async" in s.routine.name]
    assert any("commit" not in s.routine.name and "wait" not in s.routine.name for s in copies)
    dtype = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16}[source]
    a = np.random.default_rng(0).standard_normal((ROWS, WIDTH * TRIPS)).astype(dtype)
    run_everywhere(func, a, np.zeros((ROWS, WIDTH), np.float32))


@pytest.mark.parametrize("case", ["layout", "view", "written", "reduced"])
def test_tiles_that_are_used_otherwise_stay_wide(case):
    assert "float32" == tile_dtype(kernel(case))


def test_tiles_stay_wide_where_nothing_is_gained_or_values_would_be_lost():
    assert "float32" == tile_dtype(kernel("loaded", stages=0))
    assert "float32" == tile_dtype(kernel("loaded", "float32"))
    assert "bfloat16" == tile_dtype(kernel("loaded", "float16", "bfloat16"))
    assert "int32" == tile_dtype(kernel("loaded", "int16", "int32"))


def test_tiles_of_several_sources_or_of_products_stay_wide():
    @T.prim_func
    def several(A: T.Tensor((32, 32), "float16"), B: T.Tensor((32, 32), "bfloat16")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((32, 32), "float32")
            total = T.alloc_fragment((32, 32), "float32")
            for _ in T.Pipelined(2, num_stages=2):
                T.copy(A, tile)
                T.copy(tile, total)
                T.copy(B, tile)
                T.copy(tile, total)

    @T.prim_func
    def product(A: T.Tensor((32, 32), "float16"), B: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((32, 32), "float32")
            total = T.alloc_fragment((32, 32), "float32")
            T.clear(total)
            for _ in T.Pipelined(2, num_stages=2):
                T.copy(A, tile)
                T.gemm(tile, tile, total)
            T.copy(total, B)

    assert ["float32", "float32"] == [tile_dtype(func) for func in (several, product)]
