"""Hides from compilers, in kernels that they serialize otherwise, that the sums of gemms by wgmma begin as zeros.

    C = 0                       C = 0; hide_operands(C)
    for k in ...:         =>    for k in ...:
        C = C * r               C = C * r
        wgmma(C, A, B)          wgmma(C, A, B)

Where rows of a tile are sums that nothing uses, and the loop may have no iteration, ptxas (13.0 and 13.5) serializes
wgmma (advice C7511), as in decoding with two queries a tile and a ragged cache. The statement is at the head of a
kernel, but ptxas may allocate registers in another way behind it, so it is nothing unless a macro is defined: kernels
are compiled with it where they lose something without it.

Takes a thread-level launch. Invariant: each thread computes the same.
"""

from __future__ import annotations

import dataclasses
import math

from tilelang.analysis.matrix_results import matrix_results
from tilelang.analysis.unrolled_loops import is_unrolled, values
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.sequences import flat_statements, with_statements
from tilelang.ir.stmt import CallStmt, For, Launch, Seq, Stmt, Store
from tilelang.ir.visit import Rewriter
from tilelang.lowering.regions import whole
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.targets.nvidia.isa.async_units import WGMMA
from tilelang.targets.nvidia.isa.wgmma_registers import hide_operands


class _Clears(Rewriter):
    """Rewrites sequences in which sums are cleared."""

    def __init__(self, sums: set[Buffer]) -> None:
        self._sums = sums

    def stmt(self, node: Stmt) -> Stmt | None:
        inside = self.rebuild_stmt(node)
        if not isinstance(inside, Seq):
            return inside
        made: list[Stmt] = []
        for stmt in inside.body:
            made.append(stmt)
            array = _cleared(stmt)
            if array is not None and array.storage in self._sums:
                count = math.prod(array.static_shape or ())
                region = whole(array)
                made.append(CallStmt(hide_operands(array.dtype, count), (region,), (region,), (region,), loc=stmt.loc))
        return with_statements(inside, made)


def _cleared(stmt: Stmt) -> Buffer | None:
    """The array all of whose elements a nest of unrolled loops sets to a constant."""
    count = 1
    while isinstance(stmt, For) and is_unrolled(stmt) and len(body := flat_statements(stmt.body)) == 1:
        count *= len(values(stmt) or ())
        (stmt,) = body
    if not isinstance(stmt, Store) or not isinstance(stmt.value, Const):
        return None
    shape = stmt.buffer.static_shape
    return stmt.buffer if shape is not None and math.prod(shape) == count else None


def hide_cleared_sums(launch: Launch) -> Launch:
    """The launch with statements behind clears of sums."""
    sums = matrix_results(launch.body, WGMMA)
    body = _Clears(sums).visit(launch.body) if sums else launch.body
    return launch if body is launch.body or body is None else dataclasses.replace(launch, body=body)


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_launches(func, hide_cleared_sums)


PASS = Pass("hide_cleared_sums", _run, Level.THREAD, Level.THREAD)
