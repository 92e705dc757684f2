"""`Pointer`: the address of an element, for calls that take one (level 3)."""

from __future__ import annotations

from tilelang.errors import ProgramError
from tilelang.ir.buffer import Region
from tilelang.ir.expr import Expr, ExprLike, as_expr, int_const
from tilelang.records import record

_MODES = {1: "r", 2: "w", 3: "rw"}  # what may be done at an address, by the mask that stands for it


@record
class Pointer:
    """The address of an element, as `T.address_of` and `access_ptr` give it.

    Attributes:
        region: The element, with as many after it as the pointer is known to reach.
        mode: What may be done there: "r", "w" or "rw".
    """

    region: Region
    mode: str = "rw"

    def __add__(self, elements: ExprLike) -> Pointer:
        """The address some elements further along the last dimension."""
        *leading, last = self.region.start
        units = tuple(as_expr(1) for _ in self.region.start)
        return Pointer(Region(self.region.buffer, (*leading, last + elements), units), self.mode)


def pointer_to(region: Region, mode: str | int = "rw", offset: ExprLike = 0) -> Pointer:
    """The address of the element that lies `offset` elements after the first one of a region, in row-major order.

    Args:
        region: What the address is in.
        mode: "r", "w" or "rw", or the mask that stands for it: 1, 2 or 3.
        offset: In elements of the buffer.

    Raises:
        ProgramError: There is no such mode.
    """
    name = _MODES.get(mode, "") if isinstance(mode, int) else mode
    if name not in _MODES.values():
        raise ProgramError(f"access_ptr: mode is {mode!r:.40}", hint="write 'r', 'w' or 'rw'")
    if int_const(as_expr(offset)) == 0:
        return Pointer(region, name)
    start = _advance(region, as_expr(offset))
    return Pointer(Region(region.buffer, start, tuple(as_expr(1) for _ in start)), name)


def _advance(region: Region, offset: Expr) -> tuple[Expr, ...]:
    """The indices of the element that is `offset` elements after the first one of a region, in row-major order."""
    *outer, last = region.start
    shape = region.buffer.shape
    column, width = int_const(last + offset), int_const(shape[-1])
    if not outer or column is not None and width is not None and 0 <= column < width:
        return (*outer, last + offset)
    rest = last + offset
    indices: list[Expr] = []
    for start, extent in zip(outer[::-1], shape[:0:-1], strict=True):
        indices.append(rest % extent)
        rest = start + rest // extent
    return (rest, *indices[::-1])
