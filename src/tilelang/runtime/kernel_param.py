"""`KernelParam`: the dtype and extents of a parameter, with symbols for symbolic extents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilelang.api import public
from tilelang.dtypes import DType, as_dtype
from tilelang.ir.expr import Const, int_const
from tilelang.ir.func import Param, TensorParam


@public
class KernelParam:
    """The description of one parameter.

    Args:
        dtype: The element dtype, in any spelling.
        shape: The extents: ints, and expressions where they are symbolic; empty for scalars.
        name: The parameter's name.

    Raises:
        OptionError: The dtype is unknown.
    """

    def __init__(self, dtype: Any, shape: Sequence[Any] = (), name: str = "") -> None:
        self.dtype: DType = as_dtype(dtype)
        self.shape: list[Any] = list(shape)
        self.name = name

    @classmethod
    def of(cls, param: Param) -> KernelParam:
        """The description of a parameter of a program."""
        extents = param.shape if isinstance(param, TensorParam) else ()
        return cls(param.dtype, [int_const(e) if isinstance(e, Const) else e for e in extents], param.name)

    def is_scalar(self) -> bool:
        """Whether it has no extents."""
        return not self.shape

    def is_unsigned(self) -> bool:
        """Whether elements are unsigned integers."""
        return str(self.dtype).startswith("uint")

    def is_float8(self) -> bool:
        """Whether elements are floats of 8 bits."""
        return self.dtype.is_float and self.dtype.bits == 8

    def is_float4(self) -> bool:
        """Whether elements are floats of 4 bits."""
        return self.dtype.is_float and self.dtype.bits == 4

    def is_boolean(self) -> bool:
        """Whether elements are bool."""
        return self.dtype.is_bool

    def torch_dtype(self) -> object:
        """The torch dtype of the elements; imports torch.

        Raises:
            ValueError: torch has no such dtype.
        """
        return self.dtype.as_torch()

    def tilelang_dtype(self) -> DType:
        """The dtype."""
        return self.dtype

    def __repr__(self) -> str:
        return f"KernelParam(dtype={str(self.dtype)!r}, shape={self.shape}, name={self.name!r})"
