"""Turns conditional assignments of a constant in parallel loops into reductions (any-of): `if a[i] != 1: changed = 1`.

Takes a tile-level function. Where iterations of a `T.Parallel` loop conditionally assign one constant to a scalar from
outside of it, and the loop does not read the scalar, the loop computes by OR whether any iteration would assign it, and
the assignment happens after the loop. An OR is an associative update, so the loop can be distributed. Invariant: the
scalar has the same value after the loop as in sequential execution.
"""

from __future__ import annotations

import dataclasses

from tilelang.analysis.accesses import Access, accesses
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.compare import same_expr
from tilelang.ir.expr import Const, Load, binary, const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Alloc, If, ParallelLoop, Seq, Stmt, Store
from tilelang.ir.visit import Rewriter, walk
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    if not any(isinstance(stmt, ParallelLoop) for stmt in walk(func.body)):
        return func
    return with_body(func, _Loops().visit(func.body) or func.body)


class _Loops(Rewriter):
    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, ParallelLoop):
            return self.rebuild_stmt(node)
        found = accesses(node.body)
        values: dict[Buffer, Const] = {}
        for storage, storage_accesses in found.by_storage().items():
            value = None if storage in found.local else _conditional_constant(storage, storage_accesses)
            if value is not None:
                values[storage] = value
        if not values:
            return node
        flags = {b: dataclasses.replace(b, name=f"{b.name}_is_set", dtype=INT32) for b in values}
        loop = _SetFlags(flags).visit(node)
        assert loop is not None
        statements: list[Stmt] = [Alloc(flag, const(0, INT32), loc=node.loc) for flag in flags.values()]
        statements.append(loop)
        for buffer, flag in flags.items():
            is_set = binary(BinaryOp.NE, Load(flag, (), INT32), const(0, INT32))
            statements.append(If(is_set, Store(buffer, (), values[buffer], loc=node.loc), loc=node.loc))
        return Seq(tuple(statements), loc=node.loc)


def _conditional_constant(storage: Buffer, storage_accesses: list[Access]) -> Const | None:
    """The constant that iterations conditionally assign to a scalar; None if there are other accesses."""
    if storage.scope is not Scope.VAR or storage.rank or storage.sequential or storage.dtype.lanes > 1:
        return None
    stores = [a.stmt for a in storage_accesses if isinstance(a.stmt, Store) and a.write and a.update is None]
    if len(stores) != len(storage_accesses) or any(a.buffer is not storage for a in storage_accesses):
        return None
    value = stores[0].value
    if not isinstance(value, Const) or not all(same_expr(value, store.value) for store in stores):
        return None
    return value if any(a.context.uncertain or a.context.conditions() for a in storage_accesses) else None


class _SetFlags(Rewriter):
    """Replaces every assignment by an OR update of its flag."""

    def __init__(self, flags: dict[Buffer, Buffer]) -> None:
        self._flags = flags

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, Store) or node.buffer not in self._flags:
            return self.rebuild_stmt(node)
        flag = self._flags[node.buffer]
        return Store(flag, (), binary(BinaryOp.BITOR, Load(flag, (), INT32), const(1, INT32)), loc=node.loc)


PASS = Pass(
    "reduce_flags", _run, Level.TILE, Level.TILE,
    requires=(Property.LOOPS_AS_WRITTEN, Property.RULES_CHECKED),
    establishes=(Property.FLAGS_REDUCED,),
)
