from typing import Any

import numpy as np
import pytest
from tunable import FakeKernel

import tilelang.language as T
from tilelang.errors import ArgumentError, TuningError
from tilelang.jit.kernel import JITKernel
from tilelang.profile.inputs import TensorSupplyType
from tilelang.runtime.kernel_param import KernelParam
from tilelang.tune.inputs import Supplier, get_autotune_inputs, set_autotune_inputs


def supplier(supply_prog: Any = None, of_call: Any = lambda kernel: None) -> Supplier:
    return Supplier("scale", TensorSupplyType.Auto, supply_prog, of_call)


def made(supply: Supplier, kernel: Any = None) -> list[Any]:
    return supply.inputs(kernel or FakeKernel())[1]


def test_inputs_are_generated_once_for_equal_parameters() -> None:
    mine = supplier()
    first, again, other = FakeKernel(), FakeKernel(block=4), FakeKernel(n=8)
    assert made(mine, first) is made(mine, again)
    assert (16,) == made(mine, first)[0].shape
    assert (8,) == made(mine, other)[0].shape
    assert mine.inputs(first)[0] != mine.inputs(other)[0]


def test_inputs_can_be_set_around_a_call() -> None:
    a, b = np.zeros(16), np.ones(16)
    assert None is get_autotune_inputs()
    with set_autotune_inputs(a):
        with set_autotune_inputs([b]):
            assert b is made(supplier())[0]
        assert a is made(supplier(lambda params: [b]))[0]
    assert None is get_autotune_inputs()


def test_a_function_may_supply_them() -> None:
    def supply(params: list[KernelParam]) -> np.ndarray:
        assert [("A", "float32", [16])] == [(param.name, param.dtype, param.shape) for param in params]
        return np.full(16, 5)

    assert 5 == made(supplier(supply))[0][0]


def test_the_arguments_of_the_call_come_first() -> None:
    assert [3] == made(supplier(lambda params: [4], lambda kernel: [3]))


def test_another_number_of_them_is_refused() -> None:
    with set_autotune_inputs(1, 2), pytest.raises(ArgumentError) as caught:
        made(supplier())
    assert "autotune: set_autotune_inputs passes 2 arguments for 'scale', which takes 1: A" == str(caught.value)
    with pytest.raises(ArgumentError, match="autotune: supply_prog passes 0 arguments"):
        made(supplier(lambda params: []))


def test_a_function_that_fails_is_named() -> None:
    def supply(params: list[KernelParam]) -> None:
        raise ValueError("no file")

    with pytest.raises(TuningError) as caught:
        made(supplier(supply))
    assert (
        "autotune: supply_prog 'supply' failed: ValueError: no file\n"
        "hint: it is called with the list of the kernel's input parameters and returns one argument for each"
    ) == str(caught.value)


def test_symbolic_sizes_need_inputs() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def clear(A: T.Tensor((n,), "float32")):
        with T.Kernel(n) as bx:
            A[bx] = 0

    kernel = JITKernel(clear, target="cpu", execution_backend="reference")
    with pytest.raises(TuningError) as caught:
        made(supplier(), kernel)
    assert (
        "autotune: 'scale' cannot be given made-up arguments: 'A' has the symbolic dimension 'n', which has no value\n"
        "hint: write `with tilelang.autotuner.set_autotune_inputs(...):` around the call, or pass supply_prog="
    ) == str(caught.value)


def test_scalars_are_not_generated() -> None:
    @T.prim_func
    def scale(A: T.Tensor((8,), "float32"), factor: T.float32):
        with T.Kernel(8) as bx:
            A[bx] *= factor

    kernel = JITKernel(scale, target="cpu", execution_backend="reference")
    with pytest.raises(ValueError, match="set_autotune_inputs") as caught:
        made(supplier(), kernel)
    assert (
        "autotune: 'scale' cannot be given made-up arguments: 'factor' of float32 is a scalar, whose value cannot "
        "be generated\n"
        "hint: write `with tilelang.autotuner.set_autotune_inputs(...):` around the call, or pass supply_prog="
    ) == str(caught.value)
