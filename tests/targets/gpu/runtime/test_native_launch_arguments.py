"""Arguments of launches in machine code: extents, strides, scalars, dtypes, and the plan that they select."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from fake_cuda import launch, scalar, signature, tensor
from native_kernels import NEEDS_CHECKER, A, B, Kernel, M, N, S, torch

from tilelang.dtypes import as_dtype
from tilelang.ir.expr import Var
from tilelang.ir.func import ScalarParam

pytestmark = NEEDS_CHECKER


def test_equal_extents_are_compared() -> None:
    kernel = Kernel(signature(tensor("A", M, 4), tensor("B", 4, M), symbols=(M,)), launch(A, B, ("symbol", 0, "int64_t")))
    kernel.add_plan(torch.zeros(8, 4), torch.zeros(4, 8))
    assert kernel.call(torch.zeros(8, 4), torch.zeros(4, 8)) is None
    assert "the long way" == kernel.call(torch.zeros(8, 4), torch.zeros(4, 9))


def test_extents_that_are_computed_are_part_of_what_is_known() -> None:
    kernel = Kernel(signature(tensor("A", M), tensor("B", M * 2), symbols=(M,)), launch(A, B))
    kernel.add_plan(torch.zeros(8), torch.zeros(16))
    assert kernel.call(torch.zeros(8), torch.zeros(16)) is None
    assert "the long way" == kernel.call(torch.zeros(8), torch.zeros(15))


def test_strides_are_checked_where_they_are_declared() -> None:
    kernel = Kernel(signature(tensor("A", M, 4, strides=(S, tensor("x", 1).buffer.shape[0])), symbols=(M, S)), launch(A))
    kernel.add_plan(torch.zeros(8, 6)[:, :4])
    assert kernel.call(torch.zeros(8, 6)[:, :4]) is None
    assert "the long way" == kernel.call(torch.zeros(8, 4))
    assert "the long way" == kernel.call(torch.zeros(6, 8).t()[:, :4])


def test_empty_tensors_and_extents_of_one_have_any_strides() -> None:
    kernel = Kernel(signature(tensor("A", M, N), symbols=(M, N)), launch(A))
    for shape in ((0, 4), (1, 4), (4, 1)):
        kernel.add_plan(torch.zeros(shape))
        assert kernel.call(torch.zeros(shape)) is None
    assert kernel.call(torch.zeros(1, 8)[:, :4]) is None
    assert kernel.call(torch.zeros(4, 9)[:0, :4].view(0, 4)) is None


def test_views_that_negate_take_the_slow_path() -> None:
    kernel = Kernel(signature(tensor("A", M), symbols=(M,)), launch(A))
    for size in (1, 2):
        kernel.add_plan(torch.zeros(size))
    negated = torch.zeros(1, dtype=torch.complex64).conj().imag
    assert negated.is_neg()
    assert "the long way" == kernel.call(negated)
    assert kernel.call(torch.zeros(1)) is None


SCALARS = [
    ("int8", "int8_t", [-128, 127, 5], [128, -129, 1.0, True, 2**80, np.int8(3)]),
    ("uint8", "uint8_t", [0, 255], [-1, 256]),
    ("int32", "int", [-(2**31), 2**31 - 1, -1], [2**31, -(2**31) - 1, "1"]),
    ("int64", "int64_t", [-(2**63), 2**63 - 1, -1], [2**63]),
    ("uint64", "uint64_t", [0, 2**64 - 1, 2**63], [-1, 2**64]),
    ("bool", "bool", [True, False], [1, 0, None]),
    ("float32", "float", [1.5, -1.0, 3, float("inf"), 1e300, -1], ["1.5", None, True, 10**400]),
    ("float64", "double", [0.1, -1.0, 3, -1], [1j, 10**400]),
]


@pytest.mark.parametrize(("dtype", "ctype", "good", "bad"), SCALARS)
def test_scalars_arrive_as_the_kernel_takes_them(dtype: str, ctype: str, good: Sequence[Any], bad: Sequence[Any]) -> None:
    kernel = Kernel(signature(tensor("A", 8), scalar("x", dtype)), launch(("scalar", 1, ctype), A))
    kernel.add_plan(torch.zeros(8), good[0])
    for value in good:
        assert kernel.call(torch.zeros(8), value) is None
        with np.errstate(over="ignore"):
            assert (np.float32(value) if dtype == "float32" else value) == kernel.last[0]
    for value in bad:
        assert "the long way" == kernel.call(torch.zeros(8), value)
    assert len(good) == len(kernel.machine.done)


def test_a_pointer_is_an_address_or_a_tensor() -> None:
    s = signature(tensor("A", 8), ScalarParam(Var("p", as_dtype("int64"), index=True), pointer=True))
    kernel = Kernel(s, launch(("scalar", 1, "int64_t"), A))
    kernel.add_plan(torch.zeros(8), 4096)
    other = torch.zeros(3, 5)
    for given, expected in ((4112, 4112), (other, other.data_ptr())):
        assert kernel.call(torch.zeros(8), given) is None
        assert expected == kernel.last[0]
    for given in (0, 8, -16, 2**63, 1.0, None, other[0, 1:], torch.tensor(4096)):  # others need another program, or are errors
        assert "the long way" == kernel.call(torch.zeros(8), given)


def test_a_scalar_that_decides_the_grid_is_part_of_what_is_known() -> None:
    kernel = Kernel(signature(tensor("A", 8), scalar("n")), launch(A, ("scalar", 1, "int"), grid=("n",)))
    kernel.add_plan(torch.zeros(8), 3)
    kernel.add_plan(torch.zeros(8), -4 + 9)
    for n in (3, 5):
        kernel.call(torch.zeros(8), n)
        assert (n, 1, 1) == kernel.machine.done[-1][2][:3]
    assert "the long way" == kernel.call(torch.zeros(8), 4)


def test_a_float_can_decide_the_grid() -> None:
    s = signature(tensor("A", 8), scalar("x", "float32"))
    kernel = Kernel(s, launch(A, ("scalar", 1, "float"), grid=("int(x)",)))
    kernel.add_plan(torch.zeros(8), 3.5)
    assert kernel.call(torch.zeros(8), 3.5) is None
    assert ((3, 1, 1), 3.5) == (kernel.machine.done[-1][2][:3], kernel.last[1])
    assert "the long way" == kernel.call(torch.zeros(8), 3.0)


DTYPES = [
    "float16", "bfloat16", "float32", "float64", "tfloat32", "int8", "uint8", "int16", "uint16", "int32", "uint32",
    "int64", "uint64", "bool", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_of_every_dtype_are_told_apart(dtype: str) -> None:
    def zeros(name: str) -> Any:
        return torch.empty(8, dtype=getattr(torch, "float32" if name == "tfloat32" else name))

    kernel = Kernel(signature(tensor("A", 8, dtype=dtype)), launch(A))
    kernel.add_plan(zeros(dtype))
    for other in DTYPES:
        fits = zeros(other).dtype == zeros(dtype).dtype
        assert fits == (kernel.call(zeros(other)) is None)
