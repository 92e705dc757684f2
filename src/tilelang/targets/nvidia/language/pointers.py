"""Instructions that take addresses: hinted loads and stores, copies in the background (level 3).

Takes elements (`A[i, j]`), tiles and pointers made of them, emits calls of instructions. Invariant: an address always
belongs to a buffer, so that bounds are known; what a call touches is written down with it.
"""

from __future__ import annotations

from tilelang.dtypes import BOOL, DType, as_dtype
from tilelang.errors import ProgramError
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Const, Expr, ExprLike, Load, as_bool, as_expr, cast, int_const
from tilelang.language.address import Pointer, pointer_to
from tilelang.language.api import api
from tilelang.language.calls import emit_call
from tilelang.language.proxy import BufferProxy, TileProxy
from tilelang.language.views import BufferStorage
from tilelang.targets.nvidia.isa.cp_async import CP_ASYNC_COMMIT, CP_ASYNC_WAIT, SIZES, cp_async
from tilelang.targets.nvidia.isa.memory import CacheHint
from tilelang.targets.nvidia.isa.memory import load as hinted_load
from tilelang.targets.nvidia.isa.memory import store as hinted_store

__all__ = [
    "access_ptr",
    "address_of",
    "ldg",
    "ptx_commit_group",
    "ptx_cp_async",
    "ptx_wait_group",
    "stg",
]

_ALWAYS = Const(True, BOOL)


Place = Expr | TileProxy | Pointer | BufferStorage


@api
def address_of(element: Expr | TileProxy | BufferStorage) -> Pointer:
    """The address of an element, or of the first element of a tile.

    Example:
        `T.call_extern("handle", "prefetch", T.address_of(A[i, 0]))`
    """
    return pointer_of("T.address_of", element)


@api
def access_ptr(
    base: Expr | TileProxy,
    access_type: str | int = "r",
    *extents: ExprLike,
    offset: ExprLike = 0,
    extent: ExprLike | None = None,
    ignore_last_ndim: int = 0,
) -> Pointer:
    """The address of an element, or of the first element of a tile, and what will be done there.

    Args:
        base: `A[i, j]`, a tile, or a buffer.
        access_type: "r", "w" or "rw", or the mask that stands for it: 1, 2 or 3.
        extents: How many elements are touched along the last dimensions; the call that takes the pointer says it again.
        offset: How many elements behind that one, in row-major order.
        extent: How many elements are touched in all, in place of `extents`.
        ignore_last_ndim: Accepted for published programs, where it says which dimensions `extents` skips.

    Raises:
        ProgramError: There is no such mode.
    """
    del extents, extent, ignore_last_ndim
    return pointer_to(pointer_of("T.access_ptr", base).region, access_type, offset)


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
    touched = neighbors(region, dtype.lanes)
    emit_call(what, hinted_store(dtype, _hint(what, hint)), touched, cast(number, dtype), _ALWAYS, writes=(touched,))


