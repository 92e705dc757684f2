"""Instructions that take addresses: hinted loads and stores, copies in the background, matrix products (level 3).

Takes elements (`A[i, j]`), tiles and pointers made of them, emits calls of instructions. Invariant: an address always
belongs to a buffer, so that bounds are known; what a call touches is written down with it.
"""

from __future__ import annotations

from tilelang.dtypes import BOOL, DType, as_dtype
from tilelang.errors import ProgramError
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Const, Expr, ExprLike, Load, as_bool, as_expr, cast, int_const
from tilelang.isa.nvidia.atom import mma
from tilelang.isa.nvidia.cp_async import CP_ASYNC_COMMIT, CP_ASYNC_WAIT, cp_async
from tilelang.isa.nvidia.ldmatrix import ldmatrix, stmatrix
from tilelang.isa.nvidia.memory import CacheHint
from tilelang.isa.nvidia.memory import load as hinted_load
from tilelang.isa.nvidia.memory import store as hinted_store
from tilelang.isa.nvidia.mma import ATOMS
from tilelang.language.address import Pointer
from tilelang.language.api import api
from tilelang.language.calls import emit_call
from tilelang.language.proxy import TileProxy

__all__ = [
    "access_ptr",
    "address_of",
    "ldg",
    "ldg32",
    "ldg64",
    "ldg128",
    "ptx_commit_group",
    "ptx_cp_async",
    "ptx_ldmatrix",
    "ptx_mma",
    "ptx_stmatrix",
    "ptx_wait_group",
    "stg",
    "stg32",
    "stg64",
    "stg128",
]

_ALWAYS = Const(True, BOOL)


Place = Expr | TileProxy | Pointer


@api
def address_of(element: Expr | TileProxy) -> Pointer:
    """The address of an element, or of the first element of a tile.

    Example:
        `T.call_extern("handle", "prefetch", T.address_of(A[i, 0]))`
    """
    return _pointer("T.address_of", element)


@api
def access_ptr(element: Expr | TileProxy, mode: str = "rw", *extents: ExprLike) -> Pointer:
    """The address of an element, or of the first element of a tile, and what will be done there.

    Args:
        element: `A[i, j]`, a tile, or a buffer.
        mode: "r", "w" or "rw".
        extents: How far the access reaches, where that is less than the tile; they change nothing.

    Raises:
        ProgramError: There is no such mode.
    """
    return TileProxy.access_ptr(element, mode, *extents) if isinstance(element, TileProxy) else Pointer(
        _pointer("access_ptr", element).region, mode
    )


@api
def ldg(element: Place, dtype: object = None, hint: str = "none") -> Expr:
    """An element of a global tensor that nobody writes while the kernel runs; 0 out of bounds.

    Args:
        element: `A[i, j]`.
        dtype: A vector dtype such as "float16x8" takes that many neighbors at once; the address must be a multiple of
            its size. The tensor's dtype without it.
        hint: What to tell the caches: "none", "evict_first", "evict_last", "no_allocate", "l2_only" or "streaming".
    """
    what = "T.ldg"
    region = _global(what, element)
    kind = region.dtype if dtype is None else as_dtype(dtype)
    return _load(what, region, kind, hint)


@api
def stg(element: Place, value: ExprLike, hint: str = "none") -> None:
    """Writes an element, or as many neighbors as `value` has lanes, to a global tensor. As `T.ldg` otherwise."""
    what = "T.stg"
    region = _global(what, element)
    number = as_expr(value)
    dtype = number.dtype if number.dtype.lanes > 1 else region.dtype
    _check_lanes(what, region, dtype)
    touched = _row(region, dtype.lanes)
    emit_call(what, hinted_store(dtype, _hint(what, hint)), touched, cast(number, dtype), _ALWAYS, writes=(touched,))


@api
def ldg32(element: Place) -> Expr:
    """4 bytes of a global tensor from `element` on, as neighbors. As `T.ldg`."""
    return _wide_load("T.ldg32", element, 4)


@api
def ldg64(element: Place) -> Expr:
    """8 bytes of a global tensor from `element` on, as neighbors. As `T.ldg`."""
    return _wide_load("T.ldg64", element, 8)


