"""The stride of an access with respect to a loop variable, in elements."""

from __future__ import annotations

from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Binary, Cast, Expr, Unary, Var, int_const
from tilelang.ir.scalar import BinaryOp, UnaryOp
from tilelang.ir.visit import walk_expr


def coefficient(expr: Expr, var: Var) -> int | None:
    """The coefficient of a variable in an index expression; None if the expression is not linear in it."""
    match expr:
        case Var():
            return 1 if expr is var else 0
        case Binary(op=BinaryOp.ADD | BinaryOp.SUB as op, a=a, b=b):
            x, y = coefficient(a, var), coefficient(b, var)
            return None if x is None or y is None else x + y if op is BinaryOp.ADD else x - y
        case Binary(op=BinaryOp.MUL, a=a, b=b):
            x, y = coefficient(a, var), coefficient(b, var)
            if x == y == 0:
                return 0
            p, q = int_const(a), int_const(b)
            if q is not None and x is not None:
                return x * q
            return p * y if p is not None and y is not None else None
        case Unary(op=UnaryOp.NEG, a=a):
            x = coefficient(a, var)
            return None if x is None else -x
        case Cast(a=a) if expr.is_index:
            return coefficient(a, var)
    return None if any(e is var for e in walk_expr(expr)) else 0


def stride_along(buffer: Buffer, indices: tuple[Expr, ...], var: Var) -> int | None:
    """The stride of an access per increment of a variable, in elements; None if it is not a known constant."""
    factors = [coefficient(index, var) for index in indices]
    known_factors = tuple(factor for factor in factors if factor is not None)
    return distance(buffer, known_factors) if len(known_factors) == len(factors) else None


def distance(buffer: Buffer, steps: tuple[int, ...]) -> int | None:
    """The offset difference in elements when the indices increase by `steps`; None if it is not a known constant."""
    total = 0
    stride: int | None = 1
    for axis in reversed(range(len(steps))):
        if steps[axis]:
            own = stride if buffer.strides is None else int_const(buffer.strides[axis])
            if own is None:
                return None
            total += steps[axis] * own
        extent = int_const(buffer.shape[axis])
        stride = None if stride is None or extent is None else stride * extent
    return total
