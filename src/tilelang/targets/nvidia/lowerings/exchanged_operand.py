"""Operand A of 8 bits in a fragment that lies as sums do: lanes exchange its elements before the instructions.

So the scores of attention become an operand where they are, without a way through shared memory. The exchanged
registers are others than those of the fragment.
"""

from __future__ import annotations

from tilelang.ir.buffer import Region
from tilelang.ir.expr import Expr
from tilelang.ir.stmt import CallStmt
from tilelang.lowering.regions import ZERO
from tilelang.lowering.registers import Emitter
from tilelang.targets.gpu.lowerings.mma_operand import FragmentOperand, Share
from tilelang.targets.nvidia.isa.quad_exchange import QUAD_EXCHANGE


class ExchangedOperand:
    """The operand.

    Args:
        emit: Receives statements.
        share: The part that the warp, or warpgroup, needs, as instructions take it.
        own: The part as lanes hold it.
        sets: Sets of registers, each for a step along K.
    """

    def __init__(self, emit: Emitter, share: Share, own: FragmentOperand, sets: int) -> None:
        self._emit, self._share, self._own, self._sets = emit, share, own, sets
        self._registers = emit.registers(f"{share.region.buffer.name}_r", sets * share.tile.values, share.dtype)

    @property
    def array(self) -> Region:
        """All registers of the operand."""
        return Region(self._registers, (ZERO,), self._registers.shape)

    def fetch(self, step: Expr, *, tail: bool) -> None:
        """Gives each lane the elements of a step that instructions take from it."""
        self._own.fetch(step, tail=tail)

        def exchange(atom: Expr) -> None:
            own, operand = self._own.registers(atom, step), self.registers(atom, step)
            self._emit.build.emit(CallStmt(QUAD_EXCHANGE, (operand, own), (own,), (operand,)))

        self._emit.loop("i", self._share.atoms, exchange)

    def registers(self, atom: Expr, step: Expr) -> Region:
        """The registers of one instruction."""
        values, count = self._share.atom.values, self._share.tile.values
        return self._emit.part(self._registers, step % self._sets * count + atom * values, values)
