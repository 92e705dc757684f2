"""How the languages of GPUs name dtypes: elements by a table, short vectors by words of their size.

Gives `CTypes`, of which each vendor has one, and texts that both languages have. Invariant: a short vector only moves
bits, in one access or in pieces of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.dtypes import DType, lane_dtype
from tilelang.errors import NoLowering
from tilelang.isa.c_type import CType
from tilelang.isa.intrinsic import Helper
from tilelang.records import record

_PIECE = 16  # bytes


@record
class CTypes:
    """The types of a language.

    Attributes:
        language: Its name in messages.
        elements: Those of elements, by dtype.
        pieces: Those of short vectors of one access, by their bytes.
        wide: What defines `tl_words<N>`, N pieces of 16 bytes.
    """

    language: str
    elements: Mapping[str, CType]
    pieces: Mapping[int, CType]
    wide: Helper

    def words(self, size: int) -> CType:
        """The type of a short vector of `size` bytes, which only moves bits.

        Raises:
            NoLowering: No access has that size.
        """
        if size in self.pieces:
            return self.pieces[size]
        if size % _PIECE or not size:
            raise NoLowering(
                f"{self.language}: no type of {size} bytes for short vectors", hint="use a power of two of lanes"
            )
        name = f"tl_words<{size // _PIECE}>"
        return CType(name, name, self.wide)

    def of(self, dtype: DType) -> CType:
        """The type of a dtype: of one element, or of a short vector.

        Raises:
            NoLowering: No access has the vector's size.
        """
        return self.words(dtype.storage_bytes) if dtype.lanes > 1 else self.elements[str(dtype)]

    def of_lane(self, dtype: DType) -> CType:
        """The type of one lane of a dtype."""
        return self.elements[str(lane_dtype(dtype))]


BITS_TEXT = """\
// The bits of a value read as another type of the same size.
template <typename To, typename From> __device__ __forceinline__ To tl_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "sizes differ");
    union { From from; To to; } both;
    both.from = from;
    return both.to;
}
"""
"""Defines `tl_bits`."""

WORD_TEXT = """\
// The unsigned integer of a size.
template <int SIZE> struct tl_word;
template <> struct tl_word<1> { typedef uint8_t type; };
template <> struct tl_word<2> { typedef uint16_t type; };
template <> struct tl_word<4> { typedef uint32_t type; };
template <> struct tl_word<8> { typedef uint64_t type; };
"""
"""Defines `tl_word<SIZE>::type` for a language that has the integer types."""
