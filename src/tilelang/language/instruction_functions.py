"""Makes the functions of the language that are one call of an instruction from their descriptions (level 3).

Takes `isa.function.Function`s, gives Python functions with signature and documentation. Invariant: a function checks
its arguments, emits one call of one instruction, and gives its value if it has one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

from tilelang.dtypes import INT32, DType
from tilelang.errors import ProgramTypeError
from tilelang.ir.buffer import Region
from tilelang.ir.expr import Expr, ExprLike, as_bool, as_expr, cast, int_const
from tilelang.isa.function import REQUIRED, Function, Parameter, ParameterKind
from tilelang.isa.instruction import Instruction
from tilelang.language.api import api
from tilelang.language.barriers import Barrier, barrier_region
from tilelang.language.calls import emit_call, rank_in_cluster
from tilelang.language.lanes import as_predicate, lane_mask
from tilelang.language.operators import plain_int
from tilelang.language.pointers import Place, global_region, neighbors

# what signatures say of a parameter; the wrapper of `api` looks the names up here
_ANNOTATIONS: Mapping[ParameterKind, str] = {
    ParameterKind.VALUE: "ExprLike",
    ParameterKind.SCALAR: "ExprLike",
    ParameterKind.INTEGER: "ExprLike",
    ParameterKind.PREDICATE: "ExprLike",
    ParameterKind.LANES: "ExprLike",
    ParameterKind.BLOCK: "ExprLike",
    ParameterKind.BARRIER: "Barrier",
    ParameterKind.GLOBAL: "Place",
    ParameterKind.CONSTANT: "int",
    ParameterKind.NUMBER: "int",
    ParameterKind.FLAG: "bool",
    ParameterKind.WORD: "str",
}
_TYPES = (ExprLike, Barrier, Place, Expr)  # that the annotations name
_CHOOSING = (ParameterKind.NUMBER, ParameterKind.FLAG, ParameterKind.WORD)  # is no operand


def functions_of(*modules: ModuleType) -> dict[str, Callable[..., Any]]:
    """The functions that modules of records describe by `FUNCTIONS`, which not all have; by name."""
    return {
        name: _function(description, name, module.__name__)
        for module in modules
        for description in getattr(module, "FUNCTIONS", ())
        for name in (description.name, *description.aliases)
    }


def _function(description: Function, name: str, module: str) -> Callable[..., Any]:
    what = f"T.{name}"
    signature = _signature(description)

    def function(*args: Any, **keywords: Any) -> Expr | None:
        bound = signature.bind(*args, **keywords)
        bound.apply_defaults()
        return _call(what, description, bound.arguments)

    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    same = f"The same as `T.{description.name}`."
    function.__doc__ = documentation(description) if name == description.name else same
    function.__signature__ = signature  # type: ignore[attr-defined]
    return api(function)


def _signature(description: Function) -> inspect.Signature:
    parameters = [
        inspect.Parameter(
            each.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if each.default is REQUIRED else each.default,
            annotation=_ANNOTATIONS[each.kind],
        )
        for each in description.parameters
    ]
    instruction = description.instruction
    gives = instruction.result is not None if isinstance(instruction, Instruction) else description.gives_value
    return inspect.Signature(parameters, return_annotation="Expr" if gives else "None")


def documentation(description: Function) -> str:
    """The docstring of a function."""
    parts = [inspect.cleandoc(description.doc)]
    lines_of_parameters = [f"    {each.name}: {each.doc}" for each in description.parameters if each.doc]
    for title, lines in (("Args", lines_of_parameters), ("Raises", [f"    {line}" for line in description.raises])):
        if lines:
            parts.append("\n".join([f"{title}:", *lines]))
    if description.example:
        parts.append(f"Example:\n    `{description.example}`")
    return "\n\n".join(parts)


def _call(what: str, description: Function, arguments: Mapping[str, Any]) -> Expr | None:
    operands: dict[str, Expr | Region] = {}
    chosen: list[Any] = []
    is_truth = False
    for parameter in description.parameters:
        given = arguments[parameter.name]
        if parameter.kind in _CHOOSING:
            chosen.append(_constant(what, parameter, given))
            continue
        operand = operands[parameter.name] = _operand(what, parameter, given)
        if parameter.kind in (ParameterKind.SCALAR, ParameterKind.GLOBAL):
            chosen.append(operand.dtype)
        is_truth |= parameter.kind is ParameterKind.SCALAR and as_expr(given).dtype.is_bool
    declared = description.instruction
    instruction = declared if isinstance(declared, Instruction) else declared(*chosen)
    order = operands if description.operands is None else description.operands
    reads, writes = (tuple(_touched(description, operands, letter)) for letter in "rw")
    result = emit_call(
        what,
        instruction,
        *(operands[each] if isinstance(each, str) else each for each in order),
        reads=reads,
        writes=writes,
        name=description.value_name or instruction.name,
    )
    if result is None:
        return None
    if is_truth:
        return as_bool(result)
    return result if description.result is None else cast(result, description.result)


def _touched(description: Function, operands: Mapping[str, Expr | Region], letter: str) -> Iterator[Region]:
    for parameter in description.parameters:
        if letter in parameter.access:
            region = operands[parameter.name]
            assert isinstance(region, Region)
            yield region


def _constant(what: str, parameter: Parameter, given: Any) -> Any:
    if parameter.kind is ParameterKind.NUMBER:
        given = plain_int(what, parameter.name, given)
    if parameter.check is not None:
        parameter.check(what, given)
    return bool(given) if parameter.kind is ParameterKind.FLAG else given


def _operand(what: str, parameter: Parameter, given: Any) -> Expr | Region:
    match parameter.kind:
        case ParameterKind.BARRIER:
            return barrier_region(what, given)
        case ParameterKind.GLOBAL:
            return neighbors(global_region(what, given), 1)
        case ParameterKind.LANES:
            return lane_mask(given)
        case ParameterKind.PREDICATE:
            return as_predicate(what, given)
        case ParameterKind.BLOCK:
            return rank_in_cluster(what, given)
        case ParameterKind.CONSTANT:
            if parameter.check is not None:
                parameter.check(what, given)
            return cast(given, parameter.dtype)
        case ParameterKind.VALUE:
            number = int_const(as_expr(given))
            if parameter.check is not None and number is not None:
                parameter.check(what, number)
            return cast(given, parameter.dtype)
    return _scalar(what, as_expr(given), integers=parameter.kind is ParameterKind.INTEGER)


def _scalar(what: str, operand: Expr, *, integers: bool) -> Expr:
    if integers and operand.dtype.is_float:
        raise ProgramTypeError(f"{what}: requires an integer or boolean predicate, got {operand.dtype!s}")
    dtype: DType = INT32 if operand.dtype.is_bool else operand.dtype
    return cast(operand, dtype)
