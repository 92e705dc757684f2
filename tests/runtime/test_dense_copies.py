"""Dense copies of arrays."""

import numpy as np
import pytest

from tilelang.runtime.dense_copies import dense, write_back

ARRAY = np.arange(24, dtype=np.float32).reshape(4, 6)


@pytest.mark.parametrize("array", [ARRAY.T, ARRAY[::2, ::-1], np.broadcast_to(ARRAY[0], (3, 6))], ids="tsb")
def test_views_are_copied(array: np.ndarray) -> None:
    copy = dense(array)
    assert copy.flags.c_contiguous
    np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("value", [ARRAY, ARRAY[1:], ARRAY[:0, ::2], 3, "text"])
def test_others_are_not_copied(value: object) -> None:
    assert dense(value) is value


def test_what_was_written_to_a_copy_is_written_back() -> None:
    array = np.zeros((4, 6), np.float32)
    write_back(ARRAY[::2, ::2].copy(), array[::2, ::2])
    np.testing.assert_array_equal(ARRAY[::2, ::2], array[::2, ::2])
    assert 0 == array[1::2].sum()


def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(ARRAY.copy())
    assert dense(x) is x
    copy = dense(x.T)
    assert copy.is_contiguous() and torch.equal(x.T, copy)
    write_back(copy + 1, x.T)
    np.testing.assert_array_equal(ARRAY + 1, x.numpy())


class OfAnotherFramework:
    """An array that a kernel can borrow, and nothing here can copy."""

    __cuda_array_interface__ = {"shape": (2, 3), "typestr": "<f4", "data": (64, False), "version": 3, "strides": (4, 8)}


def test_arrays_on_devices_of_other_frameworks_stay() -> None:
    array = OfAnotherFramework()
    assert dense(array) is array
