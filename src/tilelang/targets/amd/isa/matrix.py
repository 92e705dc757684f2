"""`MatrixInstruction`: one MFMA or WMMA instruction of a wave, described by the fragments of its operands.

Gives the fragments, the meaning and the text of each. Invariant: fragments have the shapes (blocks, M, K) for A,
(blocks, N, K) for B and (blocks, M, N) for C and D, called the sums; blocks are independent products.

Source: AMD Instinct MI200, MI300 and CDNA 4 Instruction Set Architecture, "Matrix Arithmetic Instructions" and "Dense
Matrices: Register Layout"; RDNA 3 and RDNA 4 Instruction Set Architecture, "Wave Matrix Multiply Accumulate".
"""

from __future__ import annotations

import enum
from functools import cached_property

import ml_dtypes
import numpy as np

from tilelang.dtypes import DType
from tilelang.ir.scalar import convert
from tilelang.layout.digits import Mode
from tilelang.layout.thread_values import Fragment, digit, fragment
from tilelang.records import record
from tilelang.targets.amd.machines import CDNA_WAVE, RDNA_WAVE, Feature
from tilelang.targets.machine import Machine

_CONTIGUOUS_ROWS = 4  # of MFMA's sums, in consecutive registers of a lane
_XF32_MASK = np.uint32(0xFFFFE000)  # xf32 ignores the 13 lowest bits of operands


class Operands(enum.Enum):
    """The register layouts of operands."""

    MFMA = "mfma"  # each element in one lane
    REPEATED = "repeated"  # WMMA of gfx11: both halves of the wave hold all elements of A and B
    SPLIT = "split"  # WMMA of gfx12: each half of the wave holds half of the elements


