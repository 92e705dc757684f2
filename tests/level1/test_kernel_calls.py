"""Tests for tilelang.level1.kernel_calls."""

import numpy as np
import pytest
from array_functions import assert_close, numbers, run, traced

import tilelang
import tilelang.language as T
from tilelang.dtypes import DType
from tilelang.errors import ArgumentError
from tilelang.jit.kernel import JITKernel
from tilelang.level1.graph import KernelResult, Parameter, define
from tilelang.level1.values import TracedArray


def _kernel(out_idx: object = -1) -> JITKernel:
    n = T.dynamic("n")

    @T.prim_func
    def scaled(x: T.Tensor((n, 4), "float16"), factor: T.float32, y: T.Tensor((n, 4), "float16")):
        with T.Kernel(n, threads=32) as i:
            for j in T.Parallel(4):
                y[i, j] = x[i, j] * factor

    return tilelang.compile(scaled, out_idx=out_idx, execution_backend="reference")


def test_a_call_is_an_array_of_the_graph() -> None:
    kernel = _kernel()
    n = T.dynamic("rows")
    result = kernel(TracedArray(define("x", (n, 4), DType("float16"), Parameter(0))), 2.0)
    assert isinstance(result.node.definition, KernelResult)
    assert ("float16", n) == (result.dtype, result.node.shape[0])
    assert (result.node.definition.call.arguments[1], 5) == (2.0, kernel(traced(5, 4, dtype="float16"), 1.0).shape[0])


def test_a_call_computes_what_the_kernel_does() -> None:
    x = numbers(3, 4, dtype="float16")
    kernel = _kernel()
    assert_close(run(lambda a: kernel(a + 1, 2.0) - 1, x), (x + np.float16(1)) * 2 - 1, 1e-3)
    assert_close(run(lambda a: kernel(x=a, factor=3.0), x), x * 3, 1e-3)


def test_a_kernel_that_returns_nothing() -> None:
    with pytest.raises(ArgumentError) as error:
        _kernel(None)(traced(3, 4, dtype="float16"), 2.0, traced(3, 4, dtype="float16"))
    assert str(error.value) == (
        "scaled: a kernel called in a computation returns its results, this one writes into arguments\n"
        "hint: compile it with out_idx=[-1]"
    )


def test_arguments_that_do_not_fit() -> None:
    kernel = _kernel()
    with pytest.raises(ArgumentError) as error:
        kernel(traced(3, 4), 2.0)
    assert str(error.value) == "scaled: 'x' has dtype float32, expected float16\nhint: pass x.astype(\"float16\")"
    with pytest.raises(ArgumentError) as error:
        kernel(traced(3, 5, dtype="float16"), 2.0)
    assert str(error.value) == "scaled: 'x' has shape (3, 5), expected (n, 4)"
    with pytest.raises(ArgumentError) as error:
        kernel(traced(3, 4, dtype="float16"), 2.0, traced(3, 4, dtype="float16"))
    assert str(error.value) == (
        "scaled: expected 2 arguments (x, factor), got 3\n"
        "hint: results are returned, and cannot be passed inside a computation"
    )


def test_functions_in_eager_style_are_compiled_for_the_shapes_of_arrays() -> None:
    @tilelang.jit(execution_backend="reference")
    def doubled(x, block=4):
        n = T.const("n")
        x: T.Tensor((n,), "float32")
        y = T.empty((n,), "float32")
        with T.Kernel(T.ceildiv(n, block), threads=32) as b:
            for i in T.Parallel(block):
                y[b * block + i] = x[b * block + i] * 2
        return y

    x = numbers(8)
    assert_close(run(lambda a: doubled(a + 1, block=2) - 1, x), (x + 1) * 2 - 1)
    assert_close(doubled(x), x * 2)


def test_functions_that_return_kernels() -> None:
    @tilelang.jit(out_idx=-1, execution_backend="reference")
    def shifted(n, by):
        @T.prim_func
        def main(x: T.Tensor((n,), "float32"), y: T.Tensor((n,), "float32")):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(n):
                    y[i] = x[i] + by

        return main

    x = numbers(8)
    assert_close(run(lambda a: shifted(8, 3.0)(a * 2), x), x * 2 + 3)
