"""Records of instructions that are one PTX statement without a result: most of synchronization and asynchronous copies.

Takes a statement whose operands are numbered in the order of its arguments; gives its record, with the C++ function
that holds the statement. Invariant: the function is volatile and touches memory, so that a C++ compiler moves nothing
across it. Records of instructions with a result name their texts themselves, as in `memory`.

Source: CUDA C++ Programming Guide, "Inline PTX Assembly in CUDA", "Constraints", "Incorrect Optimization".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilelang.isa.instruction import AsyncUnit, Effect, ExecutionScope, Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.records import record
from tilelang.targets.nvidia.machines import Feature

_CONSTRAINTS = {"int": "r", "unsigned": "r", "unsigned short": "h", "unsigned long long": "l"}


@record(slots=True)
class Argument:
    """An argument of the function, which is an operand of the statement.

    Attributes:
        parameter: Its declaration.
        operand: The operand, with its constraint.
        place: What stands in the place of `{}` for the argument of the call, in a call of the function.
        helper: What defines its type.
    """

    parameter: str
    operand: str
    place: str = "{}"
    helper: Helper | None = None


def register(kind: str, name: str) -> Argument:
    """A number of the C++ type `kind`."""
    return Argument(f"{kind} {name}", f'"{_CONSTRAINTS[kind]}"({name})')


def global_address(name: str, *, const: bool = False) -> Argument:
    """A pointer to global memory."""
    return Argument("const " * const + f"void* {name}", f'"l"({name})')


def shared_address(name: str, *, const: bool = False) -> Argument:
    """A pointer to shared memory, of which the operand is the address there."""
    return Argument("const " * const + f"void* {name}", shared_operand(name))


def shared_operand(name: str) -> str:
    """The operand for a pointer to shared memory: its address there, with its constraint."""
    return f'"r"((unsigned)__cvta_generic_to_shared({name}))'


def ptx_statement(
    name: str,
    statement: str,
    arguments: Sequence[Argument],
    simulate: Callable[..., Any],
    comment: str,
    *,
    source: str,
    needs: Feature,
    execution_scope: ExecutionScope = ExecutionScope.THREAD,
    async_unit: AsyncUnit | None = None,
    effect: Effect = Effect.NONE,
    pending: int | None = None,
    written_map: int | None = None,
    optional: bool = False,
    instead: str = "",
) -> Instruction:
    """The record of an instruction without a result, called with the arguments in their order.

    Args:
        name: Of the instruction; the function has the prefix `tl_`.
        statement: The PTX, with its semicolon.
        arguments: Of the function; operand `%i` is the i-th.
        simulate: The meaning.
        comment: What the function does, for readers of the generated source.
        source: Manual and section.
        needs: What the target must have.
        execution_scope: The threads that must execute it together.
        async_unit: What completes its work later.
        effect: What else it does.
        pending: Groups that may be in flight after a wait.
        written_map: Position of the argument that is the map of a tensor that it writes.
        optional: Whether a target that lacks it does without.
        instead: What a user may write for GPUs of other vendors.
    """
    operands = f"\n                 :\n                 : {', '.join(each.operand for each in arguments)}\n" + " " * 17
    text = f"""\
// {comment}
__device__ __forceinline__ void tl_{name}({", ".join(each.parameter for each in arguments)}) {{
    asm volatile("{statement}"{operands + ":" if arguments else " :::"} "memory");
}}
"""
    places = ", ".join(each.place.format(f"{{{i}}}") for i, each in enumerate(arguments))
    helpers = dict.fromkeys(each.helper for each in arguments if each.helper is not None)
    return Instruction(
        name,
        {"cuda": f"tl_{name}({places})"},
        {"cuda": Helper(f"tl_{name}", text, needs=tuple(helpers))},
        simulate,
        execution_scope=execution_scope,
        async_unit=async_unit,
        effect=effect,
        pending=pending,
        written_map=written_map,
        needs=needs,
        optional=optional,
        instead=instead,
        source=source,
    )
