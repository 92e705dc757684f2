"""`Pointer`: the address of an element, for calls that take one (level 3)."""

from __future__ import annotations

from tilelang.ir.buffer import Region
from tilelang.ir.expr import ExprLike, as_expr
from tilelang.records import record


@record
class Pointer:
    """The address of an element, as `T.address_of` and `access_ptr` give it.

    Attributes:
        region: The element, with as many behind it as the pointer is known to reach.
        mode: What may be done there: "r", "w" or "rw".
    """

    region: Region
    mode: str = "rw"

    def __add__(self, elements: ExprLike) -> Pointer:
        """The address some elements further along the last dimension."""
        *leading, last = self.region.start
        units = tuple(as_expr(1) for _ in self.region.start)
        return Pointer(Region(self.region.buffer, (*leading, last + elements), units), self.mode)
