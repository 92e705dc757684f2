import numpy as np
import pytest
from warps import MACHINE, blocked

from tilelang.analysis.accesses import Access, accesses
from tilelang.analysis.sampled_accesses import sectors_per_byte, tile_access, traffic_ratio
from tilelang.arith.domain import Domain
from tilelang.dtypes import INT32, DType
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Expr, Load, Var, as_expr, cast
from tilelang.ir.stmt import For, ForKind, ParallelLoop, Store
from tilelang.layout.thread_values import digit, fragment, replicated

i, j, k = (Var(name, INT32, index=True) for name in "ijk")
ACCUMULATOR = fragment((64, 64), [digit(4, 0, 2), digit(8, 1, 0), digit(4, 16, 0)], [digit(2, 0, 1), digit(8, 0, 8)])


def copied(dtype: str, *, turned: bool = False, symbolic: bool = False) -> tuple[ParallelLoop, Access, Access]:
    """A nest that copies a tile, its load and its store, which may be transposed."""
    width = Var("n", INT32, index=True) if symbolic else as_expr(64)
    a = Buffer("A", (as_expr(64), as_expr(64)), DType(dtype), Scope.GLOBAL)
    b = Buffer("B", (as_expr(64), width), DType(dtype), Scope.GLOBAL)
    at = (j, i) if turned else (i, j)
    nest = ParallelLoop((i, j), (as_expr(64), as_expr(64)), Store(b, at, Load(a, (i, j), a.dtype)))
    found = accesses(nest)
    return nest, found.reads[0], found.writes[0]


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_coalesced_copies_move_what_they_want(dtype: str) -> None:
    nest, load, store = copied(dtype)
    layout = blocked((64, 64), 128, 16 // DType(dtype).storage_bytes)
    assert 1.0 == sectors_per_byte(load, nest, layout, Domain(), machine=MACHINE)
    assert 1.0 == sectors_per_byte(store, nest, layout, Domain(), machine=MACHINE)


def test_accumulators_store_half_sectors_of_narrow_elements() -> None:
    for dtype, times in (("float32", 1.0), ("float16", 2.0), ("int8", 4.0)):
        nest, _, store = copied(dtype)
        assert times == sectors_per_byte(store, nest, ACCUMULATOR, Domain(), machine=MACHINE)


def test_loads_find_in_the_cache_what_they_touched_before() -> None:
    nest, load, _ = copied("int8")
    assert 1.0 == sectors_per_byte(load, nest, ACCUMULATOR, Domain(), machine=MACHINE)


def test_transposed_stores_scatter() -> None:
    layout = blocked((64, 64), 128, 4)
    nest, load, store = copied("float32", turned=True)
    assert 4.0 == sectors_per_byte(store, nest, layout, Domain(), machine=MACHINE)  # a warp has two neighbors of each row
    columns = fragment((64, 64), [digit(64, 1, 0), digit(2, 0, 32)], [digit(32, 0, 1)])
    assert 4.0 == traffic_ratio(nest, [store], layout, columns, Domain(), machine=MACHINE)
    assert 1.0 == traffic_ratio(nest, [load], layout, layout, Domain(), machine=MACHINE)


def test_rows_of_unknown_length_lie_far_apart() -> None:
    nest, _, store = copied("float32", turned=True, symbolic=True)
    assert 4.0 == sectors_per_byte(store, nest, blocked((64, 64), 128, 4), Domain(), machine=MACHINE)


@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
def test_tiles_of_a_loop_that_starts_at_data_are_sampled_like_others(index_dtype: str) -> None:
    n, data = Var("n", DType(index_dtype), index=True), Var("data", DType(index_dtype))
    domain = Domain().with_loop(n, data, as_expr(64), 1)
    a, b = (Buffer(name, (as_expr(64), as_expr(4096)), DType("float32"), Scope.GLOBAL) for name in "AB")
    nest = ParallelLoop((i, j), (as_expr(64), as_expr(64)), Store(b, (i, n * 64 + j), Load(a, (i, j), a.dtype)))
    (store,) = accesses(nest).writes
    assert 1.0 == sectors_per_byte(store, nest, blocked((64, 64), 128, 4), domain, machine=MACHINE)


def test_copies_of_threads_are_not_counted() -> None:
    nest, _, store = copied("float32")
    once = tile_access(store, nest, replicated((64, 64), 64), 2, Domain(), copies=False, machine=MACHINE)
    assert once is not None
    assert 1 == int((once.coordinates[:, 0] >= 0).all(axis=-1).sum())


def test_missing_lanes_take_no_part() -> None:
    nest, _, store = copied("float32")
    few = tile_access(store, nest, blocked((64, 64), 48, 1), 2, Domain(), machine=MACHINE)
    assert few is not None
    assert 48 == int((few.coordinates[:, 0, :, 0] >= 0).sum())


def test_vectors_and_subscripts_from_memory() -> None:
    a = Buffer("A", (as_expr(64), as_expr(64)), DType("float32"), Scope.GLOBAL)
    index = Buffer("I", (as_expr(64),), DType("int32"), Scope.GLOBAL)

    def access(at: tuple[Expr, ...]) -> tuple[Access, ParallelLoop]:
        nest = ParallelLoop((i, j), (as_expr(64), as_expr(64)), Store(a, at, cast(as_expr(0), a.dtype)))
        return accesses(nest).writes[0], nest

    layout = blocked((64, 64), 128, 4)
    for at, vector in (((i, j), 4), ((i, j + k), 4), ((j, i), 1), ((i, j + 1), 1)):
        store, nest = access(at)
        found = tile_access(store, nest, layout, 2, Domain(), machine=MACHINE)
        assert found is not None
        assert vector == found.vector
        assert np.array_equal(found.coordinates.shape[2:], (32, 2))
    store, nest = access((i, Load(index, (j,), index.dtype)))
    assert tile_access(store, nest, layout, 2, Domain(), machine=MACHINE) is None
    assert sectors_per_byte(store, nest, layout, Domain(), machine=MACHINE) is None
    assert 1.0 == traffic_ratio(nest, [store], layout, layout, Domain(), machine=MACHINE)


@pytest.mark.parametrize("kind", [ForKind.SERIAL, ForKind.UNROLLED])
def test_loops_inside_a_nest_step_through_a_tile(kind: ForKind) -> None:
    a = Buffer("A", (as_expr(64), as_expr(64)), DType("float32"), Scope.SHARED)
    for at, steps in (((i, k), True), ((i, k + j), True), ((i, j), False)):
        store = Store(a, at, cast(as_expr(0), a.dtype))
        inner = For(k, as_expr(0), as_expr(64), 1, kind, store)
        nest = ParallelLoop((i, j), (as_expr(64), as_expr(64)), inner)
        around = For(Var("n", INT32, index=True), as_expr(0), as_expr(4), 1, ForKind.SERIAL, nest)
        (access,) = accesses(around).writes
        found = tile_access(access, nest, blocked((64, 64), 128, 4), 2, Domain(), machine=MACHINE)
        assert found is not None
        assert (steps and kind is ForKind.SERIAL) == found.steps


def test_a_tensor_of_a_single_element_is_one_sector() -> None:
    scalar = Buffer("A", (), DType("float32"), Scope.GLOBAL)
    target = Buffer("B", (as_expr(64), as_expr(64)), DType("float32"), Scope.GLOBAL)
    nest = ParallelLoop((i, j), (as_expr(64), as_expr(64)), Store(target, (i, j), Load(scalar, (), scalar.dtype)))
    (load,) = accesses(nest).reads
    assert 0.25 > (sectors_per_byte(load, nest, blocked((64, 64), 128, 4), Domain(), machine=MACHINE) or 1.0)


def test_an_element_that_all_iterations_load_makes_no_layout_worse() -> None:
    scales = Buffer("A", (as_expr(8),), DType("float32"), Scope.GLOBAL)
    target = Buffer("B", (as_expr(64), as_expr(64)), DType("float32"), Scope.GLOBAL)
    nest = ParallelLoop((i, j), (as_expr(64), as_expr(64)), Store(target, (j, i), Load(scales, (k,), scales.dtype)))
    (load,), (store,) = accesses(nest).reads, accesses(nest).writes
    columns = fragment((64, 64), [digit(64, 1, 0), digit(2, 0, 32)], [digit(32, 0, 1)])
    assert 1.0 == traffic_ratio(nest, [load], ACCUMULATOR, blocked((64, 64), 128, 4), Domain(), machine=MACHINE)
    assert 4.0 == traffic_ratio(nest, [load, store], blocked((64, 64), 128, 4), columns, Domain(), machine=MACHINE)
