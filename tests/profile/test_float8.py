import ml_dtypes
import numpy as np
import pytest

from tilelang.errors import ArgumentError
from tilelang.utils.tensor import fp8_remove_negative_zeros_, is_float8_dtype


def test_floats_of_8_bits_are_known() -> None:
    assert is_float8_dtype(ml_dtypes.float8_e4m3fn)
    assert is_float8_dtype("float8_e5m2")
    assert not is_float8_dtype(np.uint8)
    assert not is_float8_dtype(None)


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_negative_zeros_become_positive_in_place(dtype: type) -> None:
    codes = np.arange(256, dtype=np.uint8)
    array = codes.view(dtype).copy()
    assert array is fp8_remove_negative_zeros_(array)
    expected = codes.copy()
    expected[0x80] = 0
    assert expected.tolist() == array.view(np.uint8).tolist()


def test_other_codes_are_unchanged() -> None:
    array = np.array([0x80], np.uint8).view(ml_dtypes.float8_e4m3fnuz)  # the one NaN
    assert [0x80] == fp8_remove_negative_zeros_(array).view(np.uint8).tolist()


def test_tensors_of_torch_are_changed_as_well() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.tensor([[-0.0, 1.0], [-2.0, -0.0]]).to(torch.float8_e4m3fn)
    fp8_remove_negative_zeros_(tensor.t())
    assert [[0, 0x38], [0xC0, 0]] == tensor.view(torch.uint8).tolist()
    assert is_float8_dtype(tensor.dtype)


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(ArgumentError, match="expected a tensor of float8"):
        fp8_remove_negative_zeros_(np.zeros(3, np.float32))
