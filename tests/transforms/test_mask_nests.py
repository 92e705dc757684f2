"""Loops over parts of fragments: the threads that hold the part run them."""

import numpy as np
from distributed_tiles import assert_same, demoted, ints, launches, nests, notes
from hypothesis import given, settings
from hypothesis import strategies as st

import tilelang.language as T
from tilelang.analysis.tile_uses import tile_uses
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import int_const
from tilelang.transforms.mask_nests import masked_over_fragment


def part(shape, starts, extents, threads=32):
    """Elements of a part of a fragment are changed and copied, once from the start and once from where data says."""
    (m, n), (i0, j0), (rows, columns) = shape, starts, extents

    @T.prim_func
    def main(
        A: T.Tensor((m, n), "int32"),
        B: T.Tensor((rows, columns), "int32"),
        C: T.Tensor((rows, columns), "int32"),
        at: T.int32,
    ):
        with T.Kernel(1, threads=threads):
            x = T.alloc_fragment((m, n), "int32")
            T.copy(A, x)
            for i, j in T.Parallel(rows, columns):
                x[i + i0, j + j0] = x[i + i0, j + j0] * 2 + C[i, j]
            T.copy(x[i0 : i0 + rows, j0 : j0 + columns], B)
            T.copy(x[at : at + rows, j0 : j0 + columns], C)
            T.copy(x, A)

    return main


@settings(max_examples=10)
@given(st.data())
def test_parts_stay_in_registers(data):
    shape = data.draw(st.sampled_from([(16, 8), (8, 16), (32, 4), (6, 10)]))
    extents = tuple(data.draw(st.integers(2, extent)) for extent in shape)
    starts = tuple(data.draw(st.integers(0, whole - extent)) for whole, extent in zip(shape, extents, strict=True))
    at = np.int32(data.draw(st.integers(0, shape[0] - extents[0])))
    func = part(shape, starts, extents)
    tensors = [ints(*s, dtype=np.int32, seed=n) for n, s in enumerate((shape, extents, extents))]
    made = assert_same(func, *tensors, at)
    assert [] == [note for note in notes(made) if "shared memory" in note]


def only_use(func):
    launch = launches(func)[0]
    uses = tile_uses(func, launch, (Scope.FRAGMENT,))
    ((_, of),) = uses.of.items()
    return of.nests, list(uses.found.all)


def rows_of(count):
    @T.prim_func
    def main(A: T.Tensor((8, 4), "int32"), B: T.Tensor((count, 4), "int32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((8, 4), "int32")
            for i, j in T.Parallel(count, 4):
                B[i, j] = x[i, j]

    return main


def test_loops_over_a_part_run_over_the_whole():
    (use,), touched = only_use(rows_of(3))
    made = masked_over_fragment(use.nest, [use], touched)
    assert [8, 4] == [int_const(extent) for extent in made.extents]


def test_loops_over_the_whole_stay():
    (use,), touched = only_use(rows_of(8))
    assert masked_over_fragment(use.nest, [use], touched) is None


def padded(shape, places, start, threads):
    """Rows are copied to longer ones whose other places get something else, under a test or behind a branch."""
    (m, n), long = shape, places

    @T.prim_func
    def main(A: T.Tensor((m, n), "int32"), B: T.Tensor((m, long), "int32"), C: T.Tensor((m, long), "int32")):
        with T.Kernel(1, threads=threads):
            x = T.alloc_fragment((m, n), "int32")
            T.copy(A, x)
            for i, j in T.Parallel(m, long):
                B[i, j] = T.if_then_else(j + start < n, x[i, j + start], 7)
            for i, j in T.Parallel(m, long):
                if j + start < n:
                    C[i, j] = x[i, j + start]
                else:
                    C[i, j] = -j

    return main


@settings(max_examples=6)
@given(st.data())
def test_iterations_beyond_a_fragment_do_what_they_do_there(data):
    m, n = data.draw(st.sampled_from([(4, 24), (1, 100), (13, 24), (4, 3)]))
    start = data.draw(st.integers(0, 2))
    long = n + data.draw(st.integers(0, 9))
    func = padded((m, n), long, start, data.draw(st.sampled_from([96, 32, 7, 160])))
    assert_same(func, *(ints(m, extent, dtype=np.int32) for extent in (n, long, long)))


def test_rows_that_are_written_need_a_dimension_more():
    @T.prim_func
    def main(A: T.Tensor((8, 4), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((8, 4), "int32")
            T.copy(A, x)
            for k in T.serial(3):
                for j in T.Parallel(4):
                    x[k, j] = B[j] + k
            T.copy(x, A)

    made = assert_same(main, ints(8, 4, dtype=np.int32), ints(4, dtype=np.int32, seed=1))
    assert [] == [note for note in notes(made) if "shared memory" in note]


def test_one_element_by_several_iterations_is_no_part():
    @T.prim_func
    def main(A: T.Tensor((8, 4), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((8, 4), "int32")
            T.copy(A, x)
            for k in T.serial(3):
                for j in T.Parallel(4):
                    B[j] = x[k, j] + B[j]

    assert_same(main, ints(8, 4, dtype=np.int32), ints(4, dtype=np.int32, seed=1))
    assert [2, 1] == [len(nest.vars) for nest in nests(demoted(main))]
