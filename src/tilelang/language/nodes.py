"""Classes of what is no operator: elements, calls and functions, for `isinstance`.

Names for which this language has no value exist, too: nothing is one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.errors import StagingTypeError
from tilelang.ir.expr import Call as CallNode
from tilelang.ir.expr import Load, Var
from tilelang.ir.func import PrimFunc as Function
from tilelang.language.api import api
from tilelang.language.operator_classes import Kind
from tilelang.language.proxy import TileProxy
from tilelang.language.regions import as_buffer

__all__ = [
    "BufferLoad",
    "Call",
    "CommReducer",
    "IterVar",
    "PrimFunc",
    "Range",
    "Reduce",
    "SizeVar",
]


class BufferLoad(metaclass=Kind):
    """An element of a buffer: `T.BufferLoad(buffer, indices)`."""

    @staticmethod
    @api
    def _make(buffer: TileProxy, indices: Any, predicate: object = None, span: object = None) -> Any:
        del predicate, span
        as_buffer(buffer, "T.BufferLoad")
        return buffer[tuple(indices) if isinstance(indices, list | tuple) else indices]

    @staticmethod
    def _holds(value: object) -> bool:
        return isinstance(value, Load)


def _unavailable(name: str, about: str, holds: Callable[[object], bool] = lambda value: False) -> Any:
    def make(*args: object, **kwargs: object) -> Any:
        raise StagingTypeError(
            f"T.{name}: exists for isinstance and cannot be made", hint="write the operator or loop that you need"
        )

    members = {"__doc__": about, "__module__": __name__, "_make": staticmethod(make), "_holds": staticmethod(holds)}
    return Kind(name, (), members)


Call = _unavailable("Call", "Calls of functions of mathematics.", lambda value: isinstance(value, CallNode))
PrimFunc = _unavailable("PrimFunc", "What `@T.prim_func` gives.", lambda value: isinstance(value, Function))
SizeVar = _unavailable("SizeVar", "Variables of sizes.", lambda value: isinstance(value, Var) and value.index)
IterVar = _unavailable("IterVar", "No value of this language.")
Range = _unavailable("Range", "No value of this language.")
Reduce = _unavailable("Reduce", "No value of this language.")
CommReducer = _unavailable("CommReducer", "No value of this language.")
