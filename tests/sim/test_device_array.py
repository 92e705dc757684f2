import numpy as np
import pytest

from tilelang.dtypes import as_dtype
from tilelang.errors import ArgumentError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import as_expr
from tilelang.sim.device_array import DeviceArray


def made(array: np.ndarray, dtype: str = "int32", *, defined: bool = True) -> DeviceArray:
    rank = array.ndim - (as_dtype(dtype).lanes > 1)
    shape = tuple(as_expr(extent) for extent in array.shape[:rank])
    return DeviceArray(Buffer("A", shape, as_dtype(dtype), Scope.GLOBAL), array, defined)


def test_a_dense_array_is_its_bytes() -> None:
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    found = made(array)
    assert (24, 0, (3, 1), True) == (found.storage.bytes.size, found.begin, found.strides, found.writable)
    found.storage.bytes[:4] = 7
    assert 0x07070707 == array[0, 0]


def test_an_array_of_rank_0_is_its_bytes() -> None:
    array = np.zeros((), np.int32)
    found = made(array)
    found.storage.bytes[:4] = 7
    assert (0x07070707, ()) == (array[()], found.strides)


def test_strides_may_be_negative_and_leave_gaps() -> None:
    array = np.arange(12, dtype=np.int32)[::-2]
    found = made(array)
    assert (44, 40, (-2,)) == (found.storage.bytes.size, found.begin, found.strides)


def test_vectors_have_strides_of_their_own() -> None:
    assert (2, 1) == made(np.zeros((3, 2, 4), np.float16), "float16x4").strides
    with pytest.raises(ArgumentError, match="whole vectors of 4"):
        made(np.zeros((3, 6), np.float16)[:, :4], "float16x4")


def test_empty_arrays_and_workspaces() -> None:
    assert 0 == made(np.zeros((0, 3), np.int32)).storage.bytes.size
    flags = made(np.zeros(2, np.int32), defined=False).storage.flags
    assert flags is not None
    assert not flags.any()
