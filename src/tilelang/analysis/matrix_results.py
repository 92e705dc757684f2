"""The arrays in which matrix instructions add up products."""

from __future__ import annotations

from tilelang.ir.buffer import Buffer
from tilelang.ir.stmt import CallStmt, Stmt
from tilelang.ir.visit import walk
from tilelang.isa.instruction import AsyncUnit, Instruction


def matrix_results(stmt: Stmt, unit: AsyncUnit | None) -> set[Buffer]:
    """The storage of what matrix instructions below a statement write.

    Args:
        stmt: Of a thread-level program.
        unit: That executes the instructions, None for those that a warp waits for.
    """
    found: set[Buffer] = set()
    for call in (each for each in walk(stmt) if isinstance(each, CallStmt)):
        routine = call.routine
        if isinstance(routine, Instruction) and routine.matrix is not None and routine.async_unit is unit:
            found.update(region.buffer.storage for region in call.writes)
    return found
