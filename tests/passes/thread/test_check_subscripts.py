import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import DeviceAssertError
from tilelang.ir.stmt import Assert
from tilelang.ir.visit import walk
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.passes.thread.check_subscripts import check_subscripts


@T.prim_func
def gathered(A: T.Tensor((64,), "float32"), I: T.Tensor((64,), "int32"), C: T.Tensor((64,), "float32")):
    with T.Kernel(1):
        tile = T.alloc_shared((64,), "float32")
        sums = T.alloc_shared((64,), "float32")
        T.copy(A, tile)
        T.clear(sums)
        for i in T.Parallel(64):
            if I[i] != 7:
                C[i] = T.if_then_else(I[i] < 60, tile[I[i]], -1.0)
        for i in T.serial(64):
            T.atomic_add(sums[I[i] % 64], 1.0)


@pytest.fixture(scope="module")
def kernel():
    return tilelang.compile(gathered, target="cpu", execution_backend="cc")


def test_indices_in_range_give_what_they_did(kernel):
    a, i, c = np.arange(64, dtype=np.float32), np.arange(64, dtype=np.int32), np.zeros(64, np.float32)
    i[60:] = 100  # which the choice keeps away from the tile
    i[5] = 7
    kernel(a, i, c)
    expected = np.where(np.arange(64) < 60, a, -1)
    expected[[5, 7]] = 0
    np.testing.assert_array_equal(expected, c)


def test_an_index_out_of_range_is_an_error(kernel):
    i = np.arange(64, dtype=np.int32)
    i[3] = -1
    with pytest.raises(DeviceAssertError) as error:
        kernel(np.zeros(64, np.float32), i, np.zeros(64, np.float32))
    lines = str(error.value).splitlines()
    assert "'tile[I[i]]': index 'I[i]' is out of range for dimension 0, whose extent is 64" == lines[0]
    assert "test_check_subscripts.py:23:" in lines[1]
    assert (
        "hint: compare the index with the extent before the access; "
        "pass_configs={'tl.disable_safe_memory_legalize': True} turns these tests off"
    ) == lines[-1]


def test_what_is_proven_needs_no_test(kernel):
    assert 1 == kernel.get_kernel_source().count("tl_fail(tl_failed")


def test_an_option_leaves_the_tests_out():
    options = {"tl.disable_safe_memory_legalize": True}
    kernel = tilelang.compile(gathered, target="cpu", execution_backend="cc", pass_configs=options)
    assert "tl_fail" not in kernel.get_kernel_source()


def test_inner_indices_come_first_and_conditions_of_loops_are_tested_again():
    @T.prim_func
    def chained(I: T.Tensor((8,), "int32"), C: T.Tensor((1,), "int32")):
        with T.Kernel(1):
            tile = T.alloc_shared((8,), "int32")
            n = T.alloc_var("int32", init=0)
            T.copy(I, tile)
            while tile[tile[n]] > 0:
                n += 1
            C[0] = n

    func = check_subscripts(chained, PassContext(options=CompileOptions()))
    messages = [stmt.message.split(":")[0] for stmt in walk(func.body) if isinstance(stmt, Assert)]
    assert ["'tile[n]'", "'tile[tile[n]]'"] * 2 == messages
    kernel = tilelang.compile(chained, target="cpu", execution_backend="cc")
    c = np.zeros(1, np.int32)
    kernel(np.array([1, 2, 3, 0, 0, 0, 0, 0], np.int32), c)
    assert 2 == c[0]
    with pytest.raises(DeviceAssertError, match="index 'n' is out of range"):
        kernel(np.ones(8, np.int32), c)


def test_names_that_need_a_test_are_visible_behind_it():
    @T.prim_func
    def named(I: T.Tensor((8,), "int32"), C: T.Tensor((3,), "int32")):
        with T.Kernel(1):
            tile = T.alloc_shared((8,), "int32")
            T.copy(I, tile)
            first = T.alloc_var("int32", init=tile[I[0]])
            before = T.atomic_add(tile[I[1]], 5, return_prev=True)
            first += 1
            C[0] = first
            C[1] = before
            C[2] = tile[I[1]]

    c = np.zeros(3, np.int32)
    tilelang.compile(named, target="cpu", execution_backend="cc")(np.array([3, 4, 0, 10, 20, 0, 0, 0], np.int32), c)
    np.testing.assert_array_equal([11, 20, 25], c)
