"""Addresses that calls of instructions and of the user's functions take: `T.address_of`, `T.access_ptr` (level 3).

Takes elements (`A[i, j]`) and tiles, gives pointers and the regions that calls take. Invariant: an address always
belongs to a buffer, so that bounds are known.
"""

from __future__ import annotations

from tilelang.errors import ProgramError
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Expr, ExprLike, Load, as_expr
from tilelang.language.address import Pointer, pointer_to
from tilelang.language.api import api
from tilelang.language.proxy import BufferProxy, TileProxy
from tilelang.language.views import BufferStorage

__all__ = [
    "access_ptr",
    "address_of",
]

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
        offset: How many elements after that one, in row-major order.
        extent: How many elements are touched in all, in place of `extents`.
        ignore_last_ndim: Accepted for published programs, where it says which dimensions `extents` skips.

    Raises:
        ProgramError: There is no such mode.
    """
    del extents, extent, ignore_last_ndim
    return pointer_to(pointer_of("T.access_ptr", base).region, access_type, offset)


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


def neighbors(region: Region, count: int) -> Region:
    """`count` neighbors along the last dimension, from the first element of a region on."""
    units = tuple(as_expr(1) for _ in region.start[:-1])
    return Region(region.buffer, region.start, (*units, as_expr(count)))


def global_region(what: str, place: Place) -> Region:
    """The part of global memory that an operand names.

    Raises:
        ProgramError: It is no place there.
    """
    region = pointer_of(what, place).region
    if region.buffer.scope is not Scope.GLOBAL:
        raise ProgramError(
            f"{what}: '{region.buffer.name}' is in scope {region.buffer.scope.value!r}, not global",
            hint="index the buffer: A[i, j]",
        )
    return region
