"""`T.gemm` by `mma.sync`; see `targets.gpu.lowerings.gemm_mma`, which has what all machines share."""

from __future__ import annotations

from tilelang.dtypes import DType
from tilelang.isa.instruction import Instruction
from tilelang.targets.gpu.lowerings.gemm_mma import RegisterGemm
from tilelang.targets.nvidia.isa.atom import MmaAtom, mma
from tilelang.targets.nvidia.isa.mma import choose_atom
from tilelang.targets.nvidia.lowerings.mma_operand import MatrixShare, SharedOperand
from tilelang.targets.target import Target


class GemmMma(RegisterGemm):
    """The lowering."""

    # Of the 255 that a thread can have; what is left is for addresses.
    # Source: CUDA C++ Programming Guide, "Compute Capabilities", maximum number of 32-bit registers per thread
    most_registers = 208
    share = MatrixShare
    shared_operand = SharedOperand

    def choose(self, target: Target, a: DType, b: DType, c: DType, k: int) -> MmaAtom | None:
        """The one with the least padding along K, then the largest."""
        return choose_atom(target, a, b, c, k)

    def instruction(self, atom: MmaAtom) -> Instruction:
        """The instruction of an atom."""
        return mma(atom)


LOWERING = GemmMma()
