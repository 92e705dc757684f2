"""Copies by direct loads: what they refuse, where lanes find their chunks, and what they do to layouts that waves cannot fill."""

import numpy as np
import pytest
from answers import constraints, reason
from gpu import assert_simulates, lower_func
from thread_kernels import buffer

import tilelang.language as T
from tilelang.analysis.strides import stride_along
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import as_expr
from tilelang.ir.stmt import CallStmt, For
from tilelang.ir.visit import walk
from tilelang.lowering.lowering import LoweringContext
from tilelang.lowering.regions import whole
from tilelang.ops.copy import Copy
from tilelang.options import CompileOptions
from tilelang.sim.counters import Counters
from tilelang.sim.run import simulate
from tilelang.targets.amd.isa.direct_to_lds import DIRECT_LOADS
from tilelang.targets.amd.lowerings.copy_direct import DirectCopy
from tilelang.targets.target import Target

LOAD = DIRECT_LOADS[16]


def context(arch="gfx950", threads=128):
    return LoweringContext(Target("hip", arch), CompileOptions(), threads)


def copy(shape=(64, 32), dtype="float16", source=(1024, 1024), to=None, tile=None):
    region = Region(buffer("A", source, dtype), tuple(map(as_expr, (0, 0))), tuple(map(as_expr, shape)))
    target = buffer("S", tile or shape, to or dtype, Scope.SHARED)
    return Copy(region, Region(target, tuple(map(as_expr, (0, 0))), tuple(map(as_expr, shape))))


@pytest.mark.parametrize(
    ("op", "options", "text"),
    [
        (copy(), {}, ""),
        (copy(dtype="float32"), {}, ""),
        (copy(), {"arch": "gfx942"}, "gfx942 has no direct loads of 16 bytes to LDS"),
        (copy(), {"arch": "gfx1200"}, "gfx1200 has no direct loads of 16 bytes to LDS"),
        (copy(to="float32"), {}, "does not convert float16 to float32"),
        (copy((64, 12)), {}, "chunks of 16 bytes are not proven to be aligned and in one row"),
        (copy(source=(1024, 1020)), {}, "chunks of 16 bytes are not proven to be aligned and in one row"),
        (copy((24, 32)), {}, "128 threads do not load equally many chunks of 16 bytes"),
        (copy((64, 32), tile=(64, 64)), {}, "fills whole tiles of two dimensions only"),
    ],
)
def test_what_it_cannot_do_is_refused_in_words(op, options, text):
    assert text == reason(DirectCopy(), op, context(**options))


def test_it_goes_from_global_to_shared_memory_and_asks_for_no_layout():
    assert "copies from global to shared memory only" == reason(DirectCopy(), Copy(copy().dst, copy().src), context())
    assert () == tuple(constraints(DirectCopy(), copy(), context()))
    fragment = Copy(copy().src, whole(buffer("f", (64, 32), "float16", Scope.FRAGMENT)))
    assert "copies from global to shared memory only" == reason(DirectCopy(), fragment, context())


def reversed_tiles(layout=None, *, rows=48, columns=64, stages=2, safe=None):
    """Writes each tile of A with its rows reversed; the tile has a layout of the user's."""

    @T.prim_func
    def main(A: T.Tensor((rows, columns), "float16"), C: T.Tensor((64, columns), "float16")):
        with T.Kernel(1, threads=128):
            if safe is not None:
                T.annotate_safe_value({A: safe})
            tile = T.alloc_shared((32, 64), "float16")
            if layout is not None:
                T.annotate_layout({tile: T.Layout((32, 64), layout)})
            for k in T.Pipelined(2, num_stages=stages):
                T.copy(A[k * 32, 0], tile)
                for i, j in T.Parallel(32, 64):
                    C[k * 32 + i, j] = tile[31 - i, j]

    values = np.random.default_rng(0).integers(-9, 10, (rows, columns)).astype(np.float16)
    return main, values, np.zeros((64, columns), np.float16)


def direct_loads(func):
    return [s for s in walk(lower_func(func, "gfx950").body) if isinstance(s, CallStmt) and s.routine is LOAD]


