"""`T.gemm` by the matrix instruction of a wave; see `targets.gpu.lowerings.gemm_mma`."""

from __future__ import annotations

from invented.isa.matrix import MATRIX_ATOM, MATRIX_MULTIPLY, MatrixAtom
from tilelang.dtypes import DType
from tilelang.isa.instruction import Instruction
from tilelang.targets.gpu.lowerings.gemm_mma import RegisterGemm
from tilelang.targets.target import Target


class GemmMatrix(RegisterGemm):
    """The lowering."""

    most_registers = 208

    def choose(self, target: Target, a: DType, b: DType, c: DType, k: int) -> MatrixAtom | None:
        """The only one, for halves and sums of float32."""
        fits = (a, b, c) == (MATRIX_ATOM.dtype, MATRIX_ATOM.dtype, MATRIX_ATOM.c_dtype)
        return MATRIX_ATOM if fits and target.has(MATRIX_ATOM.needs) else None

    def instruction(self, atom: MatrixAtom) -> Instruction:
        """The instruction."""
        return MATRIX_MULTIPLY
