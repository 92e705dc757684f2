import numpy as np
import pytest

from tilelang.errors import ArgumentError
from tilelang.profile.compare import as_float64, assert_close


def test_equal_arrays_agree_nan_and_infinity_included() -> None:
    a = np.array([1, np.nan, np.inf], np.float32)
    assert_close(a, a.copy(), 0, 0)


def test_the_worst_element_is_named() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_close(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 2.5], [9.0, 4.0]]), 0, 0.1)
    assert (
        "2 of 4 elements differ (50.00%) with rtol=0, atol=0.1; the worst is at (1, 0): actual 3.0, expected 9.0"
    ) == str(caught.value)


def test_a_share_of_elements_may_differ() -> None:
    a, b = np.zeros(100), np.zeros(100)
    b[3] = 1
    assert_close(a, b, max_mismatched_ratio=0.01)
    with pytest.raises(AssertionError):
        assert_close(a, b, max_mismatched_ratio=0.009)


def test_nan_is_the_worst() -> None:
    with pytest.raises(AssertionError, match=r"the worst is at \(0,\): actual nan, expected 1.0"):
        assert_close(np.array([np.nan, 5.0]), np.array([1.0, 1.0]))


def test_shapes_must_agree() -> None:
    with pytest.raises(AssertionError, match=r"actual has shape \(2,\), expected has shape \(1, 2\)"):
        assert_close(np.zeros(2), np.zeros((1, 2)))


def test_empty_arrays_agree() -> None:
    assert_close(np.zeros((0, 3)), np.zeros((0, 3)))


def test_tensors_of_any_dtype_are_compared() -> None:
    torch = pytest.importorskip("torch")
    assert_close(torch.ones(3).bfloat16(), np.ones(3), 0, 0)


def test_arrays_elsewhere_cannot_be_compared() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(ArgumentError, match=r"cannot compare an array of dtype torch.float32 on device meta"):
        as_float64(torch.zeros(3, device="meta"))


def test_device_arrays_are_copied_to_the_host() -> None:
    class OnDevice:
        __cuda_array_interface__ = {"typestr": "<f4", "shape": (3,), "data": (4096, False), "version": 3}

        def get(self) -> np.ndarray:
            return np.arange(3, dtype=np.float32)

    assert [0.0, 1.0, 2.0] == as_float64(OnDevice()).tolist()
