"""Packs casts of neighboring registers into vector casts where one instruction converts two elements.

Takes unrolled loops whose last statement stores a cast into neighboring registers, and gives a loop that stores the
operands of the casts, followed by vector casts:

    for u in unroll(4):                       for u in unroll(4): q_lanes[u] = y[v * 4 + u] / s[v]
        q[v * 4 + u] = float8(y[...] / s)  => q[v * 4 : v * 4 + 4] = float8x4(q_lanes[0:4])

The assembler joins casts to 16 bits by itself. Those to operands of wgmma, which are many, are packed here as well, so
that there are fewer statements to compile.

Invariant: the same values in the same registers; nothing else in the loop accesses the destination.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Set

from tilelang.analysis.access_width import Facts, vector_width
from tilelang.arith.domain import Domain
from tilelang.dtypes import INT32, DType, as_dtype
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Cast, Load, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import Alloc, Bind, CallStmt, For, ForKind, Seq, Stmt, Store
from tilelang.ir.visit import Rewriter, expressions, substitute, walk, walk_expr
from tilelang.isa.instruction import Instruction
from tilelang.layout.shared_memory import MAX_VECTOR_BYTES
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property
from tilelang.targets.nvidia.isa.async_units import WGMMA
from tilelang.targets.nvidia.isa.convert import casts_pairs


class _PackCasts(Rewriter):
    def __init__(self, operands: Set[Buffer]) -> None:
        self._operands = operands

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, For) and node.kind is ForKind.UNROLLED:
            return _packed(node, self._operands) or self.rebuild_stmt(node)
        return self.rebuild_stmt(node)


def _packed(loop: For, operands: Set[Buffer]) -> Stmt | None:
    """The loop without its casts, and the vector casts after it; None where it has no such casts.

    Args:
        loop: The loop.
        operands: Registers that wgmma multiplies.
    """
    parts = statements_of(loop.body)
    if not parts:
        return None
    *before, store = parts
    trip_count = int_const(loop.stop)
    if not isinstance(store, Store) or not isinstance(store.value, Cast) or trip_count is None:
        return None
    if int_const(loop.start) != 0 or loop.step != 1 or not all(isinstance(s, Bind) for s in before):
        return None
    target, source = store.buffer, store.value.a.dtype
    if target.scope is not Scope.LOCAL or not casts_pairs(source, target.dtype):
        return None
    if target.dtype.bits > 8 and target not in operands:
        return None
    inside = (e for stmt in (*before, store) for value in expressions(stmt) for e in walk_expr(value))
    if any(isinstance(e, Load) and e.buffer.storage is target.storage for e in inside):
        return None
    neighbors = vector_width(target, store.indices, loop.var, trip_count, Domain(), Facts())
    lanes = min(neighbors, MAX_VECTOR_BYTES // source.storage_bytes)
    if lanes == 1:
        return None
    values = Buffer(f"{target.name}_lanes", (const(trip_count, INT32),), source, Scope.LOCAL)
    body = Seq((*before, Store(values, (loop.var,), store.value.a, loc=store.loc)), loc=loop.loc)
    casts = []
    for first in range(0, trip_count, lanes):
        value = Cast(Load(values, (const(first, INT32),), _vector(source, lanes)), _vector(target.dtype, lanes))
        at = tuple(substitute(index, {loop.var: const(first, INT32)}) for index in store.indices)
        casts.append(Store(target, at, value, loc=store.loc))
    return Seq((Alloc(values, loc=loop.loc), dataclasses.replace(loop, body=body), *casts), loc=loop.loc)


def _vector(dtype: DType, lanes: int) -> DType:
    return as_dtype(f"{dtype!s}x{lanes}")


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_body(func, _PackCasts(set(_wgmma_operands(func.body))).visit(func.body))


def _wgmma_operands(body: Stmt) -> Iterator[Buffer]:
    for stmt in walk(body):
        if isinstance(stmt, CallStmt) and isinstance(stmt.routine, Instruction) and stmt.routine.async_unit is WGMMA:
            yield from (part.buffer for part in stmt.args if isinstance(part, Region))


PASS = Pass(
    "pack_casts", _run, Level.THREAD, Level.THREAD,
    requires=(Property.ACCESSES_VECTORIZED, Property.ACCESSES_UNPREDICATED),
)