@record
class MatrixInstruction:
    """`D[b, i, j] = C[b, i, j] + sum over k of A[b, i, k] * B[b, j, k]`, executed by one wave.

    Attributes:
        operands: The register layout of its operands.
        builtin: The builtin of clang, without `__builtin_amdgcn_`.
        shape: M, N and K; M equals N.
        a_dtype: Of the elements of A.
        b_dtype: Of the elements of B.
        c_dtype: Of the sums.
        needs: What the machine must have.
        cycles: Clocks for which it occupies the matrix unit of a SIMD; 0 if the machine has no other shape.
        blocks: The number of independent products.
        operand_type: The element type of the vectors that clang declares for A and B.
        flushes: Whether subnormal elements of 16 bits, and subnormal sums, are flushed to zero.
        arguments: Template of the call's arguments, with placeholders for A, B and C.
        variant: Distinguishes it from others of the same builtin.
    """

    operands: Operands
    builtin: str
    shape: tuple[int, int, int]
    a_dtype: DType
    b_dtype: DType
    c_dtype: DType
    needs: Feature
    cycles: int = 0
    blocks: int = 1
    operand_type: str = "int"
    flushes: bool = False
    arguments: str = "{a}, {b}, {c}, 0, 0, 0"
    variant: str = ""

    @property
    def wave(self) -> int:
        """Lanes of the wave."""
        return CDNA_WAVE if self.operands is Operands.MFMA else RDNA_WAVE

    @property
    def groups(self) -> int:
        """Groups of lanes, each of which holds every row (or column) once."""
        return self.wave // self.shape[0]

    @property
    def k_groups(self) -> int:
        """Groups of lanes that hold different elements along K."""
        return 1 if self.operands is Operands.REPEATED else self.groups // self.blocks

    @property
    def name(self) -> str:
        """The name in programs and messages."""
        return "_".join(filter(None, (self.builtin, self.variant, "flush" if self.flushes else "")))

    def runs_on(self, machine: Machine) -> bool:
        """Whether a machine has it, with the same treatment of subnormal numbers."""
        sixteen = self.a_dtype.bits == 16
        return machine.has(self.needs) and (not sixteen or self.flushes == machine.has(Feature.MFMA_FLUSHES))

    @cached_property
    def a(self) -> Fragment:
        """Which lane holds which elements of A. Shapes: (blocks, M, K)."""
        return self._input

    @cached_property
    def b(self) -> Fragment:
        """Which lane holds which elements of B. Shapes: (blocks, N, K)."""
        return self._input

    @property
    def _input(self) -> Fragment:
        size, _, k = self.shape
        shape = (self.blocks, size, k)
        row = digit(size, 0, 1, 0)
        if self.operands is Operands.REPEATED:
            return fragment(shape, [row, digit(self.groups, 0, 0, 0)], [digit(k, 0, 0, 1)])
        values = k * self.blocks // self.groups
        if self.operands is Operands.SPLIT and self.a_dtype.bits == 16:
            half = values // 2
            return fragment(shape, [row, digit(2, 0, 0, half)], [digit(half, 0, 0, 1), digit(2, 0, 0, 2 * half)])
        thread = [row, digit(self.blocks, 1, 0, 0), digit(self.groups // self.blocks, 0, 0, values)]
        return fragment(shape, thread, [digit(values, 0, 0, 1)])

    @cached_property
    def c(self) -> Fragment:
        """Which lane holds which of the sums. Shapes: (blocks, M, N)."""
        size, _, _ = self.shape
        shape = (self.blocks, size, size)
        column = digit(size, 0, 0, 1)
        values = size // self.groups
        if self.operands is Operands.REPEATED:
            return fragment(shape, [column, digit(self.groups, 0, 1, 0)], [digit(values, 0, self.groups, 0)])
        if self.operands is Operands.SPLIT:
            return fragment(shape, [column, digit(self.groups, 0, values, 0)], [digit(values, 0, 1, 0)])
        if self.c_dtype == "float64":
            thread = [column, digit(self.blocks, 1, 0, 0), digit(self.groups // self.blocks, 0, 1, 0)]
            return fragment(shape, thread, [digit(size * self.blocks // self.groups, 0, self.groups, 0)])
        # groups of lanes, then values, count groups of rows, and then blocks
        quads = size // _CONTIGUOUS_ROWS
        inside = min(self.groups, quads)
        thread = [column, digit(inside, 0, _CONTIGUOUS_ROWS, 0), digit(self.groups // inside, 1, 0, 0)]
        beyond = digit(self.blocks * inside // self.groups, self.groups // inside, 0, 0)
        value = [digit(_CONTIGUOUS_ROWS, 0, 1, 0), digit(quads // inside, 0, _CONTIGUOUS_ROWS * inside, 0), beyond]
        return fragment(shape, thread, value)

    @property
    def slots(self) -> list[tuple[Mode, bool]]:
        """The digits of a row of the sums, least significant first: its stride in a lane's values, or in groups.

        Each with whether it counts values. Only of instructions of one block.
        """
        found = []
        for digits, is_value in ((self.c.thread[1:], False), (self.c.value, True)):
            place = 1
            for mode in digits:
                found.append((mode.stride[1], Mode(mode.size, (place,)), is_value))
                place *= mode.size
        return [(mode, is_value) for _, mode, is_value in sorted(found, key=lambda entry: entry[0])]

    # -- meaning --------------------------------------------------------------------------------------------
    def multiply(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        """The sums of all lanes, from the operands of all lanes.

        Shapes: a and b (wave, elements), c (wave, sums) -> (wave, sums).
        """
        left, right = self._matrix(a, self.a), self._matrix(b, self.b)
        wide = np.int64 if self.c_dtype.is_int else np.float64
        with np.errstate(all="ignore"):
            sums = c.astype(wide) + np.matmul(left.astype(wide), right.astype(wide).transpose(0, 2, 1))[self.c.places]
        result = np.asarray(convert(sums, self.c_dtype))
        return _flushed(result) if self.flushes else result

    def defined_sums(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Which sums are defined, from masks of the defined elements. Shapes as for `multiply`."""
        rows, columns = np.all(self._scattered(a, self.a), axis=2), np.all(self._scattered(b, self.b), axis=2)
        return np.asarray(np.logical_and(rows[:, :, None], columns[:, None, :])[self.c.places])

    def _matrix(self, values: np.ndarray, layout: Fragment) -> np.ndarray:
        if self.a_dtype == "tfloat32":
            values = (np.ascontiguousarray(values).view(np.uint32) & _XF32_MASK).view(np.float32)
        return self._scattered(_flushed(values) if self.flushes else values, layout)

    @staticmethod
    def _scattered(values: np.ndarray, layout: Fragment) -> np.ndarray:
        matrix: np.ndarray = np.zeros(layout.shape, values.dtype)
        matrix[layout.places] = values
        return matrix

    # -- text -----------------------------------------------------------------------------------------------
    def call(self, a: str, b: str, c: str) -> str:
        """The expression of the sums."""
        return f"__builtin_amdgcn_{self.builtin}({self.arguments.format(a=a, b=b, c=c)})"


def _flushed(values: np.ndarray) -> np.ndarray:
    """The values, with subnormal ones replaced by zeros of their sign."""
    wide = values.astype(np.float64)
    least = float(ml_dtypes.finfo(values.dtype).smallest_normal)
    return np.where(np.abs(wide) < least, np.copysign(0.0, wide), wide).astype(values.dtype)
