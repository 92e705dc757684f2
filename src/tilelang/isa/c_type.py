"""`CType`: how a language of the C family names a dtype, in memory and in expressions."""

from __future__ import annotations

from tilelang.isa.intrinsic import Helper
from tilelang.records import record


@record(slots=True)
class CType:
    """The types of a dtype in a language of the C family.

    Attributes:
        name: The type of elements in memory; `name{}` is zero.
        value: The type of values in expressions: float for narrow floats, `int32_t` for 4-bit integers.
        helper: What defines the types; None if they are built in.
    """

    name: str
    value: str
    helper: Helper | None = None

    @property
    def is_packed(self) -> bool:
        """Whether elements are structs, which are converted to be computed with."""
        return self.name != self.value
