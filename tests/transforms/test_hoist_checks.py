"""Tests of indices stand before loops, which then run as vector lanes; errors are those that they were."""

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import DeviceAssertError
from tilelang.ir.stmt import Assert, For, ForKind
from tilelang.ir.visit import walk
from tilelang.passes.runner import run_passes
from tilelang.targets.cpu.backend import BACKEND

ROWS = 40


@T.prim_func
def lookups(
    A: T.Tensor((ROWS, 32), "float32"), I: T.Tensor((64,), "int32"), n: T.int32,
    R: T.Tensor((64, 32), "float32"), E: T.Tensor((64,), "float32"), S: T.Tensor((64,), "float32"),
):  # fmt: skip
    with T.Kernel(1):
        tile = T.alloc_shared((ROWS, 32), "float32")
        row = T.alloc_shared((ROWS,), "float32")
        T.copy(A, tile)
        T.copy(A[0:ROWS, 0], row)
        for i, j in T.Parallel(64, 32):
            R[i, j] = tile[I[i], j]
        for e in T.Parallel(64):
            E[e] = row[I[e]] * 2
        for s in T.Parallel(64):
            if s < n:
                S[s] = row[I[s] + 1]


def loops(func):
    """Per innermost loop: whether it is a vector loop, and whether a test is in it."""
    found = [s for s in walk(run_passes(func, BACKEND.passes).body) if isinstance(s, For)]
    inner = [s for s in found if not any(isinstance(t, For) for t in walk(s.body))]
    return [(s.kind is ForKind.VECTORIZED, any(isinstance(t, Assert) for t in walk(s.body))) for s in inner]


def arguments(index):
    rng = np.random.default_rng(0)
    outs = (np.zeros((64, 32), np.float32), np.zeros(64, np.float32), np.zeros(64, np.float32))
    return rng.standard_normal((ROWS, 32)).astype(np.float32), np.asarray(index, np.int32), 50, *outs


@pytest.fixture(scope="module")
def kernel():
    return tilelang.compile(lookups, target="cpu", execution_backend="cc", compile_flags="-O1")


def test_no_test_is_left_in_an_innermost_loop_and_all_of_these_are_vector_loops():
    copies = [(True, False), (False, False)]  # the second one of a column
    assert [*copies, *[(True, False)] * 5] == loops(lookups)


def test_indices_in_range_give_what_they_did(kernel):
    a, index, n, rows, elements, some = arguments(np.arange(64) % (ROWS - 1))
    index[50:] = ROWS - 1  # whose successor a condition keeps away from the tile
    kernel(a, index, n, rows, elements, some)
    np.testing.assert_array_equal(a[index], rows)
    np.testing.assert_array_equal(a[index, 0] * 2, elements)
    np.testing.assert_array_equal([*a[index[:50] + 1, 0], *[0] * 14], some)


@pytest.mark.parametrize(
    ("place", "index", "message"),
    [
        (0, -1, "'tile[I[i], j]': index 'I[i]' is out of range for dimension 0, whose extent is 40"),
        (63, ROWS, "'tile[I[i], j]': index 'I[i]' is out of range for dimension 0, whose extent is 40"),
        (3, ROWS - 1, "'row[I[s] + 1]': index 'I[s] + 1' is out of range for dimension 0, whose extent is 40"),
        (3, 2**31 - 1, "'tile[I[i], j]': index 'I[i]' is out of range for dimension 0, whose extent is 40"),
    ],
)
def test_an_index_out_of_range_is_the_same_error(kernel, place, index, message):
    indices = np.zeros(64, np.int32)
    indices[place] = index
    with pytest.raises(DeviceAssertError) as error:
        kernel(*arguments(indices))
    assert message == str(error.value).splitlines()[0]


def test_a_test_stays_where_the_loop_changes_what_it_looks_at_or_an_index_was_looked_up():
    @T.prim_func
    def main(I: T.Tensor((8,), "int32"), C: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            tile = T.alloc_shared((8,), "int32")
            at = T.alloc_var("int32", init=0)
            T.copy(I, tile)
            for i in T.serial(8):
                C[i] = tile[at]
                at = tile[at]
            for i in T.serial(8):
                C[i] += tile[tile[I[i]]]

    kernel = tilelang.compile(main, target="cpu", execution_backend="cc", compile_flags="-O1")
    c = np.zeros(8, np.int32)
    kernel(np.array([1, 2, 3, 4, 5, 6, 7, 0], np.int32), c)
    np.testing.assert_array_equal([4, 6, 8, 10, 12, 6, 8, 2], c)
    with pytest.raises(DeviceAssertError, match="index 'at' is out of range"):
        kernel(np.array([1, 2, 3, 9, 5, 6, 7, 0], np.int32), c)
    with pytest.raises(DeviceAssertError, match=r"index 'tile\[I\[i_1\]\]' is out of range"):
        kernel(np.array([0, 2, 3, 9, 5, 6, 7, 0], np.int32), c)


def test_a_loop_of_no_iterations_tests_nothing():
    @T.prim_func
    def main(I: T.Tensor((1,), "int32"), n: T.int32, C: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            tile = T.alloc_shared((8,), "float32")
            T.fill(tile, 2)
            for j in T.serial(n):
                C[j] = tile[I[0]]

    kernel = tilelang.compile(main, target="cpu", execution_backend="cc", compile_flags="-O1")
    c = np.zeros(8, np.float32)
    kernel(np.array([99], np.int32), 0, c)
    kernel(np.array([7], np.int32), 3, c)
    np.testing.assert_array_equal([2, 2, 2, 0, 0, 0, 0, 0], c)
    with pytest.raises(DeviceAssertError, match="'tile.I.0..': index 'I.0.' is out of range"):
        kernel(np.array([8], np.int32), 1, c)


def test_an_assertion_of_the_user_comes_first():
    @T.prim_func
    def main(I: T.Tensor((16,), "int32"), C: T.Tensor((16,), "float32")):
        with T.Kernel(1):
            tile = T.alloc_shared((8,), "float32")
            T.clear(tile)
            for j in T.serial(16):
                T.device_assert(I[j] < 8, "too large")
                C[j] = tile[I[j]]

    with pytest.raises(DeviceAssertError, match="too large"):
        tilelang.compile(main, target="cpu", compile_flags="-O1")(np.full(16, 8, np.int32), np.zeros(16, np.float32))
