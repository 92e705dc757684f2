"""Reductions under a condition update only the elements that the condition selects."""

import numpy as np
import pytest
from simt import assert_threads_agree, ints

import tilelang.language as T


def folded(form, place, rows, columns, size, threads):
    """Columns are folded into a tile with fewer elements than there are columns."""
    alloc = {"shared": T.alloc_shared, "fragment": T.alloc_fragment}[place]

    @T.prim_func
    def main(A: T.Tensor((rows, columns), "int32"), wanted: T.Tensor((columns,), "int32"), B: T.Tensor((size,), "int32")):
        with T.Kernel(1, threads=threads):
            x = T.alloc_fragment((rows, columns), "int32")
            total = alloc((size,), "int32")
            T.copy(A, x)
            T.copy(B, total)
            for i, j in T.Parallel(rows, columns):
                if form == "element":
                    if j < size:
                        total[j] += x[i, j]
                elif form == "else":
                    if j >= size:
                        x[i, j] = 0
                    else:
                        total[j] = T.max(total[j], x[i, j])
                elif form == "data":
                    if wanted[j] >= 0 and i != 1:
                        total[j] += x[i, j]
                elif form == "two":
                    if j < size and i % 2 == 0:
                        total[j] += x[i, j]
                    elif j < size:
                        total[j] += 2 * x[i, j]
            T.copy(total, B)

    return main


_FORMS = [(form, place) for place in ("shared", "fragment") for form in ("element", "else", "two")]


@pytest.mark.parametrize(("form", "place"), [*_FORMS, ("data", "shared")])  # a fragment would grow
@pytest.mark.parametrize(("rows", "columns", "size", "threads"), [(4, 64, 24, 128), (3, 33, 7, 96)])
def test_columns_beyond_a_tile_are_not_updated(form, place, rows, columns, size, threads):
    wanted = np.where(np.arange(columns) < size, 1, -1).astype(np.int32)
    func = folded(form, place, rows, columns, size, threads)
    assert_threads_agree(func, ints(rows, columns, dtype=np.int32), wanted, ints(size, dtype=np.int32))


def test_the_predicate_has_no_variable_of_an_outer_loop():
    @T.prim_func
    def main(A: T.Tensor((8, 3), "int32"), B: T.Tensor((6,), "int32"), C: T.Tensor((3,), "int32")):
        with T.Kernel(1, threads=64):
            x, total = T.alloc_fragment((8, 3), "int32"), T.alloc_shared((6,), "int32")
            row = T.alloc_fragment((3,), "int32")
            T.copy(A, x)
            T.copy(B, total)
            T.clear(row)
            for k in range(3):
                for i, j in T.Parallel(8, 3):
                    if j == k:
                        row[j] += x[i, j]
            for k in range(3):
                for i in T.Parallel(8):
                    if i < 6 and i != k:
                        total[i] += k
            T.copy(row, C)
            T.copy(total, B)

    assert_threads_agree(main, ints(8, 3, dtype=np.int32), ints(6, dtype=np.int32), ints(3, dtype=np.int32))


def test_the_predicate_has_no_result_of_an_atomic_operation():
    @T.prim_func
    def main(A: T.Tensor((64, 4), "int32"), counts: T.Tensor((64, 4), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=64):
            row = T.alloc_fragment((4,), "int32")
            T.clear(row)
            for i, j in T.Parallel(64, 4):
                old = T.atomic_add(counts[i, j], 1, return_prev=True)
                if old > 0:
                    row[j] += A[i, j]
            T.copy(row, B)

    assert_threads_agree(main, *(ints(64, 4, dtype=np.int32) for _ in range(2)), np.zeros(4, np.int32))


def test_loops_of_symbolic_extents_do_not_update_missing_elements():
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "int32"), B: T.Tensor((4,), "int32"), at: T.int32):
        with T.Kernel(1, threads=32):
            total = T.alloc_shared((4,), "int32")
            T.copy(B, total)
            for i in T.Parallel(n):
                if at < 4:
                    total[at] += A[i]
            T.copy(total, B)

    for at in (2, 4, 9):
        assert_threads_agree(main, ints(50, dtype=np.int32), ints(4, dtype=np.int32), np.int32(at))
