import dataclasses

import numpy as np
import pytest
from distributed_tiles import distribute, launches
from gpu import assert_simulates
from warps import MACHINE, blocked

import tilelang.language as T
from tilelang.analysis.accesses import accesses
from tilelang.analysis.tile_uses import TileUses
from tilelang.arith.domain import Domain
from tilelang.dtypes import DType
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Load, Var, as_expr
from tilelang.ir.func import PrimFunc
from tilelang.ir.stmt import ParallelLoop, Seq, Store
from tilelang.layout.layout import Layout
from tilelang.layout.shared_memory import contiguous_elements, has_pitch, row_major
from tilelang.transforms.shared_layouts import (
    SharedLayoutChooser,
    TileAccess,
    candidates,
    choose,
    cost,
    ideal,
    tile_access,
)


def shared(*shape: int, dtype: str = "float32") -> Buffer:
    return Buffer("s", tuple(as_expr(e) for e in shape), DType(dtype), Scope.SHARED)


def sampled(buffer: Buffer, extents: tuple[int, ...], vector: int, *, transpose: bool = False) -> TileAccess:
    """What a loop over a tile does to it."""
    variables = tuple(Var(name, as_expr(1).dtype, index=True) for name in "ijk"[: len(extents)])
    at = variables[::-1] if transpose else variables
    outer = Var("n", as_expr(1).dtype, index=True)
    index = (outer % 2, *at) if buffer.rank > len(at) else at
    store = Store(buffer, index, Load(buffer, index, buffer.dtype))
    nest = ParallelLoop(variables, tuple(as_expr(e) for e in extents), store)
    access = accesses(nest).writes[0]
    layout = blocked(extents, 128, vector)
    found = tile_access(access, nest, layout, 2, Domain(), machine=MACHINE)
    assert found is not None
    return found


def test_vectors_are_seen() -> None:
    access = sampled(shared(64, 64), (64, 64), 4)
    assert (4, 2, 32, 2) == (access.vector, access.coordinates.shape[0], *access.coordinates.shape[2:])
    assert 1 == sampled(shared(64, 64), (64, 64), 4, transpose=True).vector
    assert 4 == sampled(shared(2, 64, 64), (64, 64), 4).vector


def test_subscripts_from_memory_are_not_told() -> None:
    buffer = shared(64, 64)
    i = Var("i", as_expr(1).dtype, index=True)
    load = Load(shared(64, dtype="int32"), (i,), DType("int32"))
    nest = ParallelLoop((i,), (as_expr(64),), Store(buffer, (i, load), as_expr(0.0)))
    access = next(a for a in accesses(nest).writes)
    assert tile_access(access, nest, blocked((64,), 64), 2, Domain(), machine=MACHINE) is None


def test_straight_accesses_leave_tiles_alone() -> None:
    assert choose(shared(64, 64), [sampled(shared(64, 64), (64, 64), 4)], 1)[0] is None
    assert (None, 0.0) == choose(shared(64), [], 1)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "float64"])
@pytest.mark.parametrize("size", [32, 64])
def test_transposed_accesses_choose_a_cheaper_layout(dtype: str, size: int) -> None:
    buffer = shared(size, size, dtype=dtype)
    both = [sampled(buffer, (size, size), 2), sampled(buffer, (size, size), 2, transpose=True)]
    layout, cycles = choose(buffer, both, 1)
    assert layout is not None
    itemsize = buffer.dtype.storage_bytes
    assert cycles == cost(layout, both, itemsize)
    assert ideal(both, itemsize) <= cycles < cost(row_major((size, size)), both, itemsize)


def test_equal_accesses_to_tiles_of_other_dtypes_are_counted_for_each() -> None:
    tiles = [shared(64, 8, dtype=dtype) for dtype in ("float32", "int8", "float16", "float64", "float32")]
    i, j = (Var(name, as_expr(1).dtype, index=True) for name in "ij")
    stores = [Store(tile, (i, j), Load(tile, (i, j), tile.dtype)) for tile in tiles]
    nests = [ParallelLoop((i, j), (as_expr(64), as_expr(8)), store) for store in stores]
    layouts = dict.fromkeys(nests, blocked((64, 8), 128, 4))

    def chosen(*places: int) -> list[Layout | None]:
        uses = TileUses(accesses(Seq(tuple(nests[place] for place in places))), Domain(), {}, {})
        chooser = SharedLayoutChooser(uses, layouts, {}, MACHINE)
        return [chooser.layout(tiles[place]) for place in places]

    alone = [layout for place in range(5) for layout in chosen(place)]
    assert alone == chosen(*range(5))
    assert alone[0] == alone[4] and alone[1] != alone[3]


