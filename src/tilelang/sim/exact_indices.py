"""Whether index arithmetic, which is exact in the language, is exact in 64 bits.

Takes expressions and the largest magnitudes of their variables, gives yes only where no part can be larger than what
arrays of 64 bits hold.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, MutableMapping

from tilelang.ir.expr import Binary, Cast, Const, Expr, Load, Select, Unary, Var
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Bind, Stmt, Store
from tilelang.ir.visit import expressions, walk_expr

_LIMIT = 2**62


def exact_parts(stmt: Stmt) -> Iterator[tuple[Var | None, Expr]]:
    """The index arithmetic of a statement, with the variable that it is bound to, if any."""
    roots = expressions(stmt)
    if isinstance(stmt, Store):
        yield from ((None, index) for index in stmt.indices)
    for root in roots:
        for node in walk_expr(root):
            if isinstance(node, Load):
                yield from ((None, index) for index in node.indices)
            elif isinstance(node, Binary | Unary) and node.is_index:
                yield None, node
    if isinstance(stmt, Bind) and stmt.var.index:
        yield stmt.var, stmt.value


def are_exact(parts: Iterable[tuple[Var | None, Expr]], peaks: MutableMapping[Expr, int]) -> bool:
    """Whether no index arithmetic can leave 64 bits, given the largest magnitudes of what it is made of."""
    for var, expr in parts:
        peak = _peak(expr, peaks)
        if peak >= _LIMIT:
            return False
        if var is not None:
            peaks[var] = peak
    return True


def _peak(expr: Expr, peaks: MutableMapping[Expr, int]) -> int:
    """The largest magnitude of index arithmetic and of its parts."""
    known = peaks.get(expr)
    if known is not None:
        return known
    match expr:
        case Const(value=value):
            return abs(int(value))
        case Var() if expr.index:
            return _LIMIT
        case Binary(op=op, a=a, b=b) if expr.dtype.is_int and op in _PEAKS:
            x, y = _peak(a, peaks), _peak(b, peaks)
            return max(x, y, _PEAKS[op](x, y))
        case Unary(a=a) if expr.dtype.is_int:
            return _peak(a, peaks) + 1
        case Select(a=a, b=b) if expr.dtype.is_int:
            return max(_peak(a, peaks), _peak(b, peaks))
        case Cast(a=a) if expr.is_index:
            return _peak(a, peaks)
        case Load() | Var() | Cast() if expr.dtype.bits <= 32:
            return 1 << expr.dtype.bits
    return _LIMIT


_PEAKS: dict[BinaryOp, Callable[[int, int], int]] = {
    BinaryOp.ADD: operator.add,
    BinaryOp.SUB: operator.add,
    BinaryOp.MUL: operator.mul,
    BinaryOp.FLOORDIV: max,
    BinaryOp.FLOORMOD: max,
    BinaryOp.TRUNCDIV: max,
    BinaryOp.TRUNCMOD: max,
    BinaryOp.MIN: max,
    BinaryOp.MAX: max,
}
