from typing import Any

import pytest
from fake_cuda import device_code, launch, scalar, signature, tensor

from tilelang.codegen.source import DeviceLaunch
from tilelang.dtypes import INT32
from tilelang.ir.expr import Var
from tilelang.ir.func import Param
from tilelang.targets.nvidia.runtime.device_fast_call import device_call_text
from tilelang.targets.nvidia.runtime.device_program import DeviceProgram
from tilelang.targets.nvidia.runtime.failures import FailureBoard

M, S = (Var(name, INT32, index=True) for name in "MS")
A = ("tensor", 0, "void*")


def text(*params: Param, launches: tuple[DeviceLaunch, ...] = (), several: bool = False, **fields: Any) -> str:
    s = signature(*params, **fields)
    code = device_code(*(launches or (launch(A),)))
    return device_call_text(s, DeviceProgram(s, code, FailureBoard()), several=several)


def test_a_constant_shape_is_tested_as_a_whole_and_makes_no_key() -> None:
    made = text(tensor("A", 8, 4))
    assert "a0.dtype is E0 and a0.is_contiguous() and a0.shape == (8, 4)\n" in made
    assert "plans.get(device)" in made


def test_a_symbolic_shape_is_a_key() -> None:
    made = text(tensor("A", M, 4), symbols=(M,))
    assert "plans.get((device, a0.shape))" in made
    assert "a0.shape ==" not in made


def test_symbolic_strides_are_a_key_and_constant_ones_a_test() -> None:
    assert "plans.get((device, a0.shape, a0.stride()))" in text(tensor("A", M, 4, strides=(S, S)), symbols=(M, S))
    four = tensor("x", 8).buffer.shape[0]
    assert "a0.shape == (8, 4) and a0.stride() == (8, 8)" in text(tensor("A", 8, 4, strides=(four, four)))


def test_a_scalar_is_a_key_only_where_it_decides_something() -> None:
    params = (tensor("A", 8), scalar("n"), scalar("m"))
    made = text(*params, launches=(launch(A, ("scalar", 2, "int32_t"), grid=("n",)),))
    assert "plans.get((device, a1))" in made
    assert "type(a2) is int and -2147483648 <= a2 <= 2147483647" in made
    size = scalar("size")
    assert "plans.get((device, a0.shape, a1))" in text(tensor("A", size.var), size)


@pytest.mark.parametrize(("several", "asked"), [(False, False), (True, True)])
def test_the_current_device_is_asked_only_where_there_are_several(several: bool, asked: bool) -> None:
    assert asked is ("current_device()" in text(tensor("A", 8), several=several))


def test_tensors_that_may_hold_negated_values_are_asked() -> None:
    assert ["is_neg" in text(tensor("A", 1)), "is_neg" in text(tensor("A", 8))] == [True, False]
    assert "is_neg" not in text(tensor("A", 1, dtype="int32"))


@pytest.mark.parametrize(
    "params",
    [
        (scalar("n"), tensor("A", 8, dtype="float16x2")),
        (tensor("A", 8, dtype="int4"),),
    ],
)
def test_what_a_glance_cannot_see_goes_the_long_way(params: tuple[Param, ...]) -> None:
    assert "" == text(*params, launches=(launch(),))


def test_a_scalar_that_must_be_rounded_goes_the_long_way() -> None:
    params = (tensor("A", 8), scalar("x", "float16"))
    assert "" == text(*params, launches=(launch(A, ("scalar", 1, "half_t")),))
    assert "" != text(tensor("A", 8), scalar("x", "float32"), launches=(launch(A, ("scalar", 1, "float")),))


def test_without_tensors_the_long_way_finds_the_device() -> None:
    assert "" == text(scalar("n"), tensor("A", 8), out_idx=-1, launches=(launch(("tensor", 1, "void*")),))
