"""The matrix instructions of a warp, called by name: `ldmatrix`, `stmatrix` and `mma` (level 3).

Takes addresses in shared memory and in a thread's own buffers, emits calls of instructions. Invariant: a call lists
the regions of buffers that it accesses.
"""

from __future__ import annotations

from tilelang.dtypes import DType, as_dtype
from tilelang.errors import ProgramError
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import ExprLike, as_expr
from tilelang.language.address import pointer_to
from tilelang.language.api import api
from tilelang.language.calls import emit_call
from tilelang.language.pointers import Place, neighbors, pointer_of
from tilelang.language.views import view_of
from tilelang.targets.nvidia.isa.atom import mma
from tilelang.targets.nvidia.isa.ldmatrix import REGISTER_BYTES, ROW_BYTES, ldmatrix, stmatrix
from tilelang.targets.nvidia.isa.mma import ATOMS

__all__ = [
    "ptx_ldmatrix",
    "ptx_mma",
    "ptx_stmatrix",
]

# PTX's short names of dtypes, which these functions accept besides the long ones
_SHORT = {
    "fp16": "float16",
    "bf16": "bfloat16",
    "tf32": "tfloat32",
    "fp32": "float32",
    "fp64": "float64",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
}
_PACKED = ("uint32", "int32")  # registers that may hold several narrower elements
_REGISTER_BITS = 32


@api
def ptx_ldmatrix(trans: bool, num: int, src_access_ptr: Place, dst_access_ptr: Place) -> None:
    """Loads `num` matrices of 8 rows of 16 bytes from shared memory into the registers of a warp.

    Lane l gives the address of row l % 8 of matrix l // 8. Each lane receives 4 neighboring bytes of one row of each
    matrix into consecutive elements; if `trans`, of one column of its pairs of bytes.

    Args:
        trans: Whether the matrices are transposed on the way.
        num: 1, 2 or 4.
        src_access_ptr: This lane's row of 16 bytes in shared memory.
        dst_access_ptr: The first of the elements of a local buffer, 4 * num bytes.

    Raises:
        ProgramError: There is no such number of matrices.
    """
    what = "T.ptx_ldmatrix"
    instruction = ldmatrix(_matrices(what, num), bool(trans))
    source, target = _bytes(what, src_access_ptr, ROW_BYTES), _bytes(what, dst_access_ptr, REGISTER_BYTES * num)
    emit_call(what, instruction, target, source, reads=(source,), writes=(target,))


@api
def ptx_stmatrix(trans: bool, num: int, src_access_ptr: Place, dst_access_ptr: Place) -> None:
    """Stores matrices from the registers of a warp in shared memory; the reverse of `T.ptx_ldmatrix`. Needs sm_90.

    Args:
        trans: Whether the matrices are transposed on the way.
        num: 1, 2 or 4.
        src_access_ptr: The first of the elements of a local buffer, 4 * num bytes.
        dst_access_ptr: This lane's row of 16 bytes in shared memory.

    Raises:
        ProgramError: There is no such number of matrices.
    """
    what = "T.ptx_stmatrix"
    instruction = stmatrix(_matrices(what, num), bool(trans))
    source, target = _bytes(what, src_access_ptr, REGISTER_BYTES * num), _bytes(what, dst_access_ptr, ROW_BYTES)
    emit_call(what, instruction, target, source, reads=(source,), writes=(target,))


