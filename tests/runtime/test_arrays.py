import sys
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from fake_cuda import FakeTensor, FakeTorch, torch  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tilelang.dtypes import SCALARS, as_dtype
from tilelang.runtime.arrays import (
    allocate,
    allocate_on_device,
    borrow,
    framework_of,
    is_torch_for_rocm,
    to_framework_of,
    torch_dtype,
)


class Foreign:
    """A framework of its own that speaks DLPack."""

    def __init__(self, array: np.ndarray, old: bool = False) -> None:
        self.array, self.old = array, old

    def __dlpack__(self, **options: Any) -> object:
        if self.old and options:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __array_namespace__(self) -> Any:
        return FOREIGN


class _Namespace:
    def asarray(self, array: np.ndarray) -> Foreign:
        return Foreign(array)


FOREIGN = _Namespace()


class Interface:
    """An object that has `__array_interface__` only."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.__array_interface__ = array.__array_interface__


@pytest.mark.parametrize("dtype", [d for d in SCALARS.values() if d not in ("tfloat32", "float4_e2m1_unpacked")])
def test_a_numpy_array_of_every_dtype_is_borrowed(dtype: Any) -> None:
    array = np.zeros((2, 3), dtype.numpy)
    view = borrow(array)
    assert view is not None
    assert (dtype, (2, 3), (3, 1), True, True) == (view.dtype, view.shape, view.strides, view.writable, view.is_dense)
    assert array.ctypes.data == view.pointer


@given(
    hnp.arrays(np.int32, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)),
    st.data(),
)
def test_a_borrowed_slice_is_the_same_memory(array: np.ndarray, data: Any) -> None:
    part = data.draw(hnp.basic_indices(array.shape, allow_newaxis=False).map(lambda i: array[i]))
    if not isinstance(part, np.ndarray):
        return
    view = borrow(part)
    assert view is not None
    assert np.array_equal(part, view.as_numpy())
    assert part.flags.c_contiguous == view.is_dense
    if part.size:
        view.as_numpy()[...] = 7
        assert (part == 7).all()


def test_a_borrowed_array_keeps_its_memory_alive() -> None:
    view = borrow(np.arange(100_000, dtype=np.int32))
    assert view is not None
    array = view.as_numpy()[5:]
    del view
    others = [np.full(100_000, -1, np.int32) for _ in range(5)]
    assert (array == np.arange(5, 100_000)).all()
    assert 5 == len(others)


def test_read_only_arrays_are_marked() -> None:
    array = np.zeros(3)
    array.flags.writeable = False
    view = borrow(array)
    assert view is not None
    assert not view.writable
    assert not view.as_numpy().flags.writeable


def test_strides_within_an_element_and_odd_addresses_are_seen() -> None:
    record = np.zeros(4, [("a", np.int8), ("b", np.float32)])["b"]
    view = borrow(record)
    assert view is not None
    assert None is view.strides
    assert not view.aligned
    assert not view.is_dense


def test_foreign_byte_order_has_no_dtype() -> None:
    view = borrow(np.zeros(3, ">f4"))
    assert view is not None
    assert None is view.dtype
    assert ">f4" == view.dtype_text


@pytest.mark.parametrize("value", [None, 3, "text", [1, 2], np.float32(1).item(), object()])
def test_other_values_are_no_arrays(value: object) -> None:
    assert None is borrow(value)


@pytest.mark.parametrize("old", [False, True])
def test_dlpack_is_borrowed_from_old_and_new_producers(old: bool) -> None:
    array = np.arange(12, dtype=np.int16).reshape(3, 4)[:, 1:3]
    view = borrow(Foreign(array, old))
    assert view is not None
    assert ("int16", (3, 2), (4, 1), "cpu") == (view.dtype, view.shape, view.strides, view.device)
    assert np.array_equal(array, view.as_numpy())


def test_dlpack_marks_read_only_arrays() -> None:
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    view = borrow(Foreign(array))
    assert view is not None
    assert not view.writable


def test_the_array_interface_is_borrowed() -> None:
    array = np.arange(6, dtype=np.uint8)
    view = borrow(Interface(array))
    assert view is not None
    assert array.ctypes.data == view.pointer


def test_device_arrays_name_their_device() -> None:
    class OnDevice:
        __cuda_array_interface__ = {"typestr": "<f4", "shape": (3,), "data": (4096, False), "version": 3}

    view = borrow(OnDevice())
    assert view is not None
    assert ("cuda", "float32", (3,), (1,), 4096) == (view.device, view.dtype, view.shape, view.strides, view.pointer)


def test_device_arrays_have_strides_device_and_stream() -> None:
    class OnDevice:
        device = SimpleNamespace(id=3)

        def __init__(self, strides: tuple[int, ...]) -> None:
            self.__cuda_array_interface__ = {
                "typestr": "<f2", "shape": (3, 2), "strides": strides, "data": (4096, True), "version": 3, "stream": 7,
            }  # fmt: skip

    view = borrow(OnDevice((8, 2)))
    assert view is not None
    assert ("cuda:3", (4, 1), False, 7) == (view.device, view.strides, view.writable, view.stream)
    odd = borrow(OnDevice((7, 2)))
    assert odd is not None
    assert odd.strides is None


def test_immutable_device_arrays_are_borrowed_by_dlpack_on_the_default_stream() -> None:
    class Array:  # as JAX has them, with memory of the host in the place of a device's
        __module__ = "jax"
        __cuda_array_interface__ = None

        def __init__(self) -> None:
            self.memory, self.streams = np.arange(4, dtype=np.float32), []

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 1

        def __dlpack__(self, *, stream: int, max_version: Any = None) -> Any:
            self.streams.append(stream)
            return self.memory.__dlpack__()

    array = Array()
    view = borrow(array)
    assert view is not None
    assert ("cuda:1", "float32", (4,), False) == (view.device, view.dtype, view.shape, view.writable)
    assert array.memory.ctypes.data == view.pointer
    assert [1] == array.streams


@pytest.fixture
def torch_for_rocm(torch: FakeTorch) -> FakeTorch:
    torch.version = SimpleNamespace(hip="6.2.41133", cuda=None)
    return torch


def test_tensors_of_a_torch_for_rocm_are_on_its_devices(torch_for_rocm: FakeTorch) -> None:
    view = borrow(FakeTensor((4,), torch_for_rocm.float32, 3))
    assert view is not None
    assert ("rocm:3", True) == (view.device, view.pointer > 0)
    assert is_torch_for_rocm()


def test_arrays_of_a_cupy_for_rocm_are_on_its_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    class OnDevice:
        __module__ = "cupy"
        device = SimpleNamespace(id=1)
        __cuda_array_interface__ = {"typestr": "<f4", "shape": (3,), "data": (4096, False), "version": 3}

    for is_hip, expected in ((True, "rocm:1"), (False, "cuda:1")):
        module = SimpleNamespace(cuda=SimpleNamespace(runtime=SimpleNamespace(is_hip=is_hip)))
        monkeypatch.setitem(sys.modules, "cupy", module)
        view = borrow(OnDevice())
        assert view is not None
        assert expected == view.device


def test_dlpack_of_rocm_is_borrowed_on_its_default_stream() -> None:
    class Array:
        def __init__(self) -> None:
            self.memory, self.streams = np.arange(4, dtype=np.float32), []

        def __dlpack_device__(self) -> tuple[int, int]:
            return 10, 2

        def __dlpack__(self, *, stream: int, max_version: Any = None) -> Any:
            self.streams.append(stream)
            return self.memory.__dlpack__()

    array = Array()
    view = borrow(array)
    assert view is not None
    assert ("rocm:2", array.memory.ctypes.data, [0]) == (view.device, view.pointer, array.streams)


def test_outputs_on_a_device_come_from_the_framework_of_the_inputs(torch: FakeTorch) -> None:
    made = allocate_on_device(FakeTensor((1,), torch.float32, 2), (2, 3), as_dtype("bfloat16"), 2)
    assert ((2, 3), torch.bfloat16, 2) == (made.shape, made.dtype, made.number)
    assert 1 == allocate_on_device(None, (2,), as_dtype("float32"), 1).number


def test_outputs_of_immutable_frameworks_are_theirs() -> None:
    class Array:
        __module__ = "jax"
        device = "gpu 1"

        def __array_namespace__(self) -> Any:
            return SimpleNamespace(empty=lambda shape, dtype, device: (shape, np.dtype(dtype), device))

    assert ((2,), np.dtype(np.float32), "gpu 1") == allocate_on_device(Array(), (2,), as_dtype("float32"), 1)


def test_without_a_framework_there_are_no_outputs_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert allocate_on_device(None, (2,), as_dtype("float32"), 0) is None


def test_outputs_are_numpy_for_numpy() -> None:
    made = allocate(np.zeros(1), (2, 3), as_dtype("bfloat16"))
    assert isinstance(made, np.ndarray)
    assert ((2, 3), ml_dtypes.bfloat16) == (made.shape, made.dtype)
    assert made is to_framework_of(made, np.zeros(1))


def test_outputs_are_converted_through_the_array_api_namespace() -> None:
    like = Foreign(np.zeros(1))
    made = allocate(like, (2,), as_dtype("int32"))
    assert isinstance(to_framework_of(made, like), Foreign)


def test_the_first_array_decides_the_framework() -> None:
    foreign, array = Foreign(np.zeros(1)), np.zeros(1)
    assert foreign is framework_of([3, None, foreign, array])
    assert None is framework_of([3, 1.5])


class TestTorch:
    @pytest.fixture(autouse=True)
    def _torch(self) -> None:
        self.torch: Any = pytest.importorskip("torch")

    @pytest.mark.parametrize(
        "name", ["bool", "int8", "uint8", "int64", "float16", "bfloat16", "float32", "float64", "float8_e4m3fn"]
    )
    def test_a_tensor_is_borrowed(self, name: str) -> None:
        tensor = self.torch.zeros(2, 3).to(getattr(self.torch, name))
        view = borrow(tensor)
        assert view is not None
        assert (name, (2, 3), (3, 1), "cpu") == (view.dtype, view.shape, view.strides, view.device)
        assert tensor.data_ptr() == view.pointer
        assert view.as_numpy().dtype == as_dtype(name).numpy

    def test_transposed_and_sliced_tensors_keep_their_strides(self) -> None:
        tensor = self.torch.arange(12.0).reshape(3, 4).T[1:]
        view = borrow(tensor)
        assert view is not None
        assert (1, 4) == view.strides
        assert np.array_equal(tensor.numpy(), view.as_numpy())

    def test_meta_and_sparse_tensors_have_no_memory(self) -> None:
        meta = borrow(self.torch.zeros(2, device="meta"))
        sparse = borrow(self.torch.eye(2).to_sparse())
        assert meta is not None
        assert sparse is not None
        assert ("meta", 0) == (meta.device, meta.pointer)
        assert (None, 0) == (sparse.strides, sparse.pointer)

    def test_a_lazily_negated_tensor_is_read_by_value_and_not_written(self) -> None:
        tensor = self.torch.tensor([1 + 2j]).conj().imag
        view = borrow(tensor)
        assert view is not None
        assert [-2.0] == view.as_numpy().tolist()
        assert not view.writable

    def test_outputs_are_tensors_for_tensors(self) -> None:
        made = allocate(self.torch.zeros(1), (2, 3), as_dtype("bfloat16"))
        assert (self.torch.bfloat16, (2, 3)) == (made.dtype, tuple(made.shape))
        assert self.torch.float32 == torch_dtype(as_dtype("tfloat32"))

    def test_without_arrays_outputs_are_tensors_where_torch_is_loaded(self) -> None:
        assert isinstance(allocate(None, (2,), as_dtype("float32")), self.torch.Tensor)

    def test_dtypes_that_torch_lacks_are_numpy(self) -> None:
        assert isinstance(allocate(self.torch.zeros(1), (2,), as_dtype("float4_e2m1fn")), np.ndarray)

    @pytest.mark.parametrize("name", ["bool", "float16", "bfloat16", "float32", "float8_e4m3fn"])
    def test_a_large_tensor_is_made_like_a_small_one(self, name: str) -> None:
        large = allocate(self.torch.zeros(1), (2048, 4097), as_dtype(name))
        assert (getattr(self.torch, name), (2048, 4097), (4097, 1)) == (large.dtype, tuple(large.shape), large.stride())
        assert 0 == large.data_ptr() % 64
        large.zero_()
        assert 0 == large.to(self.torch.float32).sum().item()
