"""What distinguishes one language of the C family from another, for the printers that they share.

Gives `Dialect`, a record of words and of small functions from dtypes to words. Invariant: a printer that knows its
dialect never asks which language it prints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from tilelang.dtypes import DType
from tilelang.errors import CompilerBug, NoLowering
from tilelang.ir.callee import Routine
from tilelang.isa.instruction import Instruction
from tilelang.isa.intrinsic import Helper, Intrinsic, Spelling
from tilelang.records import record


@record
class Dialect:
    """The words of one language.

    Attributes:
        language: The key of `Routine.spell`.
        intrinsics: The texts of an intrinsic, from its name, by compute dtype. Operands of a text, and its value, have
            the compute dtype; for an intrinsic with a bool or int32 `result` the text has that type.
        instructions: The texts of instructions that have none of their own, by the first word of their `form`: a text,
            or what makes one of the other words.
        storage_type: The type of one element in memory.
        storage_helpers: What must be defined before the storage type is named.
        value_type: The type of a value in an expression.
        conversion: The text of a cast; its operand and value have the storage types.
        helpers: Functions for operators that the language defines otherwise, by name.
        index_types: The type that holds exact integers of so many bits.
        least: The smallest integer of so many bits.
        nan: NaN in a type of so many bits.
        infinity: Positive infinity in a type of so many bits.
        address: A pointer to an element, from the name of a buffer and an offset.
        wraps: Whether signed arithmetic wraps as it stands.
        shifts: Whether a division by a power of two that rounds down is written as a shift; compilers that cannot see
            that a value is never negative do not find it.
        vectors: Whether several neighboring elements move in one access.
        moves_bits: Whether stores of packed elements name their bits; some compilers vectorize moves of bits, not of
            the structs around them.
        computes: The packed dtypes whose elements are added, subtracted, multiplied as they are; others become numbers
            first.
        chooses: A function that is given both values of a choice, for compilers that would branch around one of them;
            None where a conditional expression does.
    """

    language: str
    intrinsics: Callable[[str], Mapping[str, Spelling]]
    instructions: Mapping[str, Spelling | Callable[..., Spelling]]
    storage_type: Callable[[DType], str]
    storage_helpers: Callable[[DType], tuple[Helper, ...]]
    value_type: Callable[[DType], str]
    conversion: Callable[[DType, DType], Spelling]
    helpers: Mapping[str, Helper]
    index_types: Mapping[int, str]
    least: Mapping[int, str]
    nan: Mapping[int, str]
    infinity: Mapping[int, str]
    address: str
    wraps: bool
    shifts: bool
    vectors: bool
    moves_bits: bool
    computes: frozenset[str] = frozenset()
    chooses: Helper | None = None

    def spelling(self, intrinsic: Intrinsic, compute: DType) -> Spelling:
        """The text of an intrinsic for operands of one compute dtype.

        Raises:
            NoLowering: The language has none.
        """
        found = self.intrinsics(intrinsic.name).get(str(compute))
        if found is None:
            raise NoLowering(f"T.{intrinsic.name}: has no {self.language} form for {compute!s}")
        return found

    def call(self, routine: Routine) -> Spelling:
        """The text of a call of a routine."""
        if self.language in routine.spell:
            return Spelling(routine.spell[self.language], cast(Helper | None, routine.helper.get(self.language)))
        family, *words = routine.form if isinstance(routine, Instruction) and routine.form else ("",)
        found = self.instructions.get(family)
        if found is None:
            raise CompilerBug(f"codegen: routine {routine.name} has no {self.language} text")
        return found if isinstance(found, Spelling) else found(*words)


def is_packed(dtype: DType) -> bool:
    """Whether memory holds structs of bits that become a number by a conversion."""
    return dtype.lanes == 1 and (dtype.is_float and dtype.bits < 32 or dtype.is_int and dtype.bits < 8)
