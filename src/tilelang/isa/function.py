"""The descriptions of language functions that call one instruction, stored beside its record.

`language.instruction_functions` makes the Python functions. What a description cannot express is written as Python in
`targets/<vendor>/language`: several instructions or a loop in one call, tiles and addresses in shared memory as
arguments, several results, and arguments whose number varies or of which one restricts another.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from tilelang.dtypes import INT32, DType
from tilelang.ir.expr import Expr
from tilelang.isa.instruction import Instruction
from tilelang.records import record


class ParameterKind(enum.Enum):
    """The kind of argument that a parameter accepts.

    Each parameter has one kind and, unless it only selects the instruction, is one operand of it; of memory there are
    barriers and single elements of global memory.
    """

    VALUE = "an expression, converted to the dtype of the parameter"
    SCALAR = "an expression of any dtype, bool as int32; selects the instruction by its dtype"
    INTEGER = "such an expression, not a float"
    PREDICATE = "an integer or bool, as a bool"
    LANES = "a mask of lanes"
    BLOCK = "the rank of a block in the cluster"
    BARRIER = "a barrier in shared memory"
    GLOBAL = "an element of global memory; selects the instruction by its dtype"
    CONSTANT = "a compile-time number"
    NUMBER = "a compile-time number that selects the instruction"
    FLAG = "True or False; selects the instruction"
    WORD = "a string that selects the instruction"


REQUIRED = object()  # the default of a required parameter


@record(slots=True)
class Parameter:
    """A parameter of a function.

    Attributes:
        name: Its name.
        kind: The kind of its argument.
        doc: Its documentation.
        default: Its default, if it is optional.
        dtype: Of the operand, for `VALUE` and `CONSTANT`.
        check: `check(name, value)` raises for invalid numbers or texts; `name` is that of the function in messages. A
            `VALUE` is checked only if it is constant.
        access: The access of the instruction to an element of `GLOBAL`: "r", "w", "rw" or none.
    """

    name: str
    kind: ParameterKind
    doc: str = ""
    default: Any = REQUIRED
    dtype: DType = INT32
    check: Callable[[str, Any], None] | None = None
    access: str = ""


@record(slots=True, eq=False)
class Function:
    """A function of the language.

    Attributes:
        name: Its name without prefix, as in `T.sync_warp`.
        instruction: The instruction, or a function that returns it, given the dtype or constant of each parameter on
            which it depends.
        doc: The documentation, without parameters, errors and example.
        parameters: The parameters in order.
        operands: The operands of the instruction: names of parameters, and constants. By default all parameters that
            are not only used to select the instruction.
        gives_value: Whether the instructions returned by `instruction` have a value.
        result: The dtype to which the value is converted; by default that of the instruction.
        value_name: The name of the value in printed programs; by default that of the instruction.
        raises: The errors, as lines of the documentation.
        example: An example call.
        aliases: Other names of the function.
    """

    name: str
    instruction: Instruction | Callable[..., Instruction]
    doc: str
    parameters: tuple[Parameter, ...] = ()
    operands: tuple[str | Expr, ...] | None = None
    gives_value: bool = False
    result: DType | None = None
    value_name: str = ""
    raises: tuple[str, ...] = ()
    example: str = ""
    aliases: tuple[str, ...] = ()
