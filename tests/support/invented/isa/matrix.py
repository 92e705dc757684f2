"""The matrix instruction of a wave, and which of its lanes holds which elements of the operands.

Gives `MATRIX_ATOM` and its instruction, `MATRIX_MULTIPLY`. Invariant: a region of registers is a thread's array of
elements, so that element v of the array is value v of the fragment.

Source: AMD Instinct MI300 Instruction Set Architecture, "Matrix Arithmetic Instructions", `V_MFMA_F32_32X32X8_F16`, and
"Dense Matrices: Register Layout": lane l holds A[l mod 32, 4 (l div 32) + v] and B[4 (l div 32) + v, l mod 32] for v < 4,
and D[8 (v div 4) + 4 (l div 32) + v mod 4, l mod 32] for v < 16.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from invented.machines import WAVE_SIZE, Feature
from tilelang.dtypes import FLOAT32, SCALARS, DType
from tilelang.isa.instruction import ExecutionScope, Instruction
from tilelang.isa.simulated import Pointer, Warp
from tilelang.layout.thread_values import Fragment, digit, fragment
from tilelang.records import record


@record
class MatrixAtom:
    """`C[m, n] += sum over k of A[m, k] * B[n, k]`, executed by one wave."""

    shape: tuple[int, int, int] = (32, 32, 8)
    dtype: DType = SCALARS["float16"]
    c_dtype: DType = FLOAT32
    needs: Feature = Feature.MATRIX_F16
    name: str = "matrix_f32_32x32x8_f16"

    @cached_property
    def a(self) -> Fragment:
        """Which lane holds which elements of A. Shapes: (M, K)."""
        return fragment((32, 8), [digit(32, 1, 0), digit(2, 0, 4)], [digit(4, 0, 1)])

    @property
    def b(self) -> Fragment:
        """Which lane holds which elements of B. Shapes: (N, K)."""
        return self.a

    @cached_property
    def c(self) -> Fragment:
        """Which lane holds which elements of C. Shapes: (M, N)."""
        return fragment((32, 32), [digit(32, 0, 1), digit(2, 4, 0)], [digit(4, 1, 0), digit(4, 8, 0)])


MATRIX_ATOM = MatrixAtom()


def _places(layout: Fragment) -> tuple[np.ndarray, ...]:
    """Row and column of every value of every lane, as an index into the matrix."""
    return tuple(np.moveaxis(layout.table, -1, 0))


def _operand(warp: Warp, pointer: Pointer, layout: Fragment) -> tuple[np.ndarray, np.ndarray]:
    """An operand, and which of its elements are defined."""
    values, known = warp.read_raw(pointer, layout.values)
    matrix, defined = np.zeros(layout.shape, np.float64), np.zeros(layout.shape, bool)
    matrix[_places(layout)], defined[_places(layout)] = values, known
    return matrix, defined


def _multiply(warp: Warp, c: Pointer, a: Pointer, b: Pointer) -> None:
    atom = MATRIX_ATOM
    warp.converge((1 << WAVE_SIZE) - 1, atom.name)
    left, left_known = _operand(warp, a, atom.a)
    right, right_known = _operand(warp, b, atom.b)
    sums, known = warp.read_raw(c, atom.c.values)
    where = _places(atom.c)
    known = known & np.logical_and.outer(left_known.all(axis=1), right_known.all(axis=1))[where]
    warp.write(c, (sums + (left @ right.T)[where]).astype(np.float32), defined=known)


MATRIX_MULTIPLY = Instruction(
    MATRIX_ATOM.name,
    {},
    {},
    _multiply,
    execution_scope=ExecutionScope.WARP,
    needs=MATRIX_ATOM.needs,
    source="AMD Instinct MI300 Instruction Set Architecture, 'V_MFMA_F32_32X32X8_F16'",
)
"""Its arguments are three regions of registers: C, which it accumulates in, A and B."""
