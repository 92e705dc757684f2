"""`SwizzleMode`: the permutations of 16-byte chunks that the copy engine and matrix units apply."""

from __future__ import annotations

import enum


class SwizzleMode(enum.Enum):
    """The permutation of the 16-byte chunks of a row of shared memory; the value counts chunks of a row: 1 for none.

    Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout" and "Matrix Descriptor Format"; CUDA
    Driver API, `CUtensorMapSwizzle`.
    """

    NONE = 1
    SWIZZLE_32B = 2
    SWIZZLE_64B = 4
    SWIZZLE_128B = 8

    def is_none(self) -> bool:
        """Whether chunks stay where they are."""
        return self is SwizzleMode.NONE

    def is_swizzle_32b(self) -> bool:
        """Whether chunks change places within 32 bytes."""
        return self is SwizzleMode.SWIZZLE_32B

    def is_swizzle_64b(self) -> bool:
        """Whether chunks change places within 64 bytes."""
        return self is SwizzleMode.SWIZZLE_64B

    def is_swizzle_128b(self) -> bool:
        """Whether chunks change places within 128 bytes."""
        return self is SwizzleMode.SWIZZLE_128B

    def swizzle_atom_size(self) -> int:
        """The chunks, of 16 bytes, within which places change; 1 for none."""
        return self.value

    def swizzle_byte_size(self) -> int:
        """The bytes within which places change; 1 for none."""
        return 1 if self.is_none() else 16 * self.value

    def smem_alignment(self) -> int:
        """The bytes of which the address of a tile has to be a multiple: 8 rows of the mode."""
        return 128 * self.value

    def wgmma_layout_type(self) -> int:
        """The mode in bits 62 and 63 of a matrix descriptor of `wgmma`."""
        return {1: 0, 2: 3, 4: 2, 8: 1}[self.value]
