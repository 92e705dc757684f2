"""Plain Python classes whose methods become parts of a kernel: `T.meta_class`, `T.inline`, `T.meta_var`.

An object of such a class lives while a kernel is staged; its fields may be buffers, expressions and mutable scalars.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, TypeVar

from tilelang.errors import StagingTypeError
from tilelang.ir.expr import Expr, as_expr
from tilelang.ir.stmt import Alloc
from tilelang.language.api import api
from tilelang.language.bindings import is_number
from tilelang.language.macro import Macro
from tilelang.language.stage import current, is_mutable

__all__ = [
    "inline",
    "meta_class",
    "meta_var",
]

Class = TypeVar("Class", bound=type)
Value = TypeVar("Value")


@api
def meta_class(cls: Class) -> Class:
    """A class whose objects hold parts of a kernel: `@T.meta_class`.

    Assigning a field that is a variable of `T.alloc_var` stores into the variable, in methods and outside. Methods that
    are marked `@T.inline` may use Python's `if`, `for` and `while` on values of the kernel; others are plain Python,
    which runs while the kernel is staged.

    Raises:
        StagingTypeError: What is decorated is no class.
    """
    if not isinstance(cls, type):
        raise StagingTypeError(f"@T.meta_class needs a class, got {type(cls).__name__}")
    plain: Callable[[Any, str, Any], None] = cls.__setattr__  # type: ignore[assignment]

    def assign(self: Any, name: str, value: Any) -> None:
        old = self.__dict__.get(name) if hasattr(self, "__dict__") else None
        if is_mutable(old) and (isinstance(value, Expr) or is_number(value)) and not _is_fresh(value):
            current(f"assigning the field '{name}'").assign_mutable(old, as_expr(value))  # type: ignore[arg-type]
        else:
            plain(self, name, value)

    cls.__setattr__ = assign  # type: ignore[method-assign,assignment]
    return cls


def _is_fresh(value: object) -> bool:
    """Whether a value is a variable that the present statement allocates."""
    statements = current("a field").statements
    last = statements[-1] if statements else None
    return is_mutable(value) and isinstance(last, Alloc) and last.buffer is value.buffer  # type: ignore[attr-defined]


@api
def inline(func: types.FunctionType) -> Macro:
    """A function or method whose body is recorded where a kernel calls it, as that of a `T.macro`.

    Raises:
        StagingError: What is decorated is no function; at a call, one from within itself or outside of a kernel.
    """
    return Macro(func)


@api
def meta_var(value: Value) -> Value:
    """The value itself: one that is known while the kernel is staged."""
    return value
