"""Copies an operand of gemms that a loop does not change to registers before it.

    T.copy(Q, Q_s)                                   T.copy(Q, Q_s);  T.copy(Q_s, Q_held)
    for k in T.Pipelined(n):                   =>    for k in T.Pipelined(n):
        T.gemm(Q_s, K_s, S, transpose_B=True)            T.gemm(Q_held, K_s, S, transpose_B=True)

Takes statements with pipelined loops, and what a target holds of operand A of a gemm. Invariant: the loop neither
writes A nor moves along it, and the program computes the same but for the order of additions, which stays that of K.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from tilelang.dtypes import INT32
from tilelang.errors import Note
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import const, int_const
from tilelang.ir.sequences import flat_statements, with_statements
from tilelang.ir.stmt import Alloc, For, Seq, Stmt
from tilelang.ir.visit import Rewriter, defined_variables, loads_of, variables_of, walk, written_buffers
from tilelang.lowering.regions import slice_along, whole
from tilelang.ops.copy import Copy
from tilelang.ops.describe import matrix_axes
from tilelang.ops.gemm import Gemm
from tilelang.schedule.load_groups import is_pipelined


class HoldOperands(Rewriter):
    """The rewriting of pipelined loops that stand in sequences.

    Args:
        columns: How many of the last columns of A a gemm should find in registers.
        divided: The gemms in its place, given the fragment with these columns and their number.
        loaded: The copy to the fragment, as the target lowers it.

    Attributes:
        notes: What is held.
    """

    def __init__(
        self,
        columns: Callable[[Gemm], int],
        divided: Callable[[Gemm, Buffer, int], Iterable[Gemm]],
        loaded: Callable[[Copy], Copy] = lambda copy: copy,
    ) -> None:
        self._columns, self._divided, self._loaded = columns, divided, loaded
        self.notes: list[Note] = []

    def stmt(self, node: Stmt) -> Stmt | None:
        """A sequence with copies before its pipelined loops; other statements with their parts rewritten."""
        if not isinstance(node, Seq):
            return self.rebuild_stmt(node)
        body: list[Stmt] = []
        for child in node.body:
            if isinstance(child, For) and is_pipelined(child):
                body += self._with_held(child)
            elif (rewritten := self.visit(child)) is not None:
                body.append(rewritten)
        return with_statements(node, body)

    def _with_held(self, loop: For) -> list[Stmt]:
        """A loop after the copies to the fragments that it reads."""
        copies: list[Stmt] = []
        body: list[Stmt] = []
        for stmt in flat_statements(loop.body):
            columns = self._columns(stmt) if isinstance(stmt, Gemm) and _is_invariant(stmt.a, loop) else 0
            if isinstance(stmt, Gemm) and columns:
                name, depth = stmt.a.buffer.name, depth_of(stmt)
                self.notes.append(Note(f"{columns} of {depth} columns of '{name}' stay in registers", stmt.loc))
                rows = stmt.a.extent[matrix_axes(stmt.a)[0]]
                held = Buffer(f"{name}_held", (rows, const(columns, INT32)), stmt.a.dtype, Scope.FRAGMENT, loc=stmt.loc)
                last = along_k(stmt, 0, depth - columns)
                copies += [Alloc(held, loc=stmt.loc), self._loaded(Copy(last, whole(held), loc=stmt.loc))]
                body += self._divided(stmt, held, columns)
            else:
                body.append(stmt)
        return [*copies, dataclasses.replace(loop, body=Seq(tuple(body), loc=loop.body.loc)) if copies else loop]


def _is_invariant(region: Region, loop: For) -> bool:
    """Whether a region is the same elements with the same values in all iterations of a loop."""
    inside = list(walk(loop.body))
    written = {buffer.storage for stmt in inside for buffer in written_buffers(stmt)}
    changing = {loop.var, *(var for stmt in inside for var in defined_variables(stmt))}
    read = {region.buffer.storage, *(load.buffer.storage for index in region.start for load in loads_of(index))}
    return written.isdisjoint(read) and not any(changing & variables_of(index) for index in region.start)


def depth_of(gemm: Gemm) -> int:
    """The extent of K; 0 if it is not constant."""
    return int_const(gemm.sizes[2]) or 0


def along_k(gemm: Gemm, side: int, first: int, count: int | None = None) -> Region:
    """A part of operand A (0) or B (1) along K; up to its end without a count."""
    region, axis = (gemm.a, gemm.b)[side], gemm.axes_along_k[side]
    return slice_along(region, axis, first, depth_of(gemm) - first if count is None else count)
