"""Classes of the language: for `isinstance`, and for the annotations of macros.

`T.Var` and `T.PrimExpr` say what a value is; `T.Ref` and the kinds of buffers say what a macro takes.
"""

from __future__ import annotations

from typing import Any

from tilelang.ir.expr import Expr, Load
from tilelang.ir.expr import Var as Variable
from tilelang.language.api import api
from tilelang.language.types import DTypeLike, TensorType, plain_dtype

__all__ = [
    "FragmentBuffer",
    "LocalBuffer",
    "PrimExpr",
    "Ref",
    "SharedBuffer",
    "Var",
]

PrimExpr = Expr  # of every scalar that is known only when the kernel runs, and of vectors of them


class _Variables(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Variable)


class Var(metaclass=_Variables):
    """A variable: of a dimension, a loop, a block index or a parameter, for `isinstance(x, T.Var)`.

    Calling it makes one of its own, for index functions of layouts and the like: `T.Var("i", "int32")`. As the
    annotation of a macro's parameter it is a deprecated name of `T.Ref`.

    Raises:
        OptionError: The dtype is unknown.
    """

    @api
    def __new__(cls, name: str = "v", dtype: DTypeLike = "int32") -> Any:
        """A new variable."""
        row = plain_dtype(dtype, "T.Var")
        return Variable(name, row, index=row.is_int)


class _References(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Load)


class Ref(metaclass=_References):
    """The annotation of a macro's parameter that is passed by reference: `def step(x: T.Ref): x += 1`.

    The argument is a variable of `T.alloc_var` or an element of a buffer; assigning the parameter changes it. The
    indices of an element are evaluated at the call.
    """

    @api
    def __init__(self) -> None:
        pass


class SharedBuffer(TensorType):
    """The annotation of a macro's parameter that is a buffer in shared memory; shape and dtype are documentation."""


class FragmentBuffer(TensorType):
    """The annotation of a macro's parameter that is a fragment; shape and dtype are documentation."""


class LocalBuffer(TensorType):
    """The annotation of a macro's parameter that is a local buffer; shape and dtype are documentation."""
