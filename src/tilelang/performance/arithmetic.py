"""Instructions that expressions take, as the vendor's compiler is expected to write them."""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var, int_const
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.visit import children
from tilelang.powers import is_power_of_two
from tilelang.records import record
from tilelang.targets.machine import Rates

_INTEGER_DIVISION = 8  # instructions of an integer division by what is no power of two
_UNKNOWN_FUNCTION = 8
_CONVERSION_LANES = 2  # narrow floats that an instruction makes of wide ones


@record
class Instructions:
    """Instructions of one thread.

    Attributes:
        ordinary: Those that need an issue slot only.
        special: Special functions.
        conversions: Conversions between floats.
    """

    ordinary: float = 0.0
    special: float = 0.0
    conversions: float = 0.0

    @property
    def issued(self) -> float:
        """All of them."""
        return self.ordinary + self.special + self.conversions


def instructions_of(expr: Expr, rates: Rates, *, fast_math: bool) -> Instructions:
    """The instructions of an expression, without the arithmetic of its subscripts, which is done ahead."""
    ordinary = special = conversions = 0.0
    for node in _data_nodes(expr):
        match node:
            case Call(callee=callee):
                name = f"__{callee.name}" if fast_math and f"__{callee.name}" in rates.functions else callee.name
                if name.startswith(("pack", "lane")):
                    continue
                more, of_unit = rates.functions.get(name, (_UNKNOWN_FUNCTION, 0))
                ordinary, special = ordinary + more, special + of_unit
            case Binary(op=BinaryOp.DIV, dtype=dtype) if dtype.is_float:
                more, of_unit = rates.functions["__divide" if fast_math else "divide"]
                ordinary, special = ordinary + more, special + of_unit
            case Binary(op=BinaryOp.FLOORDIV | BinaryOp.FLOORMOD | BinaryOp.TRUNCDIV | BinaryOp.TRUNCMOD, b=b):
                ordinary += 1 if _is_shift(b) else _INTEGER_DIVISION
            case Binary(op=BinaryOp.ADD | BinaryOp.SUB, a=a, b=b, dtype=dtype) if dtype.is_float:
                ordinary += 0 if any(isinstance(x, Binary) and x.op is BinaryOp.MUL for x in (a, b)) else 1  # fused
            case Cast(a=a, dtype=dtype):
                if dtype.is_float and a.dtype.bits > dtype.bits:
                    conversions += 1 / _CONVERSION_LANES
                elif dtype.is_float != a.dtype.is_float:
                    conversions += 1
                else:
                    ordinary += dtype.is_float
            case Binary() | Unary() | Select():
                ordinary += 1
    return Instructions(ordinary, special, conversions)


def _data_nodes(expr: Expr) -> Iterator[Expr]:
    """The nodes that compute data."""
    if isinstance(expr, Const | Var | Load) or expr.is_index:
        return
    yield expr
    for child in children(expr):
        yield from _data_nodes(child)


def _is_shift(divisor: Expr) -> bool:
    value = int_const(divisor)
    return value is not None and is_power_of_two(value)
