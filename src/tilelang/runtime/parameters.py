"""The signature of a kernel: what a call must pass.

Invariant: every symbolic dim and stride of a `Signature` can be determined from the arguments of a call.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from tilelang.errors import ArgumentError, Loc, OptionError, ProgramError
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Const, Expr, Var, int_const
from tilelang.ir.func import Param, PrimFunc, ScalarParam, TensorParam
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Alloc, If, Launch, Stmt
from tilelang.ir.visit import (
    accessed_buffers,
    expressions,
    sub_statements,
    variables_of,
    walk,
    walk_expr,
    written_buffers,
)
from tilelang.records import record
from tilelang.runtime.argument_specs import ArgumentSpec, Kind, make_specs

OutIdx = int | Sequence[int] | None


@record
class Signature:
    """The parameters of a kernel as seen by the caller.

    Attributes:
        name: The kernel's name.
        loc: Where it was defined.
        params: All parameters in order.
        outputs: Indices of the parameters that are allocated and returned, in the order of return.
        inputs: Indices of the other parameters, in order.
        written: Indices of the parameters that the kernel may write.
        symbols: Symbolic dims and strides that the entry takes after the parameters.
        optional: Indices of the tensor inputs whose elements the kernel never touches; None may be passed for them.
        needed: The symbols that the kernel or the shape of an output depends on.
        grids: The extents of each launch.
        assumptions: Conditions of symbols and scalars that a call must satisfy.
    """

    name: str
    loc: Loc
    params: tuple[Param, ...]
    outputs: tuple[int, ...]
    inputs: tuple[int, ...]
    written: frozenset[int]
    symbols: tuple[Var, ...]
    optional: frozenset[int] = frozenset()
    needed: frozenset[Var] = frozenset()
    grids: tuple[tuple[Expr, ...], ...] = ()
    assumptions: tuple[Expr, ...] = ()

    @classmethod
    def of(cls, func: PrimFunc, out_idx: OutIdx = None) -> Signature:
        """The signature of a function; calls allocate and return the parameters `out_idx`.

        Raises:
            OptionError: `out_idx` names no tensor parameter, or one twice.
            ProgramError: A symbolic dim cannot be found from the arguments.
        """
        outputs = _output_indices(func, out_idx)
        inputs = tuple(i for i in range(len(func.params)) if i not in outputs)
        statements = list(reachable(func.body))
        touched = {buffer.storage for stmt in statements for buffer in accessed_buffers(stmt)}
        params = enumerate(func.params)
        optional = {i for i, p in params if isinstance(p, TensorParam) and p.buffer not in touched} - set(outputs)
        signature = cls(
            func.name, func.loc, func.params, outputs, inputs, written_params(func), func.symbols,
            frozenset(optional), _needed_symbols(func, outputs, statements),
            tuple(stmt.grid for stmt in statements if isinstance(stmt, Launch)), func.assumptions,
        )  # fmt: skip
        with func.loc:
            signature._check_symbols()
        return signature

    def with_outputs_given(self) -> Signature:
        """The signature of calls that pass all parameters."""
        return dataclasses.replace(self, outputs=(), inputs=tuple(range(len(self.params))))

    @functools.cached_property
    def specs(self) -> tuple[ArgumentSpec, ...]:
        """The requirements on each argument."""
        return make_specs(self.params, self.inputs, self.written)

    def text(self) -> str:
        """The requirements on each argument, as comment lines."""
        lines = [f"# what a call of {self.name} must pass, and what it checks"]
        for spec in self.specs:
            param, kind = spec.param, spec.kind.name.lower()
            facts = [f"{param.dtype!s} {kind}" if spec.kind in (Kind.TENSOR, Kind.POINTER) else f"{param.dtype!s}"]
            if isinstance(param, TensorParam):
                facts[0] += f" of shape {shape_text(param.shape)}"
                strides = param.buffer.strides
                facts.append("dense" if strides is None else f"strides {shape_text(strides)} in elements")
                facts += ["written"] if spec.written else []
            facts += ["allocated and returned where it is not passed"] if spec.index in self.outputs else []
            lines.append(f"# {param.name}: {', '.join(facts)}")
        return "\n".join([*lines, *(f"# assumed: {to_text(condition)}" for condition in self.assumptions)]) + "\n"

    def names(self, indices: Sequence[int]) -> str:
        """The names of parameters, for messages."""
        return ", ".join(self.params[i].name for i in indices) or "none"

    def _check_symbols(self) -> None:
        known: set[Var] = {p.var for p in self.params if isinstance(p, ScalarParam)}
        tensors = [p for i in self.inputs if isinstance(p := self.params[i], TensorParam)]
        found = True
        while found:
            found = False
            for expr in (e for param in tensors for e in dims_and_strides(param)):
                variable = unknown_of(expr, known)
                if variable is not None:
                    known.add(variable)
                    found = True
        for symbol in self.symbols:
            if symbol not in known:
                given = self.names(self.inputs)
                raise ProgramError(
                    f"{self.name}: dimension '{symbol.name}' cannot be found from the arguments {given}",
                    hint=f"pass it as a scalar parameter `{symbol.name}: T.int32`, or give an input a dimension "
                    f"'{symbol.name}' by itself",
                )


def dims_and_strides(param: TensorParam) -> tuple[Expr, ...]:
    """The extents of a tensor parameter, and its strides if they are declared."""
    return (*param.buffer.shape, *(param.buffer.strides or ()))


def unknown_of(expr: Expr, known: set[Var]) -> Var | None:
    """The only unknown variable of an expression that is linear in it."""
    unknown = {e for e in walk_expr(expr) if isinstance(e, Var) and e not in known}
    if len(unknown) != 1:
        return None
    (variable,) = unknown
    if expr is variable:
        return variable
    others = {e: 1 for e in walk_expr(expr) if isinstance(e, Var)}
    values = [int(evaluate(expr, {**others, variable: x})) for x in (0, 1, 2, 7, 1000)]
    slope = values[1] - values[0]
    linear = all(value == values[0] + slope * x for value, x in zip(values, (0, 1, 2, 7, 1000), strict=True))
    return variable if linear and slope != 0 else None


def solve(expr: Expr, value: int, variable: Var, env: dict[Var, Any]) -> int | None:
    """The value of the variable for which a linear expression has the given value, or None if there is none."""
    if expr is variable:
        return value
    at_zero = int(evaluate(expr, {**env, variable: 0}))
    slope = int(evaluate(expr, {**env, variable: 1})) - at_zero
    if slope == 0 or (value - at_zero) % slope:
        return None
    return (value - at_zero) // slope


def shape_text(exprs: Sequence[Expr]) -> str:
    """A shape as written by the user, for messages."""
    parts = [str(int_const(e)) if isinstance(e, Const) else to_text(e) for e in exprs]
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def written_params(func: PrimFunc) -> frozenset[int]:
    """The indices of the parameters that some statement may write."""
    storages = {buffer.storage for stmt in walk(func.body) for buffer in written_buffers(stmt)}
    return frozenset(
        i for i, param in enumerate(func.params) if isinstance(param, TensorParam) and param.buffer in storages
    )


def reachable(stmt: Stmt) -> Iterator[Stmt]:
    """The statement and its sub-statements, without branches excluded by constant conditions."""
    yield stmt
    if isinstance(stmt, If) and isinstance(stmt.condition, Const):
        taken = stmt.then_body if stmt.condition.value else stmt.else_body
        yield from () if taken is None else reachable(taken)
        return
    for child in sub_statements(stmt):
        yield from reachable(child)


def _needed_symbols(func: PrimFunc, outputs: Sequence[int], statements: Sequence[Stmt]) -> frozenset[Var]:
    """The symbols that the kernel depends on: in its statements and in the shapes of accessed tensors."""
    roots = [expr for stmt in statements for expr in expressions(stmt)]
    roots += func.assumptions
    roots += [value for stmt in statements if isinstance(stmt, Launch) for _, value in stmt.hints.safe_values]
    buffers = {buffer for stmt in statements for buffer in accessed_buffers(stmt)}
    buffers |= {stmt.buffer for stmt in statements if isinstance(stmt, Alloc)}
    buffers |= {param.buffer for i in outputs if isinstance(param := func.params[i], TensorParam)}
    for buffer in buffers:
        roots += [*buffer.shape, *(buffer.strides or ())]
    return frozenset().union(*map(variables_of, roots)) & set(func.symbols)


def _output_indices(func: PrimFunc, out_idx: OutIdx) -> tuple[int, ...]:
    if out_idx is None:
        return func.outputs
    if func.outputs:
        names = ", ".join(f"'{func.params[i].name}'" for i in func.outputs)
        raise OptionError(
            f"{func.name}: Out index conflict: out_idx={out_idx!r}, but the function returns {names} of T.empty",
            loc=func.loc,
            hint="leave out_idx out",
        )
    wanted: Sequence[Any] = out_idx if isinstance(out_idx, list | tuple) else [out_idx]
    count = len(func.params)
    if not all(isinstance(i, int) and not isinstance(i, bool) for i in wanted):
        raise OptionError(
            f"{func.name}: out_idx={out_idx!r} is neither an integer nor a list of integers",
            loc=func.loc,
            hint="write out_idx=[-1] to have the last parameter allocated and returned",
        )
    result: list[int] = []
    for given in wanted:
        index = given + count if given < 0 else given
        if not 0 <= index < count:
            named = ", ".join(f"{i} ({param.name})" for i, param in enumerate(func.params))
            raise OptionError(
                f"{func.name}: out_idx={given} names no parameter; there are {count}",
                loc=func.loc,
                hint=f"the parameters are {named}; -1 is the last",
            )
        if not isinstance(func.params[index], TensorParam):
            raise OptionError(
                f"{func.name}: out_idx={given} is '{func.params[index].name}', which is not a tensor", loc=func.loc
            )
        if index in result:
            raise OptionError(
                f"{func.name}: out_idx={out_idx!r} names '{func.params[index].name}' twice",
                loc=func.loc,
                hint=f"write out_idx=[{index}]" if len(wanted) == 2 else "name each parameter once",
            )
        result.append(index)
    return tuple(result)


def order_keywords(signature: Signature, count: int, keywords: Collection[str]) -> tuple[int, ...]:
    """The positions of the arguments of a call, in the order of parameters, if some are given by keyword.

    Args:
        signature: Of the kernel.
        count: How many are given by position; these lie first.
        keywords: The names of the others, in their order.

    Raises:
        ArgumentError: A name is unknown, given twice, or missing.
    """
    with signature.loc:
        names = [param.name for param in signature.params]
        for name in keywords:
            if name not in names:
                raise ArgumentError(
                    f"{signature.name}: no parameter is named '{name}'", hint=f"the parameters are {', '.join(names)}"
                )
        everything = count + len(keywords) > len(signature.inputs)
        order = range(len(names)) if everything else signature.inputs
        slots = [names[i] for i in order]
        places = {name: index for index, name in enumerate(slots[:count])}
        for index, name in enumerate(keywords, count):
            if name in places:
                raise ArgumentError(f"{signature.name}: '{name}' was given twice")
            places[name] = index
        missing = [name for name in slots if name not in places]
        if missing:
            raise ArgumentError(f"{signature.name}: '{missing[0]}' was not given")
        return tuple(places[name] for name in slots)