@api
def ptx_mma(
    dtype: object,
    shape: str,
    A_layout: str,
    B_layout: str,
    A_dtype: object,
    B_dtype: object,
    C_dtype: object,
    multiplicand_a: Place,
    a_index: ExprLike,
    multiplicand_b: Place,
    b_index: ExprLike,
    accumulator: Place,
    c_index: ExprLike,
    saturate: bool = False,
    operator: str | None = None,
) -> None:
    """`C += A @ B` on the registers of a warp, by one matrix instruction.

    Args:
        dtype: Of the accumulator, as `C_dtype`.
        shape: Such as "m16n8k16".
        A_layout: "row": the instructions take no other.
        B_layout: "col": the columns of B lie along the lanes.
        A_dtype: Of the elements of A, by any name or one of PTX's: "fp16", "bf16", "tf32", "int8", "e4m3".
        B_dtype: Of the elements of B.
        C_dtype: Of the accumulator, such as "fp32".
        multiplicand_a: A local buffer that holds this lane's elements of A; one of uint32 holds several in each.
        a_index: Where in it they begin.
        multiplicand_b: A local buffer that holds this lane's elements of B.
        b_index: Where in it they begin.
        accumulator: A local buffer that holds this lane's elements of C.
        c_index: Where in it they begin.
        saturate: Only False.
        operator: Only None; the mma of single bits has others.

    Raises:
        ProgramError: There is no such instruction, or a buffer holds other elements.

    Source: PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions: mma", for which lane holds which element.
    """
    what = "T.ptx_mma"
    if (A_layout, B_layout) != ("row", "col"):
        raise ProgramError(f"{what}: there is none of layouts {A_layout!r} and {B_layout!r}", hint="write 'row', 'col'")
    if saturate or operator is not None:
        raise ProgramError(f"{what}: only with saturate=False and operator=None", hint="leave them out")
    dtypes = tuple(_matrix_dtype(kind) for kind in (C_dtype, A_dtype, B_dtype))
    if _matrix_dtype(dtype) != dtypes[0]:
        raise ProgramError(f"{what}: dtype is {dtype!s}, but C_dtype is {dtypes[0]!s}", hint="write it twice")
    atoms = [x for x in ATOMS if dtypes == (x.c_dtype, x.a_dtype, x.b_dtype)]
    for atom in atoms:
        m, n, k = atom.shape
        if shape == f"m{m}n{n}k{k}":
            break
    else:
        shapes = ", ".join("m{}n{}k{}".format(*x.shape) for x in atoms)
        raise ProgramError(
            f"{what}: no instruction of shape {shape!r} multiplies {dtypes[1]!s} by {dtypes[2]!s} into {dtypes[0]!s}",
            hint=f"for these dtypes write one of {shapes}" if shapes else "use dtypes of the matrix instructions",
        )
    places = ((accumulator, c_index), (multiplicand_a, a_index), (multiplicand_b, b_index))
    counts = (atom.c.values, atom.a.values, atom.b.values)
    sums, left, right = (
        neighbors(_elements(what, place, index, kind), count)
        for (place, index), kind, count in zip(places, dtypes, counts, strict=True)
    )
    emit_call(what, mma(atom), sums, left, right, reads=(sums, left, right), writes=(sums,))


def _bytes(what: str, place: Place, size: int) -> Region:
    """The elements along the last dimension that `size` bytes from a place on hold."""
    region = pointer_of(what, place).region
    return neighbors(region, size // region.dtype.storage_bytes)


def _matrices(what: str, num: int) -> int:
    if num not in (1, 2, 4):
        raise ProgramError(f"{what}: num is {num!r:.40}", hint="write 1, 2 or 4")
    return num


def _matrix_dtype(name: object) -> DType:
    """A dtype by its name, or by the short one that matrix instructions know it under."""
    return as_dtype(_SHORT.get(name, name) if isinstance(name, str) else name)


def _elements(what: str, place: Place, index: ExprLike, dtype: DType) -> Region:
    """Where a lane's operand begins; registers of 32 bits may hold several elements each, and then are counted."""
    region = pointer_of(what, place).region
    packed = _REGISTER_BITS // dtype.bits if region.dtype in _PACKED and region.buffer.rank == 1 else 1
    if packed > 1 and region.buffer.scope is Scope.LOCAL:
        elements = view_of(what, region.buffer, (region.buffer.shape[0] * packed,), dtype)
        return Region(elements.buffer, ((region.start[0] + index) * packed,), (as_expr(1),))
    return pointer_to(_held(what, place, dtype), offset=index).region


def _held(what: str, place: Place, dtype: DType) -> Region:
    """Where a lane's operand begins, whose elements are of a dtype; those of tfloat32 may be float32 by name."""
    region = pointer_of(what, place).region
    if region.dtype != dtype and (region.dtype, dtype) != ("float32", "tfloat32"):
        raise ProgramError(f"{what}: '{region.buffer.name}' holds {region.dtype!s}, not {dtype!s}")
    return region
