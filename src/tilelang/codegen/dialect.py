"""`Dialect`: the differences between languages of the C family, for the printers that they share.

A dialect is a record of names and of functions from dtypes to names; printers never test which language it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import cast

from tilelang.dtypes import DType
from tilelang.errors import CompilerBug, NoLowering
from tilelang.ir.callee import Routine
from tilelang.isa.c_type import CType
from tilelang.isa.instruction import Instruction
from tilelang.isa.intrinsic import Helper, Intrinsic, Template
from tilelang.records import record

_INDEX_TYPES = MappingProxyType({32: "int", 64: "int64_t"})
_MIN_INT = MappingProxyType({32: "(-2147483647 - 1)", 64: "(-9223372036854775807LL - 1)"})


@record
class Dialect:
    """One language. What GPUs' languages have in common is the default.

    Attributes:
        language: The key of `Routine.texts`.
        intrinsics: The templates of an intrinsic, from its name, by compute dtype. Operands of a template, and its
            value, have the compute dtype; for an intrinsic with a bool or int32 `result` the value has that type.
        instructions: The templates of instructions that have no texts, by the first element of their `dialect_key`;
            where that has more elements, a function from these to the template.
        c_type: The types of a dtype: its storage type, of one element in memory, and its value type, in expressions.
        conversion: The template of a cast; its operand and value have the storage types.
        helpers: Functions for operators that the language defines otherwise, by name.
        nan: NaN, by bits.
        infinity: Positive infinity, by bits.
        index_types: Types of exact integers, by bits.
        min_int: The smallest integer, by bits.
        address: A pointer to an element, from the name of a buffer and an offset.
        overflow_wraps: Whether signed overflow wraps in the language.
        divides_by_shifts: Whether floor division by a power of two is printed as a shift, for compilers that cannot
            prove that a value is non-negative.
        has_vectors: Whether there are vector accesses.
        copies_bits: Whether stores of packed elements copy their bits; some compilers vectorize copies of integers, but
            not of structs.
        packed_arithmetic: The packed dtypes with arithmetic in their storage type; others are converted to numbers.
        select: A function of both values of a select, for compilers that would branch around one of them; None for a
            conditional expression.
        quotient: A function that divides floats, many by the same one, for compilers that branch where the language
            divides; None for `/`.
    """

    language: str
    intrinsics: Callable[[str], Mapping[str, Template]]
    instructions: Mapping[str, Template | Callable[..., Template]]
    c_type: Callable[[DType], CType]
    conversion: Callable[[DType, DType], Template]
    helpers: Mapping[str, Helper]
    nan: Mapping[int, str]
    infinity: Mapping[int, str]
    index_types: Mapping[int, str] = field(default_factory=lambda: _INDEX_TYPES)
    min_int: Mapping[int, str] = field(default_factory=lambda: _MIN_INT)
    address: str = "&{0}[{1}]"
    overflow_wraps: bool = False
    divides_by_shifts: bool = True
    has_vectors: bool = True
    copies_bits: bool = False
    packed_arithmetic: frozenset[str] = frozenset()
    select: Helper | None = None
    quotient: Helper | None = None

    def storage_type(self, dtype: DType) -> str:
        """The type of one element in memory."""
        return self.c_type(dtype).name

    def value_type(self, dtype: DType) -> str:
        """The type of a value in an expression."""
        return self.c_type(dtype).value

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
        """The template of a call of a routine."""
        if self.language in routine.texts:
            return Template(routine.texts[self.language], cast(Helper | None, routine.helpers.get(self.language)))
        family, *variant = routine.dialect_key if isinstance(routine, Instruction) and routine.dialect_key else ("",)
        found = self.instructions.get(family)
        if found is None:
            raise CompilerBug(f"codegen: routine {routine.name} has no {self.language} text")
        return found if isinstance(found, Template) else found(*variant)


def is_packed(dtype: DType) -> bool:
    """Whether the storage type is a struct of bits, converted to numbers for arithmetic."""
    return dtype.lanes == 1 and (dtype.is_float and dtype.bits < 32 or dtype.is_int and dtype.bits < 8)
