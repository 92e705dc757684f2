"""What is known of the arguments of a call when a program is compiled for calls like it."""

from __future__ import annotations

from tilelang.records import record

# attributes of a function
INDEX_BITS = "tilelang.index_bits"  # 64 if tensors of symbolic shape may be that large
MULTIPLES = "tilelang.multiples"  # of each symbol that stands for a part of a size: its name, the size's, the factor


@record(slots=True)
class Facts:
    """What is known of a call. The default is what a program is compiled for before there is any.

    Attributes:
        multiples: Names of symbols, and a number that each is a positive multiple of; other symbols may be anything.
        misaligned: Names of tensors that may begin at any element; all others begin at a multiple of 16 bytes.
        wide: Whether elements of a tensor of symbolic shape may lie 2**31 elements apart, or further.
    """

    multiples: tuple[tuple[str, int], ...] = ()
    misaligned: tuple[str, ...] = ()
    wide: bool = False
