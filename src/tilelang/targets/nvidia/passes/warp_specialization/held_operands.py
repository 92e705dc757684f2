"""Holds columns of operand A in registers across a loop, where reading A from shared memory limits wgmma.

Takes a launch and its consumers; gives one in which a gemm of a pipelined loop is divided along K: the last columns of
A are copied to a fragment before the loop, as many as registers allow. Invariant: the loop does not write A, and the
program computes the same but for the order of additions, which stays that of K.

Shared memory gives 128 bytes per cycle. An instruction with n columns reads 64 rows of A and n of B in n / 2 cycles on
the tensor cores, each row with 32 bytes: with fewer than 64 columns it waits for them. MLA decode, whose warpgroups
have 32 columns of scores each, took 6 % less time on an H200 with 192 of 512 columns of the queries in registers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from tilelang.dtypes import INT32
from tilelang.errors import Note
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import const, int_const
from tilelang.ir.sequences import flat_statements
from tilelang.ir.stmt import Alloc, For, Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter, walk, written_buffers
from tilelang.lowering.regions import whole
from tilelang.ops.copy import Copy
from tilelang.ops.describe import matrix_axes
from tilelang.ops.gemm import Gemm
from tilelang.schedule.load_groups import is_pipelined
from tilelang.targets.nvidia.isa.wgmma import ROWS, WARPGROUP
from tilelang.targets.nvidia.lowerings.gemm_wgmma import WgmmaPlan
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import TargetCapabilities
from tilelang.targets.nvidia.passes.warp_specialization.pad_rows import SWIZZLE_SPAN
from tilelang.targets.nvidia.passes.warp_specialization.register_budget import live_tile_registers, registers_for_tiles
from tilelang.targets.nvidia.schedule import WARPGROUP_THREADS


def with_held_operands(
    launch: Launch, gemms: Iterable[Gemm], consumers: int, capabilities: TargetCapabilities
) -> tuple[Launch, list[Note]]:
    """The launch, which comes from `flatten_sequences`, with columns of operands in registers; and notes on these."""
    registers = registers_for_tiles(consumers) - live_tile_registers(launch, consumers)
    planned = capabilities.with_plans(launch, gemms, consumers * WARPGROUP_THREADS)
    hold = _Hold(registers)
    body = hold.visit(planned.body)
    return (dataclasses.replace(launch, body=body), hold.notes) if hold.notes and body is not None else (launch, [])


class _Hold(Rewriter):
    def __init__(self, registers: int) -> None:
        self._registers = registers
        self.notes: list[Note] = []

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, Seq):
            return self.rebuild_stmt(node)
        body: list[Stmt] = []
        for child in node.body:
            if isinstance(child, For) and is_pipelined(child):
                body += self._with_held(child)
            elif (rewritten := self.visit(child)) is not None:
                body.append(rewritten)
        return dataclasses.replace(node, body=tuple(body))

    def _with_held(self, loop: For) -> list[Stmt]:
        """A loop after the copies to the fragments that it reads."""
        copies: list[Stmt] = []
        body: list[Stmt] = []
        written = {buffer.storage for stmt in walk(loop.body) for buffer in written_buffers(stmt)}
        for stmt in flat_statements(loop.body):
            columns = self._columns(stmt) if isinstance(stmt, Gemm) and stmt.a.buffer.storage not in written else 0
            if isinstance(stmt, Gemm) and columns:
                name, depth = stmt.a.buffer.name, _depth(stmt)
                self.notes.append(Note(f"{columns} of {depth} columns of '{name}' stay in registers", stmt.loc))
                rows = stmt.a.extent[matrix_axes(stmt.a)[0]]
                held = Buffer(f"{name}_held", (rows, const(columns, INT32)), stmt.a.dtype, Scope.FRAGMENT, loc=stmt.loc)
                last = _along_k(stmt, 0, depth - columns)
                copies += [Alloc(held, loc=stmt.loc), Copy(last, whole(held), loc=stmt.loc)]
                body += _divided(stmt, held, columns)
            else:
                body.append(stmt)
        return [*copies, dataclasses.replace(loop, body=Seq(tuple(body), loc=loop.body.loc)) if copies else loop]

    def _columns(self, gemm: Gemm) -> int:
        """How many columns of A fit into the registers that are left, which they take; 0 if they should not."""
        plan, depth, bits = gemm.plan, _depth(gemm), gemm.a.dtype.bits
        if not isinstance(plan, WgmmaPlan) or plan.a is None or plan.atom.n >= ROWS or gemm.transpose_a:
            return 0
        bits_of_column = plan.groups.row_atoms * ROWS * bits // WARPGROUP  # of each thread
        columns, span = self._registers * 32 // bits_of_column, SWIZZLE_SPAN * 8 // bits
        columns = depth if columns >= depth else 0 if depth % span else columns // span * span
        self._registers -= max(columns, 0) * bits_of_column // 32
        return max(columns, 0)


def _divided(gemm: Gemm, held: Buffer, columns: int) -> Iterator[Gemm]:
    """The gemm of the columns in shared memory, if there are any, and that of those in registers."""
    rest = _depth(gemm) - columns
    if rest:
        yield dataclasses.replace(gemm, a=_along_k(gemm, 0, 0, rest), b=_along_k(gemm, 1, 0, rest), plan=None)
    clear = None if rest else gemm.clear_accum
    yield dataclasses.replace(gemm, a=whole(held), b=_along_k(gemm, 1, rest), clear_accum=clear, plan=None)


def _depth(gemm: Gemm) -> int:
    return int_const(gemm.sizes[2]) or 0


def _along_k(gemm: Gemm, side: int, first: int, count: int | None = None) -> Region:
    """A part of operand A (0) or B (1) along K; up to its end without a count."""
    region = (gemm.a, gemm.b)[side]
    axis = matrix_axes(region)[1 if side == 0 or gemm.transpose_b else 0]
    start, extent = list(region.start), list(region.extent)
    start[axis] = start[axis] + first
    extent[axis] = const(_depth(gemm) - first if count is None else count, INT32)
    return dataclasses.replace(region, start=tuple(start), extent=tuple(extent))
