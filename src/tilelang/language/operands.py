"""Questions about operands of tile operators: where a buffer lies, what shape a region has.

Takes buffers, regions and element positions as kernels write them; gives plain values and regions.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.errors import ProgramTypeError, ProgramValueError
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Expr, ExprLike, Load, as_expr
from tilelang.language.api import api
from tilelang.language.extents import plain, product
from tilelang.language.proxy import RegionProxy, TileProxy

__all__ = [
    "is_fragment",
    "is_global",
    "is_local",
    "is_shared",
    "retrieve_shape",
    "retrieve_stride",
    "to_buffer_region",
]

Operand = TileProxy | Load | Buffer | Region


@api
def is_global(buffer: Operand) -> bool:
    """Whether a buffer, or that of a region or element, lies in global memory."""
    return _buffer(buffer, "is_global").scope is Scope.GLOBAL


@api
def is_shared(buffer: Operand, allow_dynamic: bool = True) -> bool:
    """Whether it lies in shared memory; all of it is dynamic, so never without `allow_dynamic`."""
    return allow_dynamic and _buffer(buffer, "is_shared").scope is Scope.SHARED


@api
def is_fragment(buffer: Operand) -> bool:
    """Whether it is spread over the registers of threads."""
    return _buffer(buffer, "is_fragment").scope is Scope.FRAGMENT


@api
def is_local(buffer: Operand) -> bool:
    """Whether it belongs to one thread."""
    return _buffer(buffer, "is_local").scope is Scope.LOCAL


@api
def retrieve_shape(obj: Operand) -> list[int | Expr]:
    """The extents of a buffer or region, one for each dimension of the buffer.

    Raises:
        ValueError: It is one element, which has no extents.
    """
    _buffer(obj, "retrieve_shape")
    if isinstance(obj, Load):
        raise ProgramValueError(
            f"retrieve_shape: an element of '{obj.buffer.name}' has no extents",
            hint=f"pass '{obj.buffer.name}' itself, or a slice such as {obj.buffer.name}[i:i + 32]",
        )
    extents = obj.shape if isinstance(obj, Buffer) else _region(obj).extent
    return [plain(extent) for extent in extents]


@api
def retrieve_stride(obj: Operand) -> list[int | Expr]:
    """The distance of neighbors in elements, for each dimension of the buffer of an operand."""
    buffer = _buffer(obj, "retrieve_stride")
    steps = buffer.strides or tuple(product(buffer.shape[dim + 1 :]) for dim in range(buffer.rank))
    return [plain(step) for step in steps]


@api
def to_buffer_region(
    obj: Operand, access_type: str = "rw", extents: Sequence[ExprLike] | None = None
) -> RegionProxy:
    """The region that an operand stands for.

    Args:
        obj: A buffer, a region or an element.
        access_type: Accepted; operators know what they read and write.
        extents: Those of the region, for an element; an element has extents of 1 without them.

    Raises:
        ValueError: There are more or fewer extents than dimensions.
    """
    del access_type
    region = _region(obj)
    if extents is not None:
        if len(extents) != len(region.start):
            raise ProgramValueError(
                f"to_buffer_region: {len(extents)} extents for '{region.buffer.name}' of {len(region.start)} dimensions"
            )
        region = Region(region.buffer, region.start, tuple(as_expr(extent) for extent in extents))
    return RegionProxy(region, tuple(range(len(region.start))))


def _buffer(obj: object, what: str) -> Buffer:
    if isinstance(obj, Buffer):
        return obj
    if isinstance(obj, TileProxy | Load | Region):
        return obj.buffer
    raise ProgramTypeError(f"{what}: expected a buffer, a region or an element, got {obj!r:.60}")


def _region(obj: Operand) -> Region:
    buffer = _buffer(obj, "to_buffer_region")
    if isinstance(obj, Region):
        return obj
    if isinstance(obj, TileProxy):
        return obj.region
    if isinstance(obj, Load):
        return Region(buffer, obj.indices, tuple(as_expr(1) for _ in obj.indices))
    return Region(buffer, tuple(as_expr(0) for _ in buffer.shape), buffer.shape)
