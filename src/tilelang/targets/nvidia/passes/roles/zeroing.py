"""Lets products begin their sums, instead of clearing them before: a fragment that is never set is one pass less.

Takes a sequence of statements, gives one in which `T.clear(C)` before a loop of products into C has become
`clear_accum` in the first iteration. Invariant: that is done only where the loop surely has one, and where its first
statement that touches C is a product.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tilelang.analysis.accesses import accesses
from tilelang.arith.domain import Domain
from tilelang.arith.prove import proves
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Const, Expr
from tilelang.ir.stmt import Bind, For, Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter, jumps
from tilelang.lowering.regions import is_whole
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm


def products_begin_sums(launch: Launch, domain: Domain) -> Launch:
    """The launch, which must be `flat`, with as few fragments cleared as that."""
    for var, extent in zip(launch.block_vars, launch.grid, strict=True):
        domain = domain.with_loop(var, 0, extent)
    body = _Zeroing(domain).visit(launch.body)
    return dataclasses.replace(launch, body=body or Seq((), loc=launch.loc))


class _Zeroing(Rewriter):
    def __init__(self, domain: Domain) -> None:
        self._domain = domain

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, For):
            inside = _Zeroing(self._domain.with_loop(node.var, node.start, node.stop, node.step))
            return inside.rebuild_stmt(node)
        if not isinstance(node, Seq):
            return self.rebuild_stmt(node)
        domain, body = self._domain, list(node.body)
        for stmt in node.body:
            if isinstance(stmt, Bind):
                domain = domain.with_value(stmt.var, stmt.value)
            elif isinstance(stmt, Fill) and _is_zero(stmt.value) and is_whole(stmt.dst):
                _begin(body, stmt, domain)
        made = Seq(tuple(body), loc=node.loc)
        return self.rebuild_stmt(made)


def _begin(body: list[Stmt], fill: Fill, domain: Domain) -> None:
    """Takes a fill out of a sequence if the loop that follows can do without."""
    sums = fill.dst.buffer
    position = body.index(fill)
    following = [s for s in body[position + 1 :] if _touches(s, sums)]
    loop = following[0] if following else None
    if not isinstance(loop, For) or jumps(loop.body):
        return
    begins = loop.start < loop.stop if loop.step > 0 else loop.start > loop.stop
    made = _cleared(loop, sums) if proves(begins, domain) else None
    if made is not None:
        body[body.index(loop)] = made
        del body[position]


def _cleared(loop: For, sums: Buffer) -> For | None:
    """The loop whose first iteration begins the sums; None if that is not what its first product would do."""
    parts: Sequence[Stmt] = loop.body.body if isinstance(loop.body, Seq) else (loop.body,)
    first = next((s for s in parts if _touches(s, sums)), None)
    if not isinstance(first, Gemm) or first.c.buffer is not sums or not is_whole(first.c):
        return None
    if sums in (first.a.buffer, first.b.buffer) or not _never(first.clear_accum):
        return None
    product = dataclasses.replace(first, clear_accum=loop.var == loop.start)
    body = tuple(product if s is first else s for s in parts)
    return dataclasses.replace(loop, body=Seq(body, loc=loop.body.loc))


def _never(clear: Expr | None) -> bool:
    return clear is None or isinstance(clear, Const) and not clear.value


def _is_zero(value: Expr) -> bool:
    return isinstance(value, Const) and value.value == 0


def _touches(stmt: Stmt, buffer: Buffer) -> bool:
    """Whether anything in a statement reads or writes a buffer."""
    return any(access.buffer.storage is buffer.storage for access in accesses(stmt).all)
