"""`Dialect`: the differences between languages of the C family, for the printers that they share.

A dialect is a record of names and of functions from dtypes to names; printers never test which language it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from tilelang.dtypes import DType
from tilelang.errors import CompilerBug, NoLowering
from tilelang.ir.callee import Routine
from tilelang.isa.instruction import PORTABLE, Instruction
from tilelang.isa.intrinsic import Helper, Intrinsic, Template
from tilelang.records import record


@record
class Dialect:
    """One language.

    Attributes:
        language: The key of `Routine.texts`.
        intrinsics: The templates of an intrinsic, from its name, by compute dtype. Operands of a template, and its
            value, have the compute dtype; for an intrinsic with a bool or int32 `result` the value has that type.
        instructions: The templates of instructions that have no texts, by the first element of their `dialect_key`;
            where that has more elements, a function from these to the template.
        storage_type: The type of one element in memory.
        storage_helpers: Helpers that define the storage type.
        value_type: The type of a value in an expression.
        conversion: The template of a cast; its operand and value have the storage types.
        helpers: Functions for operators that the language defines otherwise, by name.
        index_types: Types of exact integers, by bits.
        least: The smallest integer, by bits.
        nan: NaN, by bits.
        infinity: Positive infinity, by bits.
        address: A pointer to an element, from the name of a buffer and an offset.
        wraps: Whether signed overflow wraps in the language.
        shifts: Whether floor division by a power of two is printed as a shift, for compilers that cannot prove that a
            value is non-negative.
        vectors: Whether there are vector accesses.
        moves_bits: Whether stores of packed elements copy their bits; some compilers vectorize copies of integers, but
            not of structs.
        computes: The packed dtypes with arithmetic in their storage type; others are converted to numbers.
        chooses: A function of both values of a select, for compilers that would branch around one of them; None for a
            conditional expression.
    """

    language: str
    intrinsics: Callable[[str], Mapping[str, Template]]
    instructions: Mapping[str, Template | Callable[..., Template]]
    storage_type: Callable[[DType], str]
    storage_helpers: Callable[[DType], tuple[Helper, ...]]
    value_type: Callable[[DType], str]
    conversion: Callable[[DType, DType], Template]
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

    def template(self, intrinsic: Intrinsic, compute: DType) -> Template:
        """The template of an intrinsic for operands of one compute dtype.

        Raises:
            NoLowering: The language has none.
        """
        found = self.intrinsics(intrinsic.name).get(str(compute))
        if found is None:
            raise NoLowering(f"T.{intrinsic.name}: has no {self.language} form for {compute!s}")
        return found

    def call(self, routine: Routine) -> Template:
        """The template of a call of a routine.

        Raises:
            NoLowering: Only other languages have one.
        """
        if self.language in routine.texts:
            return Template(routine.texts[self.language], cast(Helper | None, routine.helpers.get(self.language)))
        family, *variant = routine.dialect_key if isinstance(routine, Instruction) and routine.dialect_key else ("",)
        found = self.instructions.get(family)
        if found is None and routine.texts:
            raise NoLowering(
                f"T.{routine.name}: is an instruction of other GPUs, and has no {self.language.upper()} text",
                hint=f"compile for a target that has it, or write what every GPU has: {PORTABLE}",
            )
        if found is None:
            raise CompilerBug(f"codegen: routine {routine.name} has no {self.language} text")
        return found if isinstance(found, Template) else found(*variant)


def is_packed(dtype: DType) -> bool:
    """Whether the storage type is a struct of bits, converted to numbers for arithmetic."""
    return dtype.lanes == 1 and (dtype.is_float and dtype.bits < 32 or dtype.is_int and dtype.bits < 8)
