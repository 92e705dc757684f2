from collections.abc import Callable

import numpy as np
import pytest

import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.ir.expr import Binary, Call
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Alloc, Bind, For, Store
from tilelang.language.proxy import BufferProxy
from tilelang.language.stage import Stager
from tilelang.sim.tile_interp import run_reference

Tensor = Callable[..., BufferProxy]


def test_conditions_are_joined(tensor: Tensor) -> None:
    a = tensor("A", (4,), "int32")
    assert isinstance(T.any_of(a[0] < 1, a[1] < 1), Binary)
    assert isinstance(T.all_of([a[0] < 1, a[1]]), Binary)
    assert (False, True, True) == (T.all_of(True, False), T.any_of([True, False]), T.all_of(True))
    assert "bool" == T.any_of(a[0]).dtype  # type: ignore[union-attr]


def test_a_tile_is_asked_element_by_element(tensor: Tensor, stager: Stager) -> None:
    a = tensor("A", (4, 4))
    T.any_of(a)
    assert [Alloc, For, Bind] == [type(s) for s in stager.statements]


def test_a_region_has_one_dimension(tensor: Tensor, stager: Stager) -> None:
    a = tensor("A", (4, 4))
    T.all_of(buffer=a[0:1, 1:3])
    with pytest.raises(ValueError, match=r"T.any_of: the region \(2, 4\) of 'A' has other dimensions than the last"):
        T.any_of(a[1:3])
    with pytest.raises(ValueError, match="T.all_of: the region"):
        T.all_of(a[1:3, 0])


def test_where_chooses_by_a_condition(tensor: Tensor) -> None:
    a = tensor("A", (4,))
    assert to_text(T.if_then_else(a[0] < 1, a[1], 2)) == to_text(T.where(a[0] < 1, a[1], 2))
    condition = a[0] < 1
    assert condition is T.where(condition)
    with pytest.raises(ProgramError, match="T.where: needs a value for either case"):
        T.where(condition, 1)


def test_any_and_all_of_a_tile_have_their_meaning() -> None:
    @T.prim_func
    def ask(A: T.Tensor((3, 4), "int32"), B: T.Tensor((3, 2), "int32")):
        with T.Kernel(1):
            for i in T.serial(3):
                B[i, 0] = T.any_of(A[i])
                B[i, 1] = T.all_of(A[i, :])

    values = np.array([[0, 0, 0, 0], [0, 5, 0, 0], [1, 2, 3, 4]], np.int32)
    result = np.full((3, 2), -1, np.int32)
    run_reference(ask, [values, result])
    assert [[0, 0], [1, 0], [1, 1]] == result.tolist()


def test_dp4a_on_packed_integers_is_a_value(tensor: Tensor) -> None:
    a = tensor("A", (4,), "int32")
    assert isinstance(T.dp4a(a[0], a[1], a[2]), Call)


def test_dp4a_on_bytes_adds_to_an_element(tensor: Tensor, stager: Stager) -> None:
    a, c = tensor("A", (8,), "int8"), tensor("C", (1,), "int32")
    assert T.dp4a(a[0], a[4], c[0]) is None
    assert isinstance(stager.statements[0], Store)
    assert T.dp4a(a[0:4], a[4:8], c) is None  # regions and buffers stand for their first elements
    with pytest.raises(ValueError, match="T.dp4a: dp4a requires int8, int8 and int32 elements of buffers, got int8, int8, int8"):
        T.dp4a(a[0], a[4], a[1])
    with pytest.raises(ValueError, match="dp4a requires int8, int8 and int32 elements of buffers, got float8_e5m2, int8, int32"):
        T.dp4a(tensor("F", (8,), "float8_e5m2")[0], a[0], c[0])


def test_dp4a_on_bytes_is_a_dot_product() -> None:
    @T.prim_func
    def dot(A: T.Tensor((8,), "int8"), C: T.Tensor((1,), "int32")):
        with T.Kernel(1):
            T.dp4a(A[0], A[4], C[0])

    a, c = np.array([1, -2, 3, 4, 5, 6, 7, -128], np.int8), np.array([10], np.int32)
    run_reference(dot, [a, c])
    assert 10 + 5 - 12 + 21 - 512 == c[0]


def test_dp4a_on_packed_integers_has_its_meaning() -> None:
    @T.prim_func
    def dot(A: T.Tensor((2,), "int32"), C: T.Tensor((1,), "int32")):
        with T.Kernel(1):
            C[0] = T.dp4a(A[0], A[1], C[0])

    a, c = np.array([1, -2, 3, 4, 5, 6, 7, -128], np.int8).view(np.int32), np.array([10], np.int32)
    run_reference(dot, [a, c])
    assert 10 + 5 - 12 + 21 - 512 == c[0]


def test_evaluating_a_value_emits_nothing(stager: Stager) -> None:
    T.evaluate(T.int32(3))
    T.evaluate(None)
    assert [] == stager.statements
