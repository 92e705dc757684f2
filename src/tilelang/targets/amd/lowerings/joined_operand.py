"""Operands in fragments of WMMA of gfx11, which takes them in both halves of a wave.

A fragment holds each element once, as sums do, so that these become operands where they are; the halves of a wave
exchange what they hold before the instructions of a step.
"""

from __future__ import annotations

from tilelang.ir.buffer import Region
from tilelang.ir.expr import Expr
from tilelang.ir.stmt import CallStmt
from tilelang.lowering.registers import Emitter
from tilelang.targets.amd.isa.join_halves import ELEMENTS, join_halves
from tilelang.targets.gpu.lowerings.mma_operand import FragmentOperand, Share


class JoinedOperand:
    """An operand whose lanes hold half of the elements that instructions take.

    Args:
        emit: Receives statements.
        share: The part that the wave needs, as instructions take it.
        own: The part as lanes hold it.
        sets: Sets of registers.
    """

    def __init__(self, emit: Emitter, share: Share, own: FragmentOperand, sets: int) -> None:
        self._emit, self._share, self._own, self._sets = emit, share, own, sets
        self._registers = emit.registers(f"{share.region.buffer.name}_r", sets * share.tile.values, share.dtype)

    def fetch(self, step: Expr, *, tail: bool) -> None:
        """Gives each lane all elements of a step."""
        self._own.fetch(step, tail=tail)
        instruction = join_halves(self._share.dtype.storage_bytes)
        pieces = self._share.atom.values // (2 * ELEMENTS)

        def join(atom: Expr, piece: Expr) -> None:
            own, joined = self._own.registers(atom, step), self.registers(atom, step)
            source = self._emit.part(own.buffer, own.start[0] + piece * ELEMENTS, ELEMENTS)
            target = self._emit.part(joined.buffer, joined.start[0] + piece * (2 * ELEMENTS), 2 * ELEMENTS)
            self._emit.build.emit(CallStmt(instruction, (target, source), (source,), (target,)))

        self._emit.loop(
            "i", self._share.atoms, lambda i: self._emit.loop("piece", pieces, lambda piece: join(i, piece))
        )

    def registers(self, atom: Expr, step: Expr) -> Region:
        """The registers of one instruction."""
        values, count = self._share.atom.values, self._share.tile.values
        return self._emit.part(self._registers, step % self._sets * count + atom * values, values)
