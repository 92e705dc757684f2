"""The specialization of a program: divisibility, alignment and index width of the arguments of a call."""

from __future__ import annotations

from tilelang.records import record

# attributes of a specialized function
INDEX_BITS = "tilelang.index_bits"  # 64 if tensors of symbolic shape may be that large
MULTIPLES = "tilelang.multiples"  # per introduced symbol: its name, that of the size, and size / symbol


@record(slots=True)
class Specialization:
    """Properties of the arguments of a call. The default makes no assumption on symbols.

    Attributes:
        multiples: Names of symbols with a divisor of each; these symbols are positive. Others may be any size.
        misaligned: Names of tensors that are only aligned to their element; all others are aligned to 16 bytes.
        wide: Whether offsets in a tensor of symbolic shape may reach 2**31 elements.
    """

    multiples: tuple[tuple[str, int], ...] = ()
    misaligned: tuple[str, ...] = ()
    wide: bool = False
