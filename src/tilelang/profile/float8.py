"""Tensors of 8-bit floats in torch and NumPy."""

from __future__ import annotations

from typing import Any

from tilelang.api import public
from tilelang.dtypes import as_dtype
from tilelang.errors import ArgumentError, OptionError
from tilelang.runtime.arrays import is_torch_tensor

_NEGATIVE_ZERO = 0x80
_SIGNED_ZEROS = ("float8_e4m3fn", "float8_e5m2")  # the others have no zero, or another meaning for that byte


@public
def is_float8_dtype(dtype: Any) -> bool:
    """Whether a dtype of any framework is an 8-bit float."""
    try:
        row = as_dtype(dtype)
    except OptionError:
        return False
    return row.is_float and row.bits == 8


@public
def fp8_remove_negative_zeros_(tensor: Any) -> Any:
    """Replaces -0 by +0 in place, so that results can be compared byte by byte.

    Args:
        tensor: A torch tensor or NumPy array.

    Returns:
        The same tensor.

    Raises:
        ArgumentError: It has no float dtype of 8 bits.
    """
    if not is_float8_dtype(getattr(tensor, "dtype", None)):
        raise ArgumentError(f"fp8_remove_negative_zeros_: expected a tensor of float8, got {tensor!r:.60}")
    if str(as_dtype(tensor.dtype)) in _SIGNED_ZEROS:
        codes = tensor.view(_byte(tensor))
        codes[codes == _NEGATIVE_ZERO] = 0
    return tensor


def _byte(tensor: Any) -> Any:
    """The dtype of single bytes in the tensor's framework."""
    if is_torch_tensor(tensor):
        import torch  # noqa: PLC0415  the tensor is torch's

        return torch.uint8
    return "uint8"
