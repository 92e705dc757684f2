"""Selects of which both values should be computed, since a compiler would branch around one of them."""

from __future__ import annotations

from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Binary, Call, Cast, Expr, Load
from tilelang.ir.visit import loads_of, walk_expr

_REGISTERS = (Scope.LOCAL, Scope.VAR)


def better_both(a: Expr, b: Expr) -> bool:
    """Whether both values of a select should be evaluated: they access registers only, and one is expensive."""
    return is_expensive(a, b) and not memory_loads(a, b)


def is_expensive(a: Expr, b: Expr) -> bool:
    """Whether one of the values of a select takes more than a move."""
    nodes = (node for arm in (a, b) for node in walk_expr(arm))
    return any(isinstance(n, Call) or isinstance(n, Binary | Cast) and n.dtype.is_float for n in nodes)


def memory_loads(a: Expr, b: Expr) -> list[Load]:
    """The loads of the values of a select from memory that is no register."""
    return [load for arm in (a, b) for load in loads_of(arm) if load.buffer.scope not in _REGISTERS]
