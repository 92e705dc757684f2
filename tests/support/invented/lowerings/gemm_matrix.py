"""`T.gemm` by the matrix instruction of a wave; see `targets.gpu.lowerings.gemm_mma`."""

from __future__ import annotations

from invented.isa.matrix import MATRIX_ATOM, MATRIX_MULTIPLY, MatrixAtom
from tilelang.isa.instruction import Instruction
from tilelang.lowering.lowering import LoweringContext
from tilelang.ops.gemm import Gemm
from tilelang.targets.gpu.lowerings.gemm_mma import RegisterGemm


class GemmMatrix(RegisterGemm):
    """The lowering."""

    def max_registers(self, context: LoweringContext) -> int:
        """As many as leave some for addresses."""
        return 208

    def choose(self, op: Gemm, context: LoweringContext) -> MatrixAtom | None:
        """The only one, for halves and sums of float32."""
        fits = (*op.operands, self.sums(op)) == (MATRIX_ATOM.dtype, MATRIX_ATOM.dtype, MATRIX_ATOM.c_dtype)
        return MATRIX_ATOM if fits and context.target.has(MATRIX_ATOM.needs) else None

    def instruction(self, atom: MatrixAtom) -> Instruction:
        """The instruction."""
        return MATRIX_MULTIPLY
