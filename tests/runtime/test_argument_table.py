import dataclasses
import struct
from typing import Any

import numpy as np
import pytest
from fake_cuda import FakeTensor, FakeTorch, scalar, signature, tensor, torch  # noqa: F401

from tilelang.dtypes import INT32, as_dtype
from tilelang.ir.expr import Var
from tilelang.ir.func import ScalarParam
from tilelang.runtime.argument_table import NUMPY, UNKNOWN, ArgumentTable
from tilelang.runtime.arguments import Devices, bind

M, N, S = (Var(name, INT32, index=True) for name in "MNS")
DEVICES = Devices("sm_90a", lambda address: 0, lambda: 0)


def test_bound_calls_and_fast_checks_have_the_same_key() -> None:
    params = (tensor("A", M, 4), scalar("x"), tensor("B", M * 2, M, strides=(S, N)))
    table = ArgumentTable(signature(*params, symbols=(M, S, N)), launch_scalars=["x"])
    a, b = np.zeros((2, 4), np.float32), np.zeros((4, 2, 3), np.float32)[:, :, 0]
    match = table.match((a, -7, b))
    assert match is not None
    assert (NUMPY, 2, 4, 6, 3, -7) == match.key == table.key(bind(table.signature, (a, -7, b)))
    assert -7 == match.values[1]
    assert match.like is a


def test_only_scalars_that_determine_sizes_are_in_the_key() -> None:
    size, other = ScalarParam(N), scalar("x")
    assert {1: 2} == ArgumentTable(signature(tensor("A", 8), size, other, tensor("B", N))).keys
    assert {} == ArgumentTable(signature(tensor("A", 8), size, other)).keys
    assert {2: 1} == ArgumentTable(signature(tensor("A", 8), size, other), launch_scalars={"x"}).keys
    s = signature(tensor("A", 8), size, other)
    even = N % 2 == 0
    assert {1: 1} == ArgumentTable(dataclasses.replace(s, assumptions=(even,))).keys
    assert {1: 1} == ArgumentTable(dataclasses.replace(s, grids=((N,),))).keys


def test_a_float_is_in_the_key_by_its_bits() -> None:
    table = ArgumentTable(signature(tensor("A", 8), scalar("x", "float32")), launch_scalars={"x"})
    match = table.match((np.zeros(8, np.float32), -1.5))
    assert match is not None
    assert struct.unpack("<q", struct.pack("<d", -1.5))[0] == match.key[1]


@pytest.mark.parametrize(
    ("params", "device", "expected"),
    [
        ((tensor("A", 8),), True, True),
        ((tensor("A", 8, dtype="float16x2"),), False, False),
        ((tensor("A", 8, dtype="int4"),), False, False),
    ],
)
def test_packed_and_vector_dtypes_have_no_fast_checks(params: Any, device: bool, expected: bool) -> None:
    assert expected is ArgumentTable(signature(*params), device=device).is_possible


def test_a_tensor_determines_the_device_and_the_framework_of_outputs() -> None:
    pointer = ScalarParam(Var("p", as_dtype("int64"), index=True), pointer=True)
    s = signature(pointer, tensor("A", 8), out_idx=-1)
    assert not ArgumentTable(s).is_possible
    assert not ArgumentTable(s, device=True).is_possible


def test_addresses_on_devices_are_multiples_of_16_bytes(torch: FakeTorch) -> None:
    table = ArgumentTable(signature(tensor("A", M), symbols=(M,)), device=True)
    a = FakeTensor((8,), torch.float32, 1)
    match = table.match((a,))
    assert match is not None
    assert ((1, 8), [a.pointer]) == (match.key, match.values)
    assert match.key == table.key(bind(table.signature, (a,), DEVICES))
    assert table.match((a.shifted(4),)) is None
    assert table.match((np.zeros(8, np.float32),)) is None


def test_tensors_of_other_devices_do_not_match(torch: FakeTorch) -> None:
    table = ArgumentTable(signature(tensor("A", 8), tensor("B", 8)), device=True)
    a, b = (FakeTensor((8,), torch.float32, n) for n in (0, 1))
    assert table.match((a, a)) is not None
    assert table.match((a, b)) is None


def test_without_tensors_the_location_is_unknown() -> None:
    table = ArgumentTable(signature(tensor("A", 8), scalar("n")))
    assert table.match(()) is None
    s = dataclasses.replace(table.signature, params=table.signature.params[1:], inputs=(0,), written=frozenset())
    match = ArgumentTable(s).match((3,))
    assert match is not None
    assert ((UNKNOWN,), [3], None) == (match.key, match.values, match.like)


def test_arrays_of_other_frameworks_have_no_key() -> None:
    class Array:
        def __init__(self) -> None:
            self.array = np.zeros(8, np.float32)
            self.__array_interface__ = self.array.__array_interface__

    s = signature(tensor("A", 8), tensor("B", 8))
    assert ArgumentTable(s).key(bind(s, (Array(), np.zeros(8, np.float32)))) is None


def test_outputs_follow_the_tensors() -> None:
    real = pytest.importorskip("torch")
    s = signature(scalar("x", "float32"), tensor("A", 8), tensor("B", 8), out_idx=-1)
    table = ArgumentTable(s)
    assert table.key(bind(s, (1.0, real.zeros(8)))) == (0,)
    assert table.key(bind(s, (np.float32(1.0), real.zeros(8)))) is None  # whose output is an array
