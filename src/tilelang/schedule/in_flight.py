"""Gemms in flight in a software pipeline, and what has to wait for them.

Takes a gemm and what releases the stages that it reads; tells which statements it blocks. Invariant: a statement that
it does not block runs beside it without touching what it writes, or writing what it reads.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import field

from tilelang.analysis.accesses import storages
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.stmt import Stmt
from tilelang.lowering.regions import same_region
from tilelang.ops.gemm import Gemm
from tilelang.records import record


@record(slots=True, eq=False)
class InFlight:
    """A gemm that is in flight.

    Attributes:
        gemm: As in the original program.
        releases: What releases the stages of which it is the last reader.
        computed: The fragments that threads have written since.
    """

    gemm: Gemm
    releases: list[Stmt]
    computed: dict[Buffer, None] = field(default_factory=dict)

    def blocks(self, stmt: Stmt, versioned: Container[Buffer]) -> bool:
        """Whether a statement touches the accumulator, or overwrites an operand, unless it writes another version."""
        if isinstance(stmt, Gemm) and adds_to_same_registers(self.gemm, stmt):
            return False  # it overwrites nothing but the accumulator
        sums, operands = self.gemm.c.buffer.storage, {r.buffer.storage for r in (self.gemm.a, self.gemm.b)}
        operands = {operand for operand in operands if operand not in versioned}
        touched = storages(stmt)
        return sums in touched.all or not touched.written.isdisjoint(operands)


def adds_to_same_registers(first: Gemm, second: Gemm) -> bool:
    """Whether a gemm may be issued while an earlier one that writes the same accumulator is in flight."""
    if first is not second and (
        first.plan is None or second.plan is None or not second.plan.continues(first.plan)
    ):
        return False
    reads = (second.a.buffer.storage, second.b.buffer.storage)
    return same_region(first.c, second.c) and first.c.buffer.storage not in reads


def is_fenceable_fragment(buffer: Buffer) -> bool:
    """Whether a buffer is a matrix in registers, of a dtype that can be fenced."""
    in_registers = buffer.scope is Scope.FRAGMENT and buffer.view_of is None
    return in_registers and buffer.rank > 1 and buffer.dtype.bits in (16, 32)
