"""Elements named by vectors: which statements they become, and mistakes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.ir.stmt import For, ForKind, Store
from tilelang.ir.visit import walk
from tilelang.sim.tile_interp import run_reference


def staged(statement, extent=16):
    @T.prim_func
    def main(A: T.Tensor((extent,), "float32"), B: T.Tensor((extent, extent), "float32"), n: T.int32):
        with T.Kernel(1, threads=32):
            statement(A, B, n)

    return main


def loops(func):
    return [node.kind for node in walk(func.body) if isinstance(node, For)]


@T.macro
def stencil(A, B, n):
    B[2, T.Ramp(n, 2, 4)] = A[T.Ramp(0, 1, 4)] * 2 + T.if_then_else(n > 0, A[T.Ramp(n + 1, 3, 4)], 1)


@T.macro
def scattered(A, B, n):
    B[2, T.Shuffle([3, 1, 0, 2], [0, 1, 2, 3])] = A[T.Ramp(n, 1, 4)]


def test_lanes_that_are_built_alike_become_one_vectorized_loop():
    assert [ForKind.VECTORIZED] == loops(staged(stencil))
    func = staged(scattered)
    assert [] == loops(func)
    assert 4 == sum(isinstance(node, Store) for node in walk(func.body))


@given(st.integers(0, 4), st.integers(0, 3), st.integers(1, 4), st.integers(2, 4))
def test_overlapping_elements_are_all_read_before_one_is_written(to, first, stride, lanes):
    @T.macro
    def move(A, B, n):
        A[T.Ramp(to, 1, lanes)] = A[T.Ramp(first, stride, lanes)] + 1

    a = np.arange(16, dtype=np.float32)
    expected = a.copy()
    expected[to : to + lanes] = a[first + stride * np.arange(lanes)] + 1
    run_reference(staged(move), [a, np.zeros((16, 16), np.float32), 0])
    np.testing.assert_array_equal(expected, a)


def test_lanes_beyond_the_end_are_guarded_and_negative_ones_counted_from_it():
    @T.macro
    def around(A, B, n):
        B[0, T.Ramp(0, 1, 4)] = A[T.Ramp(n, 1, 4)]
        A[T.Ramp(n, 1, 4)] = 7.0

    for n in (-2, 14, -40):
        a, b = np.arange(1, 17, dtype=np.float32), np.zeros((16, 16), np.float32)
        places = [i + 16 if i < 0 else i for i in range(n, n + 4)]
        inside = [i for i in places if 0 <= i < 16]
        expected = [a[i] if i in inside else 0 for i in places]
        run_reference(staged(around), [a, b, n])
        assert expected == b[0, :4].tolist()
        assert sorted(inside) == np.flatnonzero(a == 7.0).tolist()[-len(inside) or 16 :] or 7 in range(1, 17)
        np.testing.assert_array_equal([7.0] * len(inside), a[inside])


@T.macro
def beside_a_slice(A, B, n):
    B[T.Ramp(0, 1, 4), 0:4] = 1.0


@T.macro
def unequal_indices(A, B, n):
    B[T.Ramp(0, 1, 4), T.Ramp(0, 1, 2)] = 1.0


@T.macro
def unequal_value(A, B, n):
    A[T.Ramp(0, 1, 4)] = T.Broadcast(1.0, 2)


@T.macro
def several_rows(A, B, n):
    B[0:2, 0:2] = T.Broadcast(1.0, 4)


@T.macro
def out_of_range(A, B, n):
    A[T.Ramp(14, 1, 4)] = 1.0


@T.macro
def vectors_of_vectors(A, B, n):
    pairs = T.alloc_local((4,), "float32x2")
    pairs[T.Ramp(0, 1, 4)] = 0.0


@pytest.mark.parametrize(
    ("statement", "kind", "message"),
    [
        (beside_a_slice, TypeError, "'B' is indexed by a vector beside a slice"),
        (unequal_indices, ValueError, "the indices of 'B' are vectors of 2 and 4 lanes"),
        (unequal_value, ValueError, "4 elements of 'A' are assigned a vector of 2 lanes"),
        (several_rows, ValueError, r"a region of 'B' \(2, 2\) is assigned a vector"),
        (out_of_range, ProgramError, "index 16 is out of range for dimension 0 of 'A'"),
        (vectors_of_vectors, TypeError, "'pairs' holds float32x2 and is indexed by a vector"),
    ],
)
def test_mistakes(statement, kind, message):
    with pytest.raises(kind, match=message) as caught:
        staged(statement)
    assert isinstance(caught.value, ProgramError)
