"""`T.gemm`: matrix multiplication of tiles with accumulation."""

from __future__ import annotations

import enum
import itertools
from typing import NoReturn

import numpy as np

from tilelang.dtypes import DType
from tilelang.errors import ProgramAssertionError, ProgramError
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Const, Expr
from tilelang.ir.scalar import convert
from tilelang.ir.stmt import TileMemory, TileOp
from tilelang.ops.accumulator_dtype import accumulator_dtype
from tilelang.ops.describe import check_scalars, extent_text, matrix_axes, may_equal, operand_text, shape_text
from tilelang.records import record


class GemmWarpPolicy(enum.Enum):
    """The partition of C among the warps of a GPU; ignored by other targets."""

    Square = "square"
    FullRow = "full_row"
    FullCol = "full_col"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise ProgramError(
            f"T.GemmWarpPolicy: {value!r:.40} is no policy",
            hint="write T.GemmWarpPolicy.Square, .FullRow or .FullCol",
        )


MAX_PENDING = 7
"""The most asynchronous gemms that may be in flight after a wait; hardware counts no more."""

_EIGHT_BIT_FLOATS = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
# Dtypes that one matrix instruction may take as A and B: e4m3 and e5m2 of one encoding.
# Source: PTX ISA, "wgmma.mma_async" and "mma", .e4m3 and .e5m2 of each operand; for AMD, the bf8_fp8 forms of MFMA
_FAMILIES = (frozenset(_EIGHT_BIT_FLOATS[:2]), frozenset(_EIGHT_BIT_FLOATS[2:]))

# dtype of the operands -> permitted dtypes of C
_RESULTS: dict[str, tuple[str, ...]] = {
    "float64": ("float64",),
    "float32": ("float32", "float64"),
    "tfloat32": ("float32",),
    "float16": ("float32", "float16"),
    "bfloat16": ("float32", "bfloat16"),
    **dict.fromkeys(_EIGHT_BIT_FLOATS, ("float32",)),
    **dict.fromkeys(("int8", "uint8", "int4", "uint4", "int32"), ("int32",)),
}


def can_accumulate(operands: DType, accumulator: DType) -> bool:
    """Whether products of tiles of one dtype can be added up in another."""
    return str(accumulator) in _RESULTS.get(str(operands), ())


