"""The wrapper of all `T.` functions: a call with wrong arguments is the user's error, in terms of what the user wrote.

Takes a function of the language, gives the same function. Invariant: no Python error about operands of a wrong kind
reaches the user.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tilelang.api import Words, public
from tilelang.errors import StagingError, StagingTypeError, staging_error_kind
from tilelang.ir.expr import Expr

F = TypeVar("F", bound=Callable[..., Any])


def _does_not_take(what: str, arguments: str, form: str, error: Exception) -> StagingError:
    # What Python says of a wrong type is about our source; a ValueError may say what is wrong with the value.
    reason = f": {error}" if isinstance(error, ValueError | OverflowError) else ""
    return staging_error_kind(error)(f"{what}: does not take ({arguments}){reason}", hint=form)


def _is_expression(value: object) -> bool:
    return isinstance(value, Expr) or hasattr(value, "__tilelang_expr__")


LANGUAGE = Words(
    "T.",
    {"TensorType": "T.Tensor", "PointerType": "T.ptr", "dtype": "T.<dtype>", "_Dyn": "T.dyn", "_Axes": "T.axis"},
    StagingTypeError,
    _does_not_take,
    {"Expr": (_is_expression, "an expression")},
)


def api(function: F) -> F:
    """The function with missing, surplus, unknown and unfit arguments reported as a `StagingError` that shows its form.

    Works on the `__init__` of a class, too; the class is then what the message names. Of a class, its public methods
    are meant.
    """
    return public(function, LANGUAGE)