@api
def ldg128(element: Place) -> Expr:
    """16 bytes of a global tensor from `element` on, as neighbors. As `T.ldg`."""
    return _wide_load("T.ldg128", element, 16)


@api
def stg32(element: Place, value: Expr) -> None:
    """Writes 4 bytes to a global tensor. As `T.stg`."""
    stg(element, value)


@api
def stg64(element: Place, value: Expr) -> None:
    """Writes 8 bytes to a global tensor. As `T.stg`."""
    stg(element, value)


@api
def stg128(element: Place, value: Expr) -> None:
    """Writes 16 bytes to a global tensor. As `T.stg`."""
    stg(element, value)


@api
def ptx_cp_async(dst: Place, src: Place, num_bytes: int, predicate: ExprLike = True) -> None:
    """Begins to copy 4, 8 or 16 bytes from a global to a shared address; zeros where `predicate` is false.

    The bytes are there once `T.ptx_commit_group` and `T.ptx_wait_group` have followed; other threads see them after a
    barrier.

    Raises:
        ProgramError: The sides are not in those memories, or have no elements of so many bytes.
    """
    what = "T.ptx_cp_async"
    target, source = _pointer(what, dst).region, _global(what, src)
    if target.buffer.scope is not Scope.SHARED:
        raise ProgramError(f"{what}: '{target.buffer.name}' is in scope {target.buffer.scope.value!r}, not shared")
    count = int_const(as_expr(num_bytes))
    if count not in (4, 8, 16) or count % source.dtype.storage_bytes or count % target.dtype.storage_bytes:
        raise ProgramError(f"{what}: cannot copy {num_bytes!r} bytes of {source.dtype!s}", hint="write 4, 8 or 16")
    read = _row(source, count // source.dtype.storage_bytes)
    written = _row(target, count // target.dtype.storage_bytes)
    emit_call(what, cp_async(count), written, read, as_bool(predicate), reads=(read,), writes=(written,))


@api
def ptx_commit_group() -> None:
    """Closes a group of the copies that `T.ptx_cp_async` has begun."""
    emit_call("T.ptx_commit_group", CP_ASYNC_COMMIT)


@api
def ptx_wait_group(pending: int) -> None:
    """Waits until at most `pending` groups of copies are on their way."""
    emit_call("T.ptx_wait_group", CP_ASYNC_WAIT, as_expr(pending))


@api
def ptx_ldmatrix(dst: Place, src: Place, num: int = 4, trans: bool = False) -> None:
    """Loads `num` matrices of 8 x 8 elements of 16 bits from shared memory into the registers of a warp.

    Lane l gives the address of row l % 8 of matrix l // 8. Each lane receives two neighboring elements of one row of
    each matrix, of one column if `trans`, into consecutive elements of `dst`.

    Args:
        dst: The first of 2 * num elements of a local buffer.
        src: This lane's row of 8 elements in shared memory.
        num: 1, 2 or 4.
        trans: Whether the matrices are transposed on the way.
    """
    what = "T.ptx_ldmatrix"
    target, source = _row(_pointer(what, dst).region, 2 * num), _row(_pointer(what, src).region, 8)
    emit_call(what, ldmatrix(num, trans), target, source, reads=(source,), writes=(target,))


@api
def ptx_stmatrix(dst: Place, src: Place, num: int = 4, trans: bool = False) -> None:
    """Stores matrices from the registers of a warp in shared memory; the reverse of `T.ptx_ldmatrix`. Needs sm_90."""
    what = "T.ptx_stmatrix"
    target, source = _row(_pointer(what, dst).region, 8), _row(_pointer(what, src).region, 2 * num)
    emit_call(what, stmatrix(num, trans), target, source, reads=(source,), writes=(target,))


@api
def ptx_mma(shape: str, c: Place, a: Place, b: Place) -> None:
    """`C += A @ B` on the registers of a warp, by one matrix instruction.

    Args:
        shape: Such as "m16n8k16".
        c: The first of this lane's elements of C, which is also where the sums were.
        a: The first of this lane's elements of A.
        b: The first of this lane's elements of B, whose columns lie along the lanes (PTX's "col").

    Raises:
        ProgramError: There is no such instruction for the dtypes.

    Source: PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions: mma", says which lane holds which element.
    """
    what = "T.ptx_mma"
    regions = [_pointer(what, place).region for place in (c, a, b)]
    dtypes = tuple(region.dtype for region in regions)
    atoms = [x for x in ATOMS if dtypes == (x.c_dtype, x.a_dtype, x.b_dtype)]
    for atom in atoms:
        m, n, k = atom.shape
        if shape == f"m{m}n{n}k{k}":
            break
    else:
        known = ", ".join("m{}n{}k{}".format(*x.shape) for x in atoms)
        raise ProgramError(
            f"{what}: no instruction of shape {shape!r} multiplies {dtypes[1]!s} by {dtypes[2]!s} into {dtypes[0]!s}",
            hint=f"for these dtypes write one of {known}" if known else "use dtypes of the matrix instructions",
        )
    counts = (atom.c.values, atom.a.values, atom.b.values)
    sums, left, right = (_row(region, count) for region, count in zip(regions, counts, strict=True))
    emit_call(what, mma(atom), sums, left, right, reads=(sums, left, right), writes=(sums,))


def as_argument(what: str, value: ExprLike | Place) -> Expr | Region:
    """An operand of a call: the region of an address, or the value of anything else."""
    if isinstance(value, Pointer):
        return value.region
    if isinstance(value, TileProxy) and value.ndim:
        return _pointer(what, value).region
    return as_expr(value)  # type: ignore[arg-type]


def _pointer(what: str, place: Place) -> Pointer:
    if isinstance(place, Pointer):
        return place
    if isinstance(place, TileProxy):
        return Pointer(place.region)
    if isinstance(place, Load) and place.indices:
        return Pointer(Region(place.buffer, place.indices, tuple(as_expr(1) for _ in place.indices)))
    raise ProgramError(f"{what}: expected a place in memory, got {place!r:.40}", hint="write A[i, j], or a buffer")


def _global(what: str, place: Place) -> Region:
    region = _pointer(what, place).region
    if region.buffer.scope is not Scope.GLOBAL:
        raise ProgramError(
            f"{what}: '{region.buffer.name}' is in scope {region.buffer.scope.value!r}, not global",
            hint="index the buffer: A[i, j]",
        )
    return region


def _row(region: Region, count: int) -> Region:
    """`count` neighbors along the last dimension, from the first element of a region on."""
    units = tuple(as_expr(1) for _ in region.start[:-1])
    return Region(region.buffer, region.start, (*units, as_expr(count)))


def _check_lanes(what: str, region: Region, dtype: DType) -> None:
    if dtype.lanes > 1 and not str(dtype).startswith(str(region.dtype)):
        raise ProgramError(
            f"{what}: '{region.buffer.name}' holds {region.dtype!s}, not neighbors that make a {dtype!s}",
            hint=f"write {region.dtype!s}x{dtype.lanes}",
        )


def _wide_load(what: str, element: Place, size: int) -> Expr:
    region = _global(what, element)
    lanes = size // region.dtype.storage_bytes
    if lanes < 1:
        raise ProgramError(f"{what}: an element of {region.dtype!s} has more than {size} bytes")
    return _load(what, region, as_dtype(str(region.dtype) if lanes == 1 else f"{region.dtype!s}x{lanes}"), "none")


def _load(what: str, region: Region, dtype: DType, hint: str) -> Expr:
    _check_lanes(what, region, dtype)
    touched = _row(region, dtype.lanes)
    instruction = hinted_load(dtype, _hint(what, hint), read_only=True)
    result = emit_call(what, instruction, touched, _ALWAYS, reads=(touched,))
    assert result is not None
    return result


def _hint(what: str, name: str) -> CacheHint:
    if name.upper() not in CacheHint.__members__:
        known = ", ".join(repr(hint.name.lower()) for hint in CacheHint)
        raise ProgramError(f"{what}: {name!r:.40} is no hint for a cache", hint=f"write one of {known}")
    return CacheHint[name.upper()]
