"""The function by which programs call an instruction, as the file of the instruction's record describes it.

Gives `Function` and `Parameter`; `language.instruction_functions` makes the function of one. Invariant: one call of the
function is one call of one instruction.
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
    """What a function takes in a place."""

    VALUE = "an expression, converted to the dtype of the parameter"
    SCALAR = "an expression of any dtype, truth values as int32; the instruction depends on the dtype"
    INTEGER = "such an expression, but no float"
    PREDICATE = "an integer or truth value, as a truth value"
    LANES = "a mask of lanes"
    BLOCK = "the number of a block in the cluster"
    BARRIER = "a barrier in shared memory"
    GLOBAL = "an element of global memory; the instruction depends on its dtype"
    CONSTANT = "a number that is known while the kernel is staged"
    NUMBER = "such a number, on which the instruction depends"
    FLAG = "True or False, on which the instruction depends"
    WORD = "a text, on which the instruction depends"


REQUIRED = object()  # in the place of a default


@record(slots=True)
class Parameter:
    """A parameter of a function.

    Attributes:
        name: Its name.
        kind: What it takes.
        doc: What it is, for the documentation.
        default: What it is where it is left out.
        dtype: Of the operand, for `VALUE` and `CONSTANT`.
        check: Raises an error where the instruction does not take a number or text, from the user's name for the call
            and that number or text; of a `VALUE` only where that is known while the kernel is staged.
        access: What the instruction does with an element of `GLOBAL`: "r", "w", "rw" or nothing.
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
        instruction: What it calls; or what gives that from the dtype or constant of each parameter on which the
            instruction depends, in their order.
        doc: The documentation but for what `parameters`, `raises` and `example` say.
        parameters: In the order in which the user gives them.
        operands: What the instruction is called with, in its order: names of parameters, and constants. Without it,
            all parameters on which the instruction does not depend alone.
        gives_value: Whether instructions that `instruction` makes have a value.
        result: The dtype to which its value is converted; that of the instruction without it.
        value_name: What its value is called in kernels that do not name it; as the instruction without it.
        raises: The errors, as lines of the documentation.
        example: A call.
        aliases: Further names.
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
