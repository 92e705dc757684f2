"""Loads elements of shared memory before a select of which both values are better computed.

    x[i] = A[i] * exp(y[i]) if i > k else 0    =>    A_element = A[i]
                                                     x[i] = A_element * exp(y[i]) if i > k else 0

A compiler branches around a load that need not happen, and in each of many iterations threads would wait for it.

Takes a thread-level function before barriers are inserted, which then order these loads as well. Invariant: a load that
the select would not do is in bounds, and not of the tile that the statement stores to, as other threads may at the same
time; what it gives is not used, so it may be undefined.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilelang.analysis.bounds_checks import bounds_checks
from tilelang.analysis.selects import is_expensive, memory_loads
from tilelang.arith.domain import Domain, of_function, visit_in_order, visit_inside
from tilelang.dtypes import FLOAT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import ExprKey, expr_key
from tilelang.ir.expr import Expr, Load, Select
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Alloc, Launch, Seq, Stmt, Store
from tilelang.ir.visit import Rewriter, walk_expr
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_body(func, _stmt(func.body, of_function(func)))


def _stmt(node: Stmt, domain: Domain) -> Stmt:
    match node:
        case Launch(thread=thread) if thread is not None:
            domain = domain.with_range(thread, 0, node.num_threads - 1)
        case Seq():
            return visit_in_order(node, domain, _stmt)
        case Store():
            return _store(node, domain)
    return visit_inside(node, domain, _stmt)


def _store(node: Store, domain: Domain) -> Stmt:
    """A store after the loads of its value that may come early."""
    early = (load for load in _early(node.value, domain) if load.buffer.storage is not node.buffer.storage)
    loads = {expr_key(load): load for load in early}
    if not loads:
        return node
    held = {key: Buffer(f"{load.buffer.name}_element", (), load.dtype, Scope.VAR) for key, load in loads.items()}
    before = [Alloc(held[key], load, loc=node.loc) for key, load in loads.items()]
    return Seq((*before, _Replace(held).visit(node) or node), loc=node.loc)


def _early(value: Expr, domain: Domain) -> Iterator[Load]:
    """The loads of selects in a value, of each all or none."""
    for select in walk_expr(value):
        if not isinstance(select, Select) or not select.dtype.is_float or select.dtype.bits > FLOAT32.bits:
            continue
        loads = memory_loads(select.a, select.b)
        if is_expensive(select.a, select.b) and all(_is_harmless(load, domain) for load in loads):
            yield from loads


def _is_harmless(load: Load, domain: Domain) -> bool:
    """Whether a load is in bounds of shared memory wherever the statement is executed."""
    return load.buffer.scope is Scope.SHARED and bounds_checks(load.buffer, load.indices, domain) == []


class _Replace(Rewriter):
    def __init__(self, held: Mapping[ExprKey, Buffer]) -> None:
        self._held = held

    def expr(self, node: Expr) -> Expr:
        held = self._held.get(expr_key(node)) if isinstance(node, Load) else None
        return self.rebuild_expr(node) if held is None else Load(held, (), held.dtype)


PASS = Pass(
    "speculate_loads", _run, Level.THREAD, Level.THREAD,
    requires=(Property.LOGICAL_INDICES,),
)