LAYOUTS = {
    "row-major": None,
    "swizzled": lambda i, j: (i, (j // 8 ^ i % 8) * 8 + j % 8),
    "rows reversed": lambda i, j: (31 - i, j),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("stages", [2, 3])
def test_sources_are_permuted_to_fill_a_tile_in_its_layout(layout, stages):
    main, *arguments = reversed_tiles(layout, stages=stages)
    assert direct_loads(main)
    assert_simulates(main, *arguments, arch="gfx950", seeds=(0, 1))


@pytest.mark.parametrize("layout", [lambda i, j: (i * 72 + j,), lambda i, j: ((i + 5) % 32, j)], ids=["padded", "rotated"])
def test_layouts_that_waves_cannot_fill_are_filled_through_registers(layout):
    main, *arguments = reversed_tiles(layout)
    assert [] == direct_loads(main)
    assert_simulates(main, *arguments, arch="gfx950", seeds=(0, 1))


def test_ragged_edges_are_zeros():
    main, *arguments = reversed_tiles(rows=40)
    assert_simulates(main, *arguments, arch="gfx950", seeds=(0,))


def test_other_safe_values_are_loaded_through_registers():
    main, *arguments = reversed_tiles(rows=40, safe=3)
    assert [] == direct_loads(main)
    assert_simulates(main, *arguments, arch="gfx950", seeds=(0,))


def test_copies_that_nothing_runs_ahead_of_are_those_of_threads():
    assert [] == direct_loads(reversed_tiles(stages=1)[0])


def test_a_wave_loads_a_kibibyte():
    main, *arguments = reversed_tiles(rows=64)
    counters = Counters()
    simulate(lower_func(main, "gfx950"), arguments, target=Target("hip", "gfx950"), report=counters)
    assert 2 * 32 * 64 * 2 // 1024 == counters.instructions[LOAD.name]  # of two tiles of 4 KiB


@pytest.mark.parametrize(("rows", "columns", "apart"), [(64, 64, 8), (T.dynamic("m"), 64, 8), (64, T.dynamic("n") * 8, 16)])
def test_waves_fill_successive_rows_unless_addresses_would_be_no_multiples_of_a_known_step(rows, columns, apart):
    """Of a swizzled tile and a tensor of symbolic strides, each round of all threads fills the rows that follow."""

    @T.prim_func
    def main(A: T.Tensor((rows, columns), "float16"), C: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((32, 64), "float16")
            T.annotate_layout({tile: T.Layout((32, 64), lambda i, j: (i, (j // 8 ^ i // 4 % 8) * 8 + j % 8))})
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[k * 32, 0], tile)
                for i, j in T.Parallel(32, 64):
                    C[k * 32 + i, j] = tile[31 - i, j]

    found = [stride_along(load.args[0].buffer, load.args[0].start, loop.var)
            for loop in walk(lower_func(main, "gfx950").body) if isinstance(loop, For)
            for load in [loop.body] if isinstance(load, CallStmt) and load.routine is LOAD]  # fmt: skip
    assert {apart * 64} == set(found)
    values = np.random.default_rng(0).integers(-9, 10, (64, 64)).astype(np.float16)
    assert_simulates(main, values, np.zeros((64, 64), np.float16), arch="gfx950", seeds=(0,))


@pytest.mark.parametrize("threads", [32, 96, 192])
def test_blocks_that_are_no_whole_waves_fill_tiles_too(threads):
    @T.prim_func
    def main(A: T.Tensor((96, 64), "float16"), C: T.Tensor((96, 64), "float16")):
        with T.Kernel(1, threads=threads):
            tile = T.alloc_shared((48, 64), "float16")
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[k * 48, 0], tile)
                for i, j in T.Parallel(48, 64):
                    C[k * 48 + i, j] = tile[47 - i, j]

    assert direct_loads(main)
    values = np.random.default_rng(0).integers(-9, 10, (96, 64)).astype(np.float16)
    assert_simulates(main, values, np.zeros((96, 64), np.float16), arch="gfx950", seeds=(0,))