@api
def ptx_cp_async(
    dst_access_ptr: Place, src_access_ptr: Place, num_elems: int, predicate: ExprLike | None = None
) -> None:
    """Begins to copy elements that take 4, 8 or 16 bytes from a global to a shared address.

    They are there once `T.ptx_commit_group` and `T.ptx_wait_group` have followed; other threads see them after a
    barrier.

    Args:
        dst_access_ptr: Where they go in shared memory; a multiple of their bytes, as the address they come from.
        src_access_ptr: The first of them in global memory.
        num_elems: How many elements of the source: 8 of float16 are 16 bytes.
        predicate: Where it is false, zeros are written instead.

    Raises:
        ProgramError: The sides are not in those memories, or the elements take another number of bytes.

    Example:
        `T.ptx_cp_async(T.access_ptr(A_s[tx, 0], "w", 8), T.access_ptr(A[tx, 0], "r", 8), 8)`
    """
    what = "T.ptx_cp_async"
    target, source = pointer_of(what, dst_access_ptr).region, _global(what, src_access_ptr)
    if target.buffer.scope is not Scope.SHARED:
        raise ProgramError(f"{what}: '{target.buffer.name}' is in scope {target.buffer.scope.value!r}, not shared")
    count = int_const(as_expr(num_elems))
    if count is None:
        raise ProgramError(f"{what}: num_elems is {num_elems!r:.40}, not a number known while the kernel is staged")
    size = count * source.dtype.storage_bytes
    if size not in SIZES or size % target.dtype.storage_bytes:
        raise ProgramError(
            f"{what}: {count} elements of {source.dtype!s} are {size} bytes, but the instruction copies 4, 8 or 16",
            hint=f"write {', '.join(str(n // source.dtype.storage_bytes) for n in SIZES)}",
        )
    read, written = neighbors(source, count), neighbors(target, size // target.dtype.storage_bytes)
    keep = _ALWAYS if predicate is None else as_bool(predicate)
    emit_call(what, cp_async(size), written, read, keep, reads=(read,), writes=(written,))


@api
def ptx_commit_group() -> None:
    """Closes a group of the copies that `T.ptx_cp_async` has begun."""
    emit_call("T.ptx_commit_group", CP_ASYNC_COMMIT)


@api
def ptx_wait_group(pending: int) -> None:
    """Waits until at most `pending` groups of copies are on their way."""
    emit_call("T.ptx_wait_group", CP_ASYNC_WAIT, as_expr(pending))


def as_argument(what: str, value: ExprLike | Place) -> Expr | Region:
    """An operand of a call: the region of an address, or the value of anything else."""
    if isinstance(value, Pointer):
        return value.region
    if isinstance(value, BufferStorage) or isinstance(value, TileProxy) and value.ndim:
        return pointer_of(what, value).region
    return as_expr(value)  # type: ignore[arg-type]


def pointer_of(what: str, place: Place) -> Pointer:
    """The address that an operand names: a pointer, an element, a tile or a buffer.

    Raises:
        ProgramError: It is no place in memory.
    """
    if isinstance(place, Pointer):
        return place
    if isinstance(place, BufferStorage):
        place = BufferProxy(place.buffer)
    if isinstance(place, TileProxy):
        return Pointer(place.region)
    if isinstance(place, Load) and place.indices:
        return Pointer(Region(place.buffer, place.indices, tuple(as_expr(1) for _ in place.indices)))
    raise ProgramError(f"{what}: expected a place in memory, got {place!r:.40}", hint="write A[i, j], or a buffer")


def _global(what: str, place: Place) -> Region:
    region = pointer_of(what, place).region
    if region.buffer.scope is not Scope.GLOBAL:
        raise ProgramError(
            f"{what}: '{region.buffer.name}' is in scope {region.buffer.scope.value!r}, not global",
            hint="index the buffer: A[i, j]",
        )
    return region


def neighbors(region: Region, count: int) -> Region:
    """`count` neighbors along the last dimension, from the first element of a region on."""
    units = tuple(as_expr(1) for _ in region.start[:-1])
    return Region(region.buffer, region.start, (*units, as_expr(count)))


def _check_lanes(what: str, region: Region, dtype: DType) -> None:
    if dtype.lanes > 1 and not str(dtype).startswith(str(region.dtype)):
        raise ProgramError(
            f"{what}: '{region.buffer.name}' holds {region.dtype!s}, not neighbors that make a {dtype!s}",
            hint=f"write {region.dtype!s}x{dtype.lanes}",
        )


def _load(what: str, region: Region, dtype: DType, hint: str) -> Expr:
    _check_lanes(what, region, dtype)
    touched = neighbors(region, dtype.lanes)
    instruction = hinted_load(dtype, _hint(what, hint), read_only=True)
    result = emit_call(what, instruction, touched, _ALWAYS, reads=(touched,))
    assert result is not None
    return result


def _hint(what: str, name: str) -> CacheHint:
    if name.upper() not in CacheHint.__members__:
        known = ", ".join(repr(hint.name.lower()) for hint in CacheHint)
        raise ProgramError(f"{what}: {name!r:.40} is no hint for a cache", hint=f"write one of {known}")
    return CacheHint[name.upper()]
