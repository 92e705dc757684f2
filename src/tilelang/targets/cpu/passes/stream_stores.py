"""Uses streaming stores in loops that fill a result larger than the caches, one cache line at a time.

Takes vector loops that store contiguous elements of a global buffer; a line of elements is computed into a small
buffer, then streamed. Only for buffers that the function never reads. Invariant: the same elements get the same values.
"""

from __future__ import annotations

import dataclasses

from tilelang.analysis.strides import stride_along
from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Var, as_expr, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Alloc, Atomic, CallStmt, For, ForKind, Print, Seq, Stmt, Store
from tilelang.ir.visit import Rewriter, expressions, loads_of, substitute_stmt, walk
from tilelang.passes.base import Pass, PassContext, with_body
from tilelang.passes.properties import Property
from tilelang.targets.cpu.isa.stream import LINE_BYTES, STREAM_LINE

LARGE_BYTES = 32 * 1024 * 1024  # smaller results should stay in the last-level cache
_ONE = as_expr(1)


class _Stream(Rewriter):
    def __init__(self, candidates: set[Buffer]) -> None:
        self._candidates = candidates

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, For) and node.kind is ForKind.VECTORIZED and not node.reductions:
            return self._streamed(node) or node
        return self.rebuild_stmt(node)

    def _streamed(self, loop: For) -> Stmt | None:
        """The loop by cache lines, if its only store is to a candidate and fills whole lines."""
        stores = [s for s in walk(loop.body) if isinstance(s, Store)]
        last = loop.body.body[-1] if isinstance(loop.body, Seq) and loop.body.body else loop.body
        start, stop = int_const(loop.start), int_const(loop.stop)
        if len(stores) != 1 or last is not stores[0] or start is None or stop is None or loop.step != 1:
            return None
        store = stores[0]
        lanes = LINE_BYTES // store.buffer.dtype.storage_bytes
        if store.buffer not in self._candidates or (stop - start) % lanes:
            return None
        if stride_along(store.buffer, store.indices, loop.var) != 1:
            return None
        line = Buffer(f"{store.buffer.name}_line", (as_expr(lanes),), store.buffer.dtype, Scope.LOCAL)
        lane = Var("lane", INT32, index=True)
        kept = dataclasses.replace(store, buffer=line, indices=(lane,))
        body = Seq((*loop.body.body[:-1], kept), loc=loop.loc) if isinstance(loop.body, Seq) else kept
        shifted = substitute_stmt(body, {loop.var: loop.var + lane})
        inner = For(lane, const(0, INT32), as_expr(lanes), 1, ForKind.VECTORIZED, shifted, loc=loop.loc)
        there = Region(store.buffer, store.indices, (*(_ONE for _ in store.indices[1:]), as_expr(lanes)))
        here = Region(line, (const(0, INT32),), line.shape)
        call = CallStmt(STREAM_LINE, (there, here), (here,), (there,), loc=loop.loc)
        return dataclasses.replace(
            loop,
            step=lanes,
            kind=ForKind.SERIAL,
            body=Seq((Alloc(line, loc=loop.loc), inner, call), loc=loop.loc),
        )


def _candidates(func: PrimFunc) -> set[Buffer]:
    """Large parameters that are only accessed by plain stores."""
    written: set[Buffer] = set()
    others: set[Buffer] = set()
    for stmt in walk(func.body):
        for root in expressions(stmt):
            others.update(e.buffer.storage for e in loads_of(root))
        match stmt:
            case Store(buffer=buffer) if buffer.scope is Scope.GLOBAL:
                written.add(buffer)
            case Atomic(buffer=buffer) | Print(operand=Region(buffer=buffer)):
                others.add(buffer.storage)
            case CallStmt(reads=reads, writes=writes):
                others.update(region.buffer.storage for region in (*reads, *writes))
    return {b for b in written if b.storage not in others and b.strides is None and _is_large(b)}


def _is_large(buffer: Buffer) -> bool:
    """Whether a buffer exceeds the caches, and its rows are whole cache lines."""
    size, element = buffer.bytes, buffer.dtype.storage_bytes
    if size is None or size < LARGE_BYTES or LINE_BYTES % element:
        return False
    return buffer.rank == 1 or (int_const(buffer.shape[-1]) or 0) * element % LINE_BYTES == 0


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    candidates = _candidates(func)
    if not candidates:
        return func
    return with_body(func, _Stream(candidates).visit(func.body))


PASS = Pass(
    "stream_stores", _run, Level.THREAD, Level.THREAD,
    requires=(Property.VECTOR_LOOPS, Property.ACCESSES_IN_RANGE, Property.EXPRESSIONS_SIMPLIFIED),
    establishes=(Property.STORES_STREAMED,),
)
