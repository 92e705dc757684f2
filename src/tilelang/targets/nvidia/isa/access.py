"""Loads and stores of an element or a short vector: what they share, whichever memory they reach.

Gives `access(dtype, ...)`, the PTX of an access of that size, and `as_value` and `as_bits`, which turn what
was moved into the dtype and back. Invariant: a value is moved as bits, in one access.

Source: PTX ISA, "Data Movement and Conversion Instructions: ld, st"; CUDA C++ Programming Guide, "Inline PTX Assembly
in CUDA", "Constraints" (there is none for registers of 8 bits, so that a byte moves through one of 16).
"""

from __future__ import annotations

from tilelang.dtypes import DType, as_dtype
from tilelang.errors import NoLowering
from tilelang.isa.c_type import CType
from tilelang.isa.intrinsic import Helper, needed
from tilelang.records import record
from tilelang.targets.nvidia.isa.types import BITS, cuda_type, lane_type, words

SIZES = (1, 2, 4, 8, 16)  # in bytes; the address is a multiple of the size
SAMPLES = tuple(
    map(as_dtype, ("uint8", "float16", "float32", "float64", "float16x2", "float32x2", "float16x8", "float32x4"))
)
"""Dtypes of every size, scalars and vectors."""


@record(slots=True)
class Access:
    """The PTX that moves a value of some size between memory and a C++ variable `value`.

    Attributes:
        size: In bytes.
        kind: The PTX type.
        registers: The parts of `value` that are registers.
        constraint: That of each register.
    """

    size: int
    kind: str
    registers: tuple[str, ...]
    constraint: str

    @property
    def word(self) -> CType:
        """The type of the bits."""
        return words(self.size)

    @property
    def needs(self) -> tuple[Helper, ...]:
        """The definition of that type."""
        return needed(self.word.helper)

    @property
    def variable(self) -> str:
        """The type of the variable that is loaded to."""
        return "uint16_t" if self.size == 1 else self.word.name

    @property
    def outputs(self) -> str:
        """The operands of a load to the variable."""
        return ", ".join(f'"={self.constraint}"({register})' for register in self.registers)

    @property
    def inputs(self) -> str:
        """The operands of a store of a `value` that is a word."""
        parts = ("(uint16_t)value",) if self.size == 1 else self.registers
        return ", ".join(f'"{self.constraint}"({part})' for part in parts)

    @property
    def result(self) -> str:
        """The variable as a word."""
        return "(uint8_t)value" if self.size == 1 else "value"

    def operands(self, first: int) -> str:
        """The registers in the text of the instruction, if the first has that number; a vector in braces."""
        names = ", ".join(f"%{first + i}" for i in range(len(self.registers)))
        return names if len(self.registers) == 1 else f"{{{names}}}"


_BY_SIZE = {
    each.size: each
    for each in (
        Access(1, "u8", ("value",), "h"),
        Access(2, "u16", ("value",), "h"),
        Access(4, "u32", ("value",), "r"),
        Access(8, "v2.u32", ("value.x", "value.y"), "r"),
        Access(16, "v4.u32", ("value.x", "value.y", "value.z", "value.w"), "r"),
    )
}


def access(dtype: DType, what: str, sizes: tuple[int, ...] = SIZES) -> Access:
    """Return the way to move a value of a dtype.

    Args:
        dtype: Of an element or of a short vector.
        what: The instruction, for the message.
        sizes: Those that it has, in bytes.

    Raises:
        NoLowering: It has no access of that size.
    """
    if dtype.storage_bytes not in sizes:
        raise NoLowering(f"{what}: no access of {dtype.storage_bytes} bytes, which {dtype!s} has")
    return _BY_SIZE[dtype.storage_bytes]


def as_value(dtype: DType, text: str, helper: Helper) -> tuple[str, Helper]:
    """An expression of bits, and what it needs, as one of the dtype."""
    if dtype.lanes > 1:
        return text, helper
    kind = cuda_type(dtype)
    conversion = Helper(f"{helper.name} as {dtype!s}", "", needs=needed(helper, BITS, kind.helper))
    return f"({kind.value})tl_bits<{kind.name}>({text})", conversion


def as_bits(dtype: DType, text: str, helper: Helper) -> tuple[str, Helper]:
    """An expression of the dtype as one of bits, for a call of `helper`; and what the call needs."""
    if dtype.lanes > 1:
        return text, helper
    conversion = Helper(f"{helper.name} of {dtype!s}", "", needs=needed(helper, BITS, lane_type(dtype).helper))
    return f"tl_bits<{words(dtype.storage_bytes).name}>({cuda_type(dtype).name}({text}))", conversion
