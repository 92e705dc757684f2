"""What decides nothing about results is dropped where the target has none of it, and computes the same everywhere."""

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.ir.stmt import CallStmt
from tilelang.ir.visit import walk
from tilelang.passes.base import PassContext
from tilelang.passes.tile import drop_optional_calls
from tilelang.targets.target import Target


@T.prim_func
def add_one(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        T.pdl_sync()
        for i in T.Parallel(64):
            B[i] = A[i] + 1
        T.pdl_trigger()


@pytest.mark.parametrize(("target", "kept"), [(Target("cuda", "sm_90a"), 2), (Target("cuda", "sm_89"), 0), (Target("cpu"), 0)])
def test_calls_stay_only_where_the_target_has_the_instruction(target, kept):
    func = drop_optional_calls.PASS.run(add_one, PassContext(target=target))
    assert kept == sum(isinstance(s, CallStmt) for s in walk(func.body))


@T.prim_func
def sleep(A: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        T.prefetch_global(A[0])
        T.nanosleep(100)
        A[T.get_thread_binding()] = 1


@pytest.mark.parametrize(("target", "kept"), [(Target("cuda", "sm_75"), 2), (Target("hip", "gfx942"), 0), (Target("hip", "gfx1100"), 0)])
def test_what_only_another_vendor_has_is_dropped(target, kept):
    func = drop_optional_calls.PASS.run(sleep, PassContext(target=target))
    assert kept == sum(isinstance(s, CallStmt) for s in walk(func.body))


def test_a_program_without_such_calls_is_not_rebuilt():
    func = drop_optional_calls.PASS.run(add_one, PassContext(target=Target("cpu")))
    assert func is drop_optional_calls.PASS.run(func, PassContext(target=Target("cpu")))


@pytest.mark.parametrize("target", ["cpu", {"kind": "cuda", "arch": "sm_90a"}, {"kind": "cuda", "arch": "sm_80"}])
def test_every_target_computes_the_same(target):
    a, b = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    tilelang.compile(add_one, target=target, execution_backend="reference")(a, expected := np.zeros_like(b))
    tilelang.compile(add_one, target=target, execution_backend="cc" if target == "cpu" else "simulator")(a, b)
    np.testing.assert_array_equal(expected, b)


def test_a_kernel_that_begins_early_promises_no_constant_memory():
    text = tilelang.lower(add_one, target={"kind": "cuda", "arch": "sm_90a"}).kernel_source
    assert "const float* A" in text
    assert "__restrict__" not in text