@record(eq=False)
class Gemm(TileOp):
    """`C = (0 if clear_accum else C) + op(A) @ op(B)`, accumulated in C's dtype (float32 for narrower floats).

    Shapes: A (M, K), or (K, M) if `transpose_a`; B (K, N), or (N, K) if `transpose_b`; C (M, N), or (N, M) if
    `transpose_c`. Leading unit extents of the regions are dropped. An operand in the accumulator's dtype beside one in
    a 16-bit dtype is first rounded to the other's dtype. Two 8-bit floats of one family need not be the same one.

    Attributes:
        a: The left operand.
        b: The right operand.
        c: The accumulator.
        transpose_a: Whether A is stored as (K, M).
        transpose_b: Whether B is stored as (N, K).
        clear_accum: Whether C is zeroed first; None means never.
        policy: How the warps of a GPU partition C.
        wait: With asynchronous mma instructions: how many of the latest gemms, including this one, may still be in
            flight after it; -1 if the program waits explicitly.
        follows_wait: With a `wait` other than 0: whether no gemm in flight uses C, so that threads may have written it.
        transpose_c: Whether C is stored as (N, M), as where the compiler has swapped the operands.
        first: Fragments that hold the operands of the first step along K, in place of A and B.
        last: Fragments to which the operands of the last step along K are loaded; they are not multiplied.
    """

    a: Region
    b: Region
    c: Region
    transpose_a: bool = False
    transpose_b: bool = False
    clear_accum: Expr | None = None
    policy: GemmWarpPolicy = GemmWarpPolicy.Square
    wait: int = 0
    follows_wait: bool = False
    transpose_c: bool = False
    first: tuple[Region, Region] | None = None
    last: tuple[Region, Region] | None = None

    @property
    def name(self) -> str:
        """Name in messages."""
        return "T.gemm" if self.request is None else self.request.name

    @property
    def always_clears(self) -> bool:
        """Whether C is zeroed unconditionally."""
        return isinstance(self.clear_accum, Const) and bool(self.clear_accum.value)

    @property
    def operands(self) -> tuple[DType, DType]:
        """The dtypes of A and B in the multiplication, after a wide operand is rounded."""
        a, b = self.a.dtype, self.b.dtype
        return (b if self._rounds(a, b) else a), (a if self._rounds(b, a) else b)

    @property
    def multiplied(self) -> str:
        """`operands` as text: one dtype, or two joined by "by"."""
        return " by ".join(dict.fromkeys(map(str, self.operands)))

    def _rounds(self, wide: DType, other: DType) -> bool:
        """Whether elements of `wide` are rounded to `other` before they are multiplied."""
        return wide == self.c.dtype and wide.bits > 16 and wide.is_float and other.is_float and other.bits == 16

    @property
    def accumulator_dtype(self) -> DType:
        """The dtype of accumulation."""
        return accumulator_dtype(self.c.dtype, self.c.dtype)

    @property
    def sizes(self) -> tuple[Expr, Expr, Expr]:
        """M, N and K."""
        a, (m, n) = matrix_extents(self.a), (self.c.extent[axis] for axis in self.axes_of_c)
        return m, n, a[0] if self.transpose_a else a[1]

    @property
    def axes_of_c(self) -> tuple[int, int]:
        """The dimensions of C along M and along N."""
        first, second = matrix_axes(self.c)
        return (second, first) if self.transpose_c else (first, second)

    @property
    def axes_along_k(self) -> tuple[int, int]:
        """The dimensions of A and of B along K."""
        (a0, a1), (b0, b1) = matrix_axes(self.a), matrix_axes(self.b)
        return a0 if self.transpose_a else a1, b1 if self.transpose_b else b0

    def reads(self) -> tuple[Region, ...]:
        """A, B, C unless it is always cleared, and the first step."""
        return (self.a, self.b, *(() if self.always_clears else (self.c,)), *(self.first or ()))

    def writes(self) -> tuple[Region, ...]:
        """C, and the last step."""
        return (self.c, *(self.last or ()))

    def check(self) -> None:
        """Checks scopes, shapes and dtypes, in this order."""
        self.check_scopes(Scope.SHARED, Scope.FRAGMENT, Scope.LOCAL)
        self._check_shapes()
        self._check_dtypes()

    def check_scopes(self, *allowed: Scope) -> None:
        """Checks the scopes of the operands.

        Raises:
            ProgramError: One is in another scope.
        """
        for letter, region in zip("ABC", (self.a, self.b, self.c), strict=True):
            scope, buffer = region.buffer.scope, region.buffer
            if scope in allowed:
                continue
            if letter == "C":
                hint = "accumulate in a fragment of T.alloc_fragment and T.copy it out after the last T.gemm"
            elif scope is Scope.GLOBAL:
                hint = f"T.copy the tile into a buffer of T.alloc_shared first, and pass that as {letter}"
            else:
                hint = "allocate it with T.alloc_shared or T.alloc_fragment"
            raise ProgramError(
                f"{self.name}: {letter} '{buffer.name}' is in scope {scope.value!r}, but a shared or fragment tile "
                "is needed",
                hint=hint,
            )

    def _check_shapes(self) -> None:
        shapes = []
        for letter, region in zip("ABC", (self.a, self.b, self.c), strict=True):
            shape = matrix_extents(region)
            if len(shape) != 2:
                raise ProgramError(
                    f"{self.name}: {letter} {operand_text(region)}, but a matrix of two dimensions is needed",
                    hint="select one with indices, as in A_s[stage, :, :]; a single row is A_s[i:i + 1, :]",
                )
            shapes.append(shape)
        a, b, c = shapes
        c = c[::-1] if self.transpose_c else c
        m, k = a[::-1] if self.transpose_a else a
        k_of_b, n = b[::-1] if self.transpose_b else b
        if not may_equal(k, k_of_b):
            raise ProgramAssertionError(
                f"{self.name}: A is {self._shown(a, self.transpose_a)} and B is {self._shown(b, self.transpose_b)}, "
                f"so K is {extent_text(k)} on one side and {extent_text(k_of_b)} on the other",
                hint=self._remedy(a, b, c),
            )
        for letter, size, of_c in (("M", m, c[0]), ("N", n, c[1])):
            if not may_equal(size, of_c):
                raise ProgramAssertionError(
                    f"{self.name}: A is {self._shown(a, self.transpose_a)} and B is "
                    f"{self._shown(b, self.transpose_b)}, but C is {shape_text(c)}: {letter} is {extent_text(size)} "
                    f"on one side and {extent_text(of_c)} on the other",
                    hint=self._remedy(a, b, c),
                )

    @staticmethod
    def _shown(shape: tuple[Expr, ...], transposed: bool) -> str:
        return f"{shape_text(shape)} transposed" if transposed else shape_text(shape)

    def _remedy(self, a: tuple[Expr, ...], b: tuple[Expr, ...], c: tuple[Expr, ...]) -> str:
        """The smallest change that makes the shapes agree: flags if they suffice, else also the shape of C."""
        remedies = []
        for transpose_a, transpose_b in itertools.product((self.transpose_a, not self.transpose_a), (False, True)):
            m, k = a[::-1] if transpose_a else a
            k_of_b, n = b[::-1] if transpose_b else b
            if not may_equal(k, k_of_b):
                continue
            changes = [f"transpose_A={transpose_a}"] * (transpose_a != self.transpose_a)
            changes += [f"transpose_B={transpose_b}"] * (transpose_b != self.transpose_b)
            fits = may_equal(m, c[0]) and may_equal(n, c[1])
            parts = [f"write {', '.join(changes)}"] if changes else []
            parts += [] if fits else [f"give C the shape {shape_text((m, n))}"]
            remedies.append((not fits, len(changes), ", and ".join(parts)))
        if remedies:
            return min(remedies)[2]
        return "A is (M, K), or (K, M) with transpose_A=True; B is (K, N), or (N, K) with transpose_B=True"

    def _check_dtypes(self) -> None:
        check_scalars(self.name, self.a, self.b, self.c)
        a, b, c = self.a.dtype, self.b.dtype, self.c.dtype
        left, right = self.operands
        if left != right and not any({str(left), str(right)} <= family for family in _FAMILIES):
            raise ProgramError(
                f"{self.name}: A is {a!s} and B is {b!s}, but both must have one dtype",
                hint="T.copy one of them into a tile of the other's dtype first",
            )
        results = _RESULTS.get(str(left), ())
        if not results:
            raise ProgramError(
                f"{self.name}: operands of dtype {left!s} cannot be multiplied",
                hint=f"use one of {', '.join(_RESULTS)}",
            )
        if c not in results:
            raise ProgramError(
                f"{self.name}: the product of {left!s} tiles cannot be accumulated in {c!s}",
                hint=f"allocate C as {' or '.join(results)}",
            )

    def reference(self, memory: TileMemory) -> None:
        """NumPy's matrix product in the accumulator dtype."""
        a, b = self._matrices(memory, (self.a, self.b))
        if self.first is not None:
            first_a, first_b = self._matrices(memory, self.first)
            a[:, : len(first_b)], b[: len(first_b)] = first_a, first_b
        if self.last is not None:
            for region, axis, step in zip((self.a, self.b), self.axes_along_k, self.last, strict=True):
                memory.move(_end_of(region, axis, step), step)
            steps = len(b) - len(self._matrices(memory, self.last)[1])
            a, b = a[:, :steps], b[:steps]
        product = a @ b
        product = product.T if self.transpose_c else product
        if self.clear_accum is None or not memory.value(self.clear_accum):
            old = memory.read(self.c)
            product = product.reshape(old.shape) + old.astype(self.accumulator_dtype.numpy)
        memory.write(self.c, np.asarray(convert(product, self.c.dtype)))

    def _matrices(self, memory: TileMemory, operands: tuple[Region, Region]) -> tuple[np.ndarray, np.ndarray]:
        """The values of A and B, or of a step of them. Shapes: (M, K), (K, N)."""
        a, b = (self._matrix(memory, x, dtype) for x, dtype in zip(operands, self.operands, strict=True))
        return a.T if self.transpose_a else a, b.T if self.transpose_b else b

    def _matrix(self, memory: TileMemory, region: Region, dtype: DType) -> np.ndarray:
        values = memory.read(region)
        rows, columns = matrix_axes(region)
        rounded = np.asarray(convert(values, dtype)).astype(self.accumulator_dtype.numpy)
        return rounded.reshape(values.shape[rows], values.shape[columns])


def _end_of(region: Region, axis: int, step: Region) -> Region:
    """The end of an operand along a dimension, as long as a step of it."""
    start, extent = list(region.start), list(region.extent)
    extent[axis] = matrix_extents(step)[matrix_axes(region).index(axis)]
    start[axis] = start[axis] + region.extent[axis] - extent[axis]
    return Region(region.buffer, tuple(start), tuple(extent))


def matrix_extents(region: Region) -> tuple[Expr, ...]:
    """The extents of a region as a matrix, by `matrix_axes`."""
    return tuple(region.extent[axis] for axis in matrix_axes(region))
