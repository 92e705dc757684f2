"""Multiplies and adds two registers at a time, where other operations follow on each: `v_pk_fma_f32`.

    for u in unroll(8):                     for u in unroll(4):
        x[u] = exp2(x[u] * a - b)     =>        pair[0:2] = x[u * 2 : u * 2 + 2] * a + (-b)
                                                x[u * 2] = exp2(pair[0])
                                                x[u * 2 + 1] = exp2(pair[1])

Compilers do so for themselves where whole vectors are computed, not where functions of single numbers follow; they part
the pairs again where matrix instructions run meanwhile, beside which such instructions cannot. Takes a thread-level
function. Invariant: the same operations on the same values, but for a product that may be rounded together
with the sum, as it may be without the pass; nothing but the element itself is read of what an iteration stores.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tilelang.analysis.strides import stride_along
from tilelang.analysis.unrolled_loops import is_unrolled
from tilelang.dtypes import FLOAT32, INT32
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.compare import expr_key
from tilelang.ir.expr import Binary, Expr, Load, Var, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Alloc, CallStmt, For, Launch, Seq, Stmt, Store
from tilelang.ir.visit import Rewriter, loads_of, substitute, variables_of, walk_expr
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.records import record
from tilelang.targets.amd.isa.packed_math import MULTIPLY_ADD_PAIR, PAIR
from tilelang.targets.amd.machines import Feature


@record
class _Product:
    """A register times a factor, plus an addend, in a loop in which these are the same.

    Attributes:
        whole: The expression.
        load: The register.
        factor: What it is multiplied by.
        addend: What is added.
    """

    whole: Expr
    load: Load
    factor: Expr
    addend: Expr


def _product(store: Store, var: Var) -> _Product | None:
    """The product within what a loop over `var` stores; None if there is none, or if it is all that is stored."""
    for expr in walk_expr(store.value):
        if expr is not store.value and isinstance(expr, Binary) and expr.dtype == FLOAT32:
            found = _of_binary(expr, store, var)
            if found is not None:
                return found
    return None


def _of_binary(expr: Binary, store: Store, var: Var) -> _Product | None:
    if expr.op not in (BinaryOp.ADD, BinaryOp.SUB):
        return None
    subtracts = expr.op is BinaryOp.SUB
    for product, other, is_first in ((expr.a, expr.b, True), (expr.b, expr.a, False)):
        if not isinstance(product, Binary) or product.op is not BinaryOp.MUL or not _is_same(other, store, var):
            continue
        for load, factor in ((product.a, product.b), (product.b, product.a)):
            if isinstance(load, Load) and _is_neighbor(load, var) and _is_same(factor, store, var):
                negated = subtracts and not is_first
                addend = -other if subtracts and is_first else other
                return _Product(expr, load, -factor if negated else factor, addend)
    return None


def _is_neighbor(load: Load, var: Var) -> bool:
    """Whether a loop over `var` reads one register after another."""
    in_registers = load.buffer.scope is Scope.LOCAL and load.dtype == FLOAT32
    return in_registers and stride_along(load.buffer, load.indices, var) == 1


def _is_same(expr: Expr, store: Store, var: Var) -> bool:
    """Whether an expression has one value in a loop over `var` of a store."""
    is_stored = any(load.buffer.storage is store.buffer.storage for load in loads_of(expr))
    return expr.dtype == FLOAT32 and var not in variables_of(expr) and not is_stored


def _reads_only_itself(store: Store) -> bool:
    """Whether a store reads nothing of its buffer but the element that it overwrites."""
    own = [load for load in loads_of(store.value) if load.buffer.storage is store.buffer.storage]
    return all(load.buffer is store.buffer and tuple(map(expr_key, load.indices)) == tuple(map(expr_key, store.indices))
               for load in own)  # fmt: skip


class _Replace(Rewriter):
    """Replaces one expression."""

    def __init__(self, old: Expr, new: Expr) -> None:
        self._old, self._new = old, new

    def expr(self, node: Expr) -> Expr:
        return self._new if node is self._old else self.rebuild_expr(node)


class _Pair(Rewriter):
    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, For) and isinstance(node.body, Store):
            return _paired(node, node.body) or self.rebuild_stmt(node)
        return self.rebuild_stmt(node)


def _paired(loop: For, store: Store) -> Stmt | None:
    """The loop with two iterations as one; None if their products are not computed together."""
    count = int_const(loop.stop)
    if not is_unrolled(loop) or int_const(loop.start) != 0 or loop.step != 1 or count is None or count % PAIR:
        return None
    if store.buffer.scope is not Scope.LOCAL:
        return None
    found = _product(store, loop.var) if _reads_only_itself(store) else None
    if found is None:
        return None
    pair = Buffer(f"{found.load.buffer.name}_pair", (const(PAIR, INT32),), FLOAT32, Scope.LOCAL)
    var = Var(loop.var.name, INT32, index=True)

    def at(place: int) -> Callable[[Expr], Expr]:
        return lambda expr: substitute(expr, {loop.var: var * PAIR + place})

    def region(buffer: Buffer, start: tuple[Expr, ...]) -> Region:
        ones = (const(1, INT32),) * (len(start) - 1)
        return Region(buffer, start, (*ones, const(PAIR, INT32)))

    made = region(pair, (const(0, INT32),))
    source = region(found.load.buffer, tuple(map(at(0), found.load.indices)))
    call = CallStmt(
        MULTIPLY_ADD_PAIR, (made, source, found.factor, found.addend), (source,), (made,), loc=store.loc
    )
    stores = []
    for place in range(PAIR):
        value = _Replace(found.whole, Load(pair, (const(place, INT32),), FLOAT32)).expr(store.value)
        indices = tuple(map(at(place), store.indices))
        stores.append(Store(store.buffer, indices, at(place)(value), loc=store.loc))
    body = Seq((Alloc(pair, loc=loop.loc), call, *stores), loc=loop.body.loc)
    return dataclasses.replace(loop, var=var, stop=const(count // PAIR, INT32), body=body)


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    if not context.target.has(Feature.PACKED_FLOAT32):
        return func

    def run(launch: Launch) -> Launch:
        return dataclasses.replace(launch, body=_Pair().visit(launch.body) or launch.body)

    return with_launches(func, run)


PASS = Pass("pair_products", _run, Level.THREAD, Level.THREAD)
