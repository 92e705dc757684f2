"""Fuses `T.clear(C)` into the gemm, or the loop of gemms, after it: the first gemm overwrites its accumulator instead.

Takes a launch, gives one in which such a clear has become `clear_accum`, of a loop in its first iteration. Invariant:
this is done only where the loop surely has an iteration and the first statement that accesses C is a gemm.
"""

from __future__ import annotations

import dataclasses
from typing import TypeGuard

from tilelang.arith.domain import Domain
from tilelang.arith.prove import proves
from tilelang.dtypes import BOOL
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Const, Expr, const
from tilelang.ir.sequences import statements_of, with_statements
from tilelang.ir.stmt import Bind, For, Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter, accessed_buffers, jumps, walk
from tilelang.lowering.regions import is_whole
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm


def is_clear(stmt: Stmt | None) -> TypeGuard[Fill]:
    """Whether a statement stores zeros to all of a buffer."""
    return isinstance(stmt, Fill) and is_whole(stmt.dst) and isinstance(stmt.value, Const) and stmt.value.value == 0


def fuse_clears(launch: Launch, domain: Domain) -> Launch:
    """The launch, which comes from `flatten_sequences`, with its clears fused where possible."""
    inside = domain.with_extents(launch.block_vars, launch.grid)
    return dataclasses.replace(launch, body=fuse_clears_in(launch.body, inside))


def fuse_clears_in(body: Stmt, domain: Domain) -> Stmt:
    """A body with its clears fused where possible."""
    return _FuseClears(domain).visit(body) or Seq((), loc=body.loc)


class _FuseClears(Rewriter):
    def __init__(self, domain: Domain) -> None:
        self._domain = domain

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, For):
            inside = _FuseClears(self._domain.with_loop(node.var, node.start, node.stop, node.step))
            return inside.rebuild_stmt(node)
        if not isinstance(node, Seq):
            return self.rebuild_stmt(node)
        domain, body = self._domain, list(node.body)
        for stmt in node.body:
            if isinstance(stmt, Bind):
                domain = domain.with_value(stmt.var, stmt.value)
            elif is_clear(stmt):
                _fuse(body, stmt, domain)
        return self.rebuild_stmt(with_statements(node, body))


def _fuse(body: list[Stmt], fill: Fill, domain: Domain) -> None:
    """Removes a clear from a sequence if the gemm or the loop that follows can do it."""
    accumulator = fill.dst.buffer
    position = body.index(fill)
    following = [s for s in body[position + 1 :] if _touches(s, accumulator)]
    loop = following[0] if following else None
    if isinstance(loop, Gemm) and _can_clear(loop, accumulator):
        body[body.index(loop)] = dataclasses.replace(loop, clear_accum=const(True, BOOL))
        del body[position]
        return
    if not isinstance(loop, For) or jumps(loop.body):
        return
    begins = loop.start < loop.stop if loop.step > 0 else loop.start > loop.stop
    fused = _with_clear(loop, accumulator) if proves(begins, domain) else None
    if fused is not None:
        body[body.index(loop)] = fused
        del body[position]


def _with_clear(loop: For, accumulator: Buffer) -> For | None:
    """The loop with `clear_accum` in its first iteration; None if its first access is no gemm that can clear."""
    parts = statements_of(loop.body)
    first = next((s for s in parts if _touches(s, accumulator)), None)
    if not isinstance(first, Gemm) or not _can_clear(first, accumulator):
        return None
    gemm = dataclasses.replace(first, clear_accum=loop.var == loop.start)
    body = tuple(gemm if s is first else s for s in parts)
    return dataclasses.replace(loop, body=Seq(body, loc=loop.body.loc))


def _can_clear(gemm: Gemm, accumulator: Buffer) -> bool:
    """Whether a gemm adds to all of a tile, and does not multiply it."""
    whole = gemm.c.buffer is accumulator and is_whole(gemm.c)
    return whole and accumulator not in (gemm.a.buffer, gemm.b.buffer) and _is_false(gemm.clear_accum)


def _is_false(clear: Expr | None) -> bool:
    return clear is None or isinstance(clear, Const) and not clear.value


def _touches(stmt: Stmt, buffer: Buffer) -> bool:
    """Whether a statement, or one in it, reads or writes a buffer."""
    return any(each.storage is buffer.storage for inner in walk(stmt) for each in accessed_buffers(inner))
