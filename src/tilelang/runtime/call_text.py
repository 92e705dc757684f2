"""What the written short ways of calls share, on the host and on devices.

Takes a `Signature` or a dtype, gives pieces of Python text and facts about parameters. Invariant: a test that a value
passes is one that the long way would let pass with the same value.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, Final

from tilelang.dtypes import DType
from tilelang.ir.expr import Expr
from tilelang.ir.func import TensorParam
from tilelang.runtime.parameters import Signature
from tilelang.runtime.variants import ALIGNMENT_BYTES


class NoShortWay(Exception):
    """The signature has something that only the long way knows."""


MISSED: Final = object()  # the result of an attempt that did not recognize the arguments; nothing has run


def missed(args: Any) -> Any:
    """The long way of an attempt: none."""
    del args
    return MISSED


def attempt_of(call: Callable[..., Any]) -> Callable[..., Any]:
    """The written short way `call`, but with the result `MISSED` where that would go the long way."""
    assert isinstance(call, FunctionType)
    return FunctionType(call.__code__, {**call.__globals__, "long_way": missed}, call.__name__)


def declared_strides(signature: Signature, index: int) -> tuple[Expr, ...]:
    """The declared strides of a parameter; none for a dense one."""
    param = signature.params[index]
    return param.buffer.strides or () if isinstance(param, TensorParam) else ()


def address_test(name: str) -> str:
    """The test whether a value is an address that programs may rely on."""
    return f"type({name}) is int and {name} > 0 and not {name} & {ALIGNMENT_BYTES - 1}"


def scalar_test(name: str, dtype: DType, float_limit: float | None = None) -> str:
    """The test whether a value may be handed on as a scalar of a dtype.

    Args:
        name: Of the value in the text.
        dtype: Of the parameter.
        float_limit: Below it a number must be to be a float of less than 64 bits; None for any.
    """
    if dtype.is_float:
        if float_limit is None or dtype.bits == 64:
            return f"type({name}) is float"
        return f"type({name}) is float and {-float_limit!r} < {name} < {float_limit!r}"
    if dtype.is_bool:
        return f"type({name}) is bool"
    low, high = dtype.limits
    return f"type({name}) is int and {low} <= {name} <= {high}"
