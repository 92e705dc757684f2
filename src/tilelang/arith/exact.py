"""Exact integers: data in index arithmetic is computed in 64 bits, and does not wrap.

Takes expressions, gives expressions of the same value if nothing wraps.
"""

from __future__ import annotations

from tilelang.dtypes import INT64
from tilelang.errors import Loc
from tilelang.ir.expr import Binary, Cast, Expr, Select, Unary, Var, binary, cast, select, unary
from tilelang.ir.scalar import COMPARISONS, CONJUNCTIONS, DISJUNCTIONS, BinaryOp, UnaryOp
from tilelang.ir.stmt import Bind

_ON_TRUTHS = {**dict.fromkeys(CONJUNCTIONS, BinaryOp.AND), **dict.fromkeys(DISJUNCTIONS, BinaryOp.OR)}


def exact(index: Expr) -> Expr:
    """An index expression with data converted so that its arithmetic is exact."""
    if index.is_index:
        return index
    match index:
        case Binary(op=op, a=a, b=b) if a.dtype.is_int and b.dtype.is_int:
            return binary(op, exact(a), exact(b))
        case Unary(op=op, a=a) if a.dtype.is_int:
            return unary(op, exact(a))
        case Select(condition=condition, a=a, b=b):
            return select(condition, exact(a), exact(b))
        case Cast(a=a, dtype=dtype) if a.dtype.is_int:
            return cast(cast(exact(a), dtype), INT64)
    return cast(index, INT64)


def bind_exact(name: str, index: Expr, loc: Loc) -> Bind:
    """Binds an integer to a new index variable, which has the dtype in which it is exact: no data, so nothing wraps."""
    value = exact(index)
    return Bind(Var(name, value.dtype, index=True), value, loc=loc)


def exactly(condition: Expr) -> Expr:
    """A condition with exact comparison of integers of any width."""
    match condition:
        case Binary(op=op, a=a, b=b, dtype=dtype) if (logical := _ON_TRUTHS.get(op)) is not None and dtype.is_bool:
            return binary(logical, exactly(a), exactly(b))
        case Unary(op=UnaryOp.NOT, a=a):
            return unary(UnaryOp.NOT, exactly(a))
        case Binary(op=op, a=a, b=b) if op in COMPARISONS and a.dtype.is_int and a.dtype.lanes == 1:
            return condition if a.is_index and b.is_index else binary(op, exact(a), exact(b))
    return condition
