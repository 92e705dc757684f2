"""The work of statements that threads execute, by throughput: several warps hide the latency of their arithmetic.

Takes a tile-level statement, gives the instructions of all threads together, or `Work` in cycles of one multiprocessor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Binary, Call, Cast, Expr, Load, Select, Unary, int_const
from tilelang.ir.stmt import Atomic, Bind, For, If, ParallelLoop, Seq, Stmt, Store, TileOp
from tilelang.ir.visit import children, expressions, sub_statements, walk_expr
from tilelang.ops.any_exceeds import AnyExceeds
from tilelang.ops.gemm import Gemm
from tilelang.schedule.iteration import trip_count
from tilelang.schedule.loop_graph import Work
from tilelang.targets.gpu.lowerings.warp_votes import condition_axes
from tilelang.targets.machine import Rates

COPY_WORK = Work(0, prefetched=True)
"""The work of a copy that runs ahead: it takes cycles of no unit that others use."""

_DEFAULT_TRIPS = 4  # iterations of a loop whose trip count is unknown


def statement_work(stmt: Stmt, rates: Rates) -> Work:
    """The work of a statement on a machine with these rates, whose warps wait for the gemms that they do."""
    reached = max(rates.matrix * rates.matrix_by_warp / 2, rates.lanes)  # products per cycle
    return work_of_threads(stmt, rates, lambda gemm: products(gemm) / reached)


def work_of_threads(stmt: Stmt, rates: Rates, cycles_of: Callable[[Gemm], float]) -> Work:
    """The work of a statement on a machine with these rates, of which a gemm takes `cycles_of(gemm)` cycles."""
    special = rates.lanes / rates.special
    count = instructions(stmt, lambda gemm: cycles_of(gemm) * rates.lanes, special)
    return Work(max(1, math.ceil(count / rates.lanes)))


def products(gemm: Gemm) -> int:
    """The products of a gemm, counted as such of 16-bit operands."""
    m, n, k = (int_const(size) or 0 for size in gemm.sizes)
    return m * n * k * gemm.operands[0].bits // 16


def instructions(stmt: Stmt, of_gemm: Callable[[Gemm], float], special: float) -> float:
    """Instructions of all threads together.

    Args:
        stmt: The statement.
        of_gemm: As many as take the time of a gemm.
        special: As many as take the time of a special function.
    """

    def inside(each: Stmt) -> float:
        return instructions(each, of_gemm, special)

    def arithmetic(node: Expr) -> float:
        if isinstance(node, Call):
            return special
        return int(isinstance(node, Binary | Unary | Cast | Select))

    match stmt:
        case ParallelLoop(body=If(condition=condition)) if axes := condition_axes(stmt):
            # the test alone: what warps may skip is written for rows that are rare
            rows = math.prod(int_const(stmt.extents[axis]) or 1 for axis in axes)
            return rows * sum(map(arithmetic, walk_expr(condition)))
        case ParallelLoop():
            times = math.prod(int_const(extent) or 1 for extent in stmt.extents)
            return times * inside(stmt.body)
        case For():
            return (int_const(trip_count(stmt)) or _DEFAULT_TRIPS) * inside(stmt.body)
        case Gemm():
            return of_gemm(stmt)
        case AnyExceeds(tile=tile):
            return _elements(tile)  # not for what has to be complete
        case TileOp():
            return sum(map(_elements, (*stmt.reads(), *stmt.writes())))
        case Seq():
            return sum(map(inside, stmt.body))
    own = sum(map(arithmetic, _nodes(stmt))) + isinstance(stmt, Store | Atomic | Bind)
    return own + sum(map(inside, sub_statements(stmt)))


def _nodes(stmt: Stmt) -> Iterator[Expr]:
    """What is computed at run time: not the indices of registers."""
    to_registers = isinstance(stmt, Store) and stmt.buffer.scope is Scope.FRAGMENT
    stack = [stmt.value] if isinstance(stmt, Store) and to_registers else [*expressions(stmt)]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, Load) or node.buffer.scope is not Scope.FRAGMENT:
            stack += children(node)


def _elements(region: Region) -> int:
    return math.prod(region.static_extent or (1,))
