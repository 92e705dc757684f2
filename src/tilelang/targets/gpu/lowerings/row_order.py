"""The order of a warp's matrix instructions in which one set of registers serves all steps along K.

    load A0, A1, B0, B1 of the first step
    for each step:  multiply A0 B0, A0 B1 | load A0 | multiply A1 B0 | load B0 | multiply A1 B1 | load A1, B1

Takes the operands, both in shared memory, and what emits an instruction. The registers of an operand are loaded for the
next step once all instructions that read them have been issued: a load completes while those of other rows and columns
are executed. Invariant: nothing moves across the barriers, |, for else the vendor's compiler would load early, to other
registers, or late, and wait.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

from tilelang.ir.expr import Expr, const
from tilelang.ir.stmt import CallStmt
from tilelang.isa.instruction import Instruction
from tilelang.lowering.regions import ZERO
from tilelang.lowering.registers import Emitter
from tilelang.targets.gpu.lowerings.mma_operand import ElementOperand


class HeldRows(enum.Enum):
    """The rows of instructions whose operand A is in registers at once."""

    ALL = "all"
    ONE = "one"  # the next row is loaded once a row has been multiplied, so that only other warps hide its latency


class RowOrder:
    """Emits the steps of a gemm.

    Args:
        emit: Receives statements.
        a: Operand A.
        b: Operand B.
        counts: Rows and columns of instructions.
        multiply: Emits the instruction of a row and a column.
        barrier: What keeps the vendor's compiler from moving instructions.
    """

    def __init__(
        self,
        emit: Emitter,
        a: ElementOperand,
        b: ElementOperand,
        counts: tuple[int, int],
        multiply: Callable[[Expr, Expr], None],
        barrier: Instruction,
    ) -> None:
        self._emit, self._a, self._b, self._multiply, self._barrier = emit, a, b, multiply, barrier
        self._rows, self._columns = counts

    def steps(self, count: int, held: HeldRows) -> None:
        """All steps, of which there are at least two."""
        emit, bottom = self._emit, self._rows - 1
        if held is HeldRows.ALL:
            self._a.fetch(ZERO, tail=False)
            self._b.fetch(ZERO, tail=False)
            emit.loop("k_step", count, self._all_held, start=1)
            self._all_held(None)
            return
        self._a.fetch_atom(ZERO, ZERO)
        self._b.fetch(ZERO, tail=False)
        last = const(bottom, ZERO.dtype)
        for number in range(count):  # each with variables of its own, so that offsets in tiles have a common part
            emit.loop("k_step", number + 1, self._in_turn, start=number)
            if number + 1 < count:
                emit.loop("k_step", number + 2, lambda step: self._last_row(last, ZERO, step), start=number + 1)
            else:
                self._row(last)

    def _all_held(self, following: Expr | None) -> None:
        """A step with all rows of A in registers, and the loads of the next step, if there is one."""

        def row(i: Expr) -> None:
            self._row(i)
            if following is None:
                self._keep_apart()
            else:
                self._load(lambda: self._a.fetch_atom(i, following))

        bottom = self._rows - 1
        self._emit.loop("i", bottom, row)
        if following is None:
            self._row(const(bottom, ZERO.dtype))
        else:
            self._emit.loop("i", bottom + 1, lambda i: self._last_row(i, i, following), start=bottom)

    def _in_turn(self, step: Expr) -> None:
        """All rows of a step but the last, and the loads of the row of A below each."""

        def row(below: Expr) -> None:
            self._row(self._emit.short(below - 1))
            self._load(lambda: self._a.fetch_atom(below, step))

        self._emit.loop("i", self._rows, row, start=1)

    def _row(self, i: Expr) -> None:
        self._emit.loop("j", self._columns, lambda j: self._multiply(i, j))

    def _last_row(self, i: Expr, row: Expr, following: Expr) -> None:
        """The last row of a step, and the loads of B and of a row of A of the next step.

        The last of B is loaded last: it is read before that row of A, or with it, so that one wait is for both.
        """

        def column(j: Expr) -> None:
            self._multiply(i, j)
            self._load(lambda: self._b.fetch_atom(j, following))

        def corner(j: Expr) -> None:
            self._multiply(i, j)
            self._load(lambda: self._a.fetch_atom(row, following), lambda: self._b.fetch_atom(j, following))

        last = self._columns - 1
        self._emit.loop("j", last, column)
        self._emit.loop("j", last + 1, corner, start=last)

    def _load(self, *loads: Callable[[], None]) -> None:
        for load in loads:
            self._keep_apart()
            load()
        self._keep_apart()

    def _keep_apart(self) -> None:
        self._emit.build.emit(CallStmt(self._barrier, ()))
