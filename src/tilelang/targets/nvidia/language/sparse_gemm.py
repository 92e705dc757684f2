"""Gemms with a left operand of 2:4 structured sparsity: `T.gemm_sp`, `T.wgmma_gemm_sp`.

Takes the nonzero elements, metadata with their positions, and the other operands; emits a loop that decompresses the
tile in shared memory, and a dense gemm of that tile. Invariant: every target does the same; it saves global memory and
its traffic, not arithmetic.

Source of the metadata: PTX ISA, "Sparse matrix storage" of "mma.sp"; 4 bits per group of elements.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tilelang.dtypes import INT32, SCALARS
from tilelang.errors import ProgramAssertionError, ProgramError, ProgramValueError
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.builder import as_body
from tilelang.ir.expr import Const, Expr, ExprLike, Load, Var, as_expr, cast, const, select
from tilelang.ir.stmt import Alloc, ParallelLoop, Stmt, Store
from tilelang.language.api import api
from tilelang.language.calls import inside_kernel
from tilelang.language.operators import emit_op, plain_bool, plain_int
from tilelang.language.products import product
from tilelang.language.proxy import BufferProxy, TileProxy
from tilelang.language.regions import Operand, tile_region
from tilelang.ops.describe import matrix_axes, operand_text, shape_text
from tilelang.ops.gemm import MAX_PENDING, GemmWarpPolicy, matrix_extents
from tilelang.records import record
from tilelang.targets.nvidia.requests import request_wgmma

__all__ = [
    "gemm_sp",
    "wgmma_gemm_sp",
]

_CODE_BITS = 4
_CODES = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
_WORD = SCALARS["uint32"]


@api
def gemm_sp(
    A_sparse: Operand,
    E: Operand,
    B: Operand,
    C: Operand,
    transpose_A: bool = False,
    transpose_E: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: ExprLike = False,
    wg_wait: int = 0,
    annotations: Mapping[str, object] | None = None,
) -> None:
    """`C += A @ B` with a sparse A, of which half of the elements are stored (2:4 structured sparsity).

    Of each 4 neighbors along K, 2 are stored; of each 2 where elements have 32 bits, 1. The others are zero. The
    metadata has 4 bits for each such group: bits 0 and 1 are the position of the first stored element, bits 2 and 3
    that of the second. Of groups of 2, 0b0100 stores the first element and 0b1110 the second. Groups follow each other
    in the elements of E, the lowest bits first.

    The tile is decompressed in shared memory, which takes M * K elements there, and multiplied like any other.

    Shapes: A_sparse (M, K / 2), or (K / 2, M) if transposed; E (M, K / f), or (K / f, M), where f is the number of bits
    of an element of E, half of that where elements of A have 32 bits; B (K, N), or (N, K); C (M, N).

    Args:
        A_sparse: The stored elements, in shared memory or a fragment.
        E: The metadata, as int8, uint8, int16 or int32, in shared memory or a fragment.
        B: Right operand, as of `T.gemm`.
        C: Accumulator, as of `T.gemm`.
        transpose_A: Whether A is stored as (K / 2, M).
        transpose_E: Whether E is stored as (K / f, M).
        transpose_B: Whether B is stored as (N, K).
        policy: How the tile is partitioned among the warps of a GPU.
        clear_accum: Whether C starts at zero; may be an expression.
        wg_wait: As of `T.gemm`; the gemm is complete in any case.
        annotations: Steer GPU targets only.

    Raises:
        ProgramAssertionError: The sizes of two operands do not fit.
        ProgramError: Dtypes, dimensions or scopes do not fit.

    Example:
        `T.gemm_sp(A_s, E_s, B_s, C_f)`
    """
    what = "T.gemm_sp"
    del annotations
    pending = plain_int(what, "wg_wait", wg_wait)
    if not -1 <= pending <= MAX_PENDING:
        raise ProgramValueError(f"{what}: wg_wait is {pending}", hint=f"write a number from -1 to {MAX_PENDING}")
    left = _Sparse(what, tile_region(A_sparse, what), tile_region(E, what), transpose_A, transpose_E)
    transposed = False, transpose_B, False, False
    emit_op(product(what, left.written_out(), B, C, transposed, policy, clear_accum))


@api
def wgmma_gemm_sp(
    A_sparse: Operand,
    E: Operand,
    B: Operand,
    C: Operand,
    transpose_A: bool = False,
    transpose_E: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: ExprLike = False,
    annotations: Mapping[str, object] | None = None,
) -> None:
    """`T.gemm_sp` by wgmma. Needs sm_90a.

    It is complete when the statement is; `T.wait_wgmma` after it does not wait. Shapes and arguments are those of
    `T.gemm_sp`.

    Raises:
        NoLowering: The GPU has no wgmma, or wgmma cannot do this gemm, with the reason.
        ProgramError: As of `T.gemm_sp`.
    """
    what = "T.wgmma_gemm_sp"
    del annotations
    inside_kernel(what)
    left = _Sparse(what, tile_region(A_sparse, what), tile_region(E, what), transpose_A, transpose_E)
    op = product(what, left.written_out(), B, C, (False, transpose_B, False, False), policy, clear_accum)
    emit_op(dataclasses.replace(op, request=request_wgmma(what, "T.gemm_sp")))


@record
class _Sparse:
    """A left operand with its metadata.

    Attributes:
        what: The function that the user calls.
        kept: The stored elements.
        codes: The metadata.
        transposed: Whether elements are stored as (K / 2, M).
        turned: Whether codes are stored as (K / f, M).
    """

    what: str
    kept: Region
    codes: Region
    transposed: bool
    turned: bool

    def written_out(self) -> TileProxy:
        """Emits the loop that writes the tile out; gives the tile. Shapes: (M, K).

        Raises:
            ProgramError: The operands do not fit each other.
        """
        rows, groups = self._checked()
        per_group = 2 if self._wide else 4
        stager, _ = inside_kernel(self.what)
        shape = tuple(as_expr(extent) for extent in (rows, groups * per_group))
        tile = Buffer(stager.unique(f"{self.kept.buffer.name}_dense"), shape, self.kept.dtype, Scope.SHARED)
        stager.emit(Alloc(tile))
        i, group, word = Var("i", INT32, index=True), Var("g", INT32, index=True), self.codes.dtype
        per_element = word.bits // _CODE_BITS
        code = cast(_load(self.codes, i, group // per_element, turned=self.turned), _WORD)
        code = code >> cast(group % per_element * _CODE_BITS, _WORD)
        stores: list[Stmt] = []
        for position in range(per_group):
            value = self._element(i, group, code, position)
            stores.append(Store(tile, (i, group * per_group + position), value, loc=stager.loc))
        stager.emit(ParallelLoop((i, group), (const(rows, INT32), const(groups, INT32)), as_body(stores)))
        return BufferProxy(tile)

    @property
    def _wide(self) -> bool:
        return self.kept.dtype.bits == 32

    def _element(self, i: Expr, group: Expr, code: Expr, position: int) -> Expr:
        """Return the element at a position of a group: one of its kept elements, or zero."""
        zero = Const(0 if self.kept.dtype.is_int else 0.0, self.kept.dtype)
        if self._wide:  # the code names both halves of the kept element
            return select(_place(code, 1, 1) == position, self._kept(i, group), zero)
        first, second = self._kept(i, group * 2), self._kept(i, group * 2 + 1)
        return select(_place(code, 0, 3) == position, first, select(_place(code, 2, 3) == position, second, zero))

    def _kept(self, i: Expr, k: Expr) -> Expr:
        return _load(self.kept, i, k, turned=self.transposed)

    def _checked(self) -> tuple[int, int]:
        """M, and the groups along K."""
        given = (("transpose_A", self.transposed), ("transpose_E", self.turned))
        flags = [plain_bool(self.what, name, flag) for name, flag in given]
        sizes: list[tuple[int, int]] = []
        for letter, region, turned in zip("AE", (self.kept, self.codes), flags, strict=True):
            static = Region(region.buffer, region.start, matrix_extents(region)).static_extent
            if region.buffer.scope not in (Scope.SHARED, Scope.FRAGMENT) or static is None or len(static) != 2:
                raise ProgramError(
                    f"{self.what}: {letter} {operand_text(region)} in scope {region.buffer.scope.value!r}, but a "
                    "matrix of constant extents in shared memory or a fragment is needed",
                    hint="T.copy it into a buffer of T.alloc_shared first",
                )
            sizes.append((static[1], static[0]) if turned else (static[0], static[1]))
        if self.codes.dtype not in _CODES:
            raise ProgramValueError(
                f"{self.what}: '{self.codes.buffer.name}' holds codes in {self.codes.dtype!s}",
                hint=f"use one of {', '.join(_CODES)}",
            )
        if self.kept.dtype.bits not in (8, 16, 32):
            raise ProgramValueError(
                f"{self.what}: no elements of {self.kept.dtype!s} are left out", hint="use 8, 16 or 32 bits"
            )
        (rows, kept), (rows_of_codes, elements) = sizes
        groups = kept if self._wide else kept // 2
        wanted = rows, -(-groups * _CODE_BITS // self.codes.dtype.bits)
        if (rows_of_codes, elements) != wanted or not self._wide and kept % 2:
            raise ProgramAssertionError(
                f"{self.what}: A keeps {shape_text(list(map(as_expr, (rows, kept))))} of {self.kept.dtype!s}, but E is "
                f"{shape_text(list(map(as_expr, (rows_of_codes, elements))))} of {self.codes.dtype!s}",
                hint=f"give E the shape {shape_text(list(map(as_expr, wanted)))}, transposed if transpose_E is set",
            )
        return rows, groups


def _place(code: Expr, shift: int, mask: int) -> Expr:
    """A part of a code, as a number."""
    return cast((code >> Const(shift, _WORD)) & Const(mask, _WORD), INT32)


def _load(region: Region, row: Expr, column: Expr, *, turned: bool) -> Load:
    """An element of a matrix by its row along M and its column along K."""
    at = list(region.start)
    for axis, index in zip(matrix_axes(region), (column, row) if turned else (row, column), strict=True):
        at[axis] = at[axis] + index
    return Load(region.buffer, tuple(at), region.dtype)
