"""`T.gemm` by `mma.sync`; see `targets.gpu.lowerings.gemm_mma`, which has what all machines share."""

from __future__ import annotations

from tilelang.ir.expr import int_const
from tilelang.isa.instruction import Instruction
from tilelang.layout.thread_values import Fragment
from tilelang.lowering.lowering import LoweringContext
from tilelang.lowering.registers import Emitter
from tilelang.ops.gemm import Gemm
from tilelang.targets.gpu.lowerings.gemm_mma import RegisterGemm
from tilelang.targets.gpu.lowerings.mma_operand import FragmentOperand, Operand, Share
from tilelang.targets.nvidia.fragment_registers import registers_for_fragments
from tilelang.targets.nvidia.isa.atom import MmaAtom, mma
from tilelang.targets.nvidia.isa.mma import choose_atom
from tilelang.targets.nvidia.isa.quad_exchange import ELEMENT_BITS, VALUES
from tilelang.targets.nvidia.lowerings.exchanged_operand import ExchangedOperand
from tilelang.targets.nvidia.lowerings.mma_operand import MatrixShare, SharedOperand


class GemmMma(RegisterGemm):
    """The lowering."""

    def operand_classes(self, context: LoweringContext) -> tuple[type[MatrixShare], type[SharedOperand]]:
        """Those that `ldmatrix` loads where it can."""
        return MatrixShare, SharedOperand

    def max_registers(self, context: LoweringContext) -> int:
        """Those that a block of so many threads has."""
        return registers_for_fragments(context.threads, context.target.machine)

    def choose(self, op: Gemm, context: LoweringContext) -> MmaAtom | None:
        """The one with the least padding along K, then the largest."""
        depth = int_const(op.sizes[2]) or 0
        return choose_atom(context.target, *op.operands, self.sums(op), depth)

    def lefts(self, atom: MmaAtom) -> tuple[Fragment, ...]:
        """That of the instruction; 8-bit elements may lie as sums do, which lanes of a quad exchange."""
        exchanges = atom.a_dtype.bits == ELEMENT_BITS and atom.a.values == VALUES
        return (atom.a, atom.a_as_sums) if exchanges else (atom.a,)

    def exchanged_operand(self, emit: Emitter, share: Share, own: FragmentOperand, sets: int) -> Operand:
        """Operand A, exchanged before the instructions of a step."""
        return ExchangedOperand(emit, share, own, sets)

    def instruction(self, atom: MmaAtom) -> Instruction:
        """The instruction of an atom."""
        return mma(atom)


LOWERING = GemmMma()
