from collections.abc import Callable

import pytest

import tilelang.language as T
from tilelang.errors import ProgramError, ProgramSizeError
from tilelang.ir.stmt import Alloc
from tilelang.language.proxy import BufferProxy
from tilelang.language.stage import Stager
from tilelang.language.views import BufferStorage, view_of, wrong_size

Tensor = Callable[..., BufferProxy]


def test_a_view_is_declared_as_a_name_of_its_buffer(stager: Stager, tensor: Tensor) -> None:
    a = tensor("A", (8, 4), "float32")
    stager.targets = ("flat",)
    flat = a.data.tensor((16,), "int16")
    (statement,) = stager.statements
    assert isinstance(statement, Alloc)
    assert ("flat", a.buffer, "int16") == (flat.name, flat.buffer.view_of, flat.dtype)


def test_views_of_a_block_name_all_bytes(stager: Stager) -> None:
    shared = T.alloc_shared((8, 4), "float32")
    assert (32,) == BufferStorage(shared.buffer).tensor((32,), "float32").shape
    with pytest.raises(ProgramSizeError, match="both must have the same number of bytes"):
        shared.data.tensor((16,), "float32")


def test_dims_of_parameters_may_be_in_a_shape(stager: Stager, tensor: Tensor) -> None:
    n = T.dynamic("n")
    a = tensor("A", (n, 4), "float32")
    assert 1 == a.data.tensor((n * 4,), "float32").ndim
    with pytest.raises(ProgramError, match=r"the shape \(m,\) depends on values of the kernel"):
        a.data.tensor((T.dynamic("m"),), "float32")


def test_the_error_of_a_size_has_both_shapes(stager: Stager, tensor: Tensor) -> None:
    a = tensor("A", (8, 4), "float32")
    with pytest.raises(ProgramSizeError) as caught:
        view_of("T.view", a.buffer, (), a.buffer.dtype)
    expected = "T.view: 'A' is (8, 4) of float32, 128 bytes, but () of float32 takes 4"
    assert expected == caught.value.message == wrong_size("T.view", a.buffer, (), a.buffer.dtype).message