def test_rows_are_padded_only_where_the_memory_is_there() -> None:
    buffer = shared(2, 36, 36)  # no mode permutes rows of 144 bytes
    both = [sampled(buffer, (36, 36), 1, transpose=each) for each in (False, True)]
    layout, cycles = choose(buffer, both, 1)
    assert layout is not None
    row_bytes = int(layout.table[1, 0, 0]) * 4
    padding = 2 * 35 * (row_bytes - 144)
    assert (layout, cycles) == choose(buffer, both, 1, padding)
    assert choose(buffer, both, 1, padding - 1)[1] > cycles
    assert choose(buffer, both, 1, 0)[0] is None


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_tiles_that_take_all_memory_are_not_padded(arch: str) -> None:
    @T.prim_func
    def f(A: T.Tensor((128, 128), "float32"), B: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=256):
            first, second = T.alloc_shared((64, 128), "float32"), T.alloc_shared((64, 128), "float32")
            for i, j in T.Parallel(128, 64):
                first[j, i] = A[i, j]
            for i, j in T.Parallel(128, 64):
                second[j, i] = A[i, 64 + j]
            for i in T.Parallel(64):
                for j in T.serial(128):
                    B[i, j] = first[i, j]
                    B[64 + i, j] = second[i, j]

    a = np.arange(128 * 128, dtype=np.float32).reshape(128, 128)
    _, b = assert_simulates(f, a, np.zeros_like(a), arch=arch)
    np.testing.assert_array_equal(a.T, b)


def test_runs_that_others_need_stay_together() -> None:
    for layout in candidates((64, 64), 2, 16, MACHINE.bank_bytes):
        assert contiguous_elements(layout) >= 8
    assert any(contiguous_elements(layout) < 8 for layout in candidates((64, 64), 2, 1, MACHINE.bank_bytes))


def test_a_split_vector_costs_more() -> None:
    access = sampled(shared(32, 32), (32, 32), 4)
    odd = Layout((32, 32), lambda i, j: i * 33 + j)
    assert cost(row_major((32, 32)), [access], 4) <= cost(odd, [access], 4)


@pytest.mark.parametrize("dtype", [T.float32, T.float16])
def test_a_transposing_kernel_reads_and_writes_without_conflicts(dtype) -> None:
    @T.prim_func
    def f(A: T.Tensor((64, 64), dtype), B: T.Tensor((64, 64), dtype)):
        with T.Kernel(1, threads=128) as _:
            s = T.alloc_shared((64, 64), dtype)
            T.copy(A, s)
            for i, j in T.Parallel(64, 64):
                B[i, j] = s[j, i]

    ((_, layout),) = launches(distribute(f))[0].plan.shared_layouts
    assert not has_pitch(layout)
    places = layout.table[..., 0] if layout.table.shape[-1] == 1 else layout.table @ np.array([64, 1])
    assert 4096 == len(np.unique(places))


def solve(steps) -> PrimFunc:
    """Rows that threads write as their columns, and read one after another."""

    @T.prim_func
    def f(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64) as _:
            s = T.alloc_shared((64, 64), "float32")
            for i, j in T.Parallel(64, 64):
                s[j, i] = A[i, j]
            for j in T.Parallel(64):
                total = T.alloc_var("float32", init=0.0)
                for i in steps(64):
                    for k in steps(64):
                        total += s[i, k] * s[k, j]
                B[j] = total

    return f


def test_rows_that_a_loop_steps_through_have_a_pitch() -> None:
    ((_, layout),) = launches(distribute(solve(T.serial)))[0].plan.shared_layouts
    assert has_pitch(layout) and layout.output_shape != (64, 64)
    ((_, layout),) = launches(distribute(solve(T.unroll)))[0].plan.shared_layouts
    assert not has_pitch(layout)  # its subscripts are constants


def test_steps_through_a_layout_without_a_pitch_cost_index_arithmetic() -> None:
    access = sampled(shared(64, 64), (64, 64), 1)
    stepping = dataclasses.replace(access, steps=True, cache={})
    for layout in candidates((64, 64), 4, 1, MACHINE.bank_bytes):
        more = cost(layout, [stepping], 4) - cost(layout, [access], 4)
        assert (0 if has_pitch(layout) else 64 * 64 / 32) == more
