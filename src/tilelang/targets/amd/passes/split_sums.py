"""Adds up a thread's values in two sums, which machines add by one instruction: `v_pk_add_f32`, `v_dual_add_f32`.

    for i in unroll(4):                     sum_odd = 0
        for j in unroll(8):                 for i in unroll(4):
            sum += x[i * 8 + j]       =>        for j in unroll(4):
                                                    sum += x[i * 8 + 2 * j]
                                                    sum_odd += x[i * 8 + 2 * j + 1]
                                            sum += sum_odd

Takes a thread-level function. Invariant: the result is the sum of the same values, in another order, of which programs
know nothing, since other values are added by other threads. An addition waits for half as many others, too.

Source: AMD CDNA 3 and RDNA 3 Instruction Set Architecture, "Packed Math" and "Dual Issue VALU".
"""

from __future__ import annotations

import dataclasses

from tilelang.dtypes import FLOAT32, INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Binary, Expr, Load, Var, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Alloc, For, ForKind, Launch, Seq, Stmt, Store
from tilelang.ir.visit import Rewriter, loads_of, substitute
from tilelang.passes.base import Pass, PassContext, with_launches

_MIN_VALUES = 4  # for two, one addition more would join the sums than is saved


def _added(store: Stmt) -> Expr | None:
    """What a statement adds to a scalar of float32; None if it does something else."""
    if not isinstance(store, Store) or store.buffer.scope is not Scope.VAR or store.buffer.dtype != FLOAT32:
        return None
    match store.value:
        case Binary(op=BinaryOp.ADD, a=Load(buffer=buffer), b=value) if buffer is store.buffer:
            return None if any(load.buffer is buffer for load in loads_of(value)) else value
    return None


def _split(loop: For, odd: Buffer) -> Stmt | None:
    """The loops with a second sum; None if the innermost one does not add an even number of values."""
    count = int_const(loop.stop)
    if loop.kind is not ForKind.UNROLLED or int_const(loop.start) != 0 or loop.step != 1 or count is None:
        return None
    if isinstance(loop.body, For):
        body = _split(loop.body, odd)
        return None if body is None else dataclasses.replace(loop, body=body)
    value, store = _added(loop.body), loop.body
    if value is None or count % 2 or not isinstance(store, Store):
        return None
    var = Var(loop.var.name, INT32, index=True)
    first, second = (
        Store(buffer, (), Load(buffer, (), FLOAT32) + substitute(value, {loop.var: var * 2 + place}), loc=store.loc)
        for place, buffer in enumerate((store.buffer, odd))
    )
    body = Seq((first, second), loc=loop.body.loc)
    return dataclasses.replace(loop, var=var, stop=const(count // 2, INT32), body=body)


class _Split(Rewriter):
    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, For):
            return self.rebuild_stmt(node)
        innermost, values = node, int_const(node.stop) or 0
        while isinstance(innermost.body, For):
            innermost = innermost.body
            values *= int_const(innermost.stop) or 0
        store = innermost.body
        if _added(store) is None or not isinstance(store, Store) or values < _MIN_VALUES:
            return self.rebuild_stmt(node)
        total = store.buffer
        odd = dataclasses.replace(total, name=f"{total.name}_odd")
        loops = _split(node, odd)
        if loops is None:
            return self.rebuild_stmt(node)
        joined = Store(total, (), Load(total, (), FLOAT32) + Load(odd, (), FLOAT32), loc=node.loc)
        return Seq((Alloc(odd, const(0.0, FLOAT32), loc=node.loc), loops, joined), loc=node.loc)


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    split = _Split()

    def run(launch: Launch) -> Launch:
        return dataclasses.replace(launch, body=split.visit(launch.body) or launch.body)

    return with_launches(func, run)


PASS = Pass("split_sums", _run, Level.THREAD, Level.THREAD)
