"""Loops and branches as `with` blocks, jumps and bindings as calls: `T.While`, `T.If`, `T.loop_break`, `T.let`.

Each means what Python's own statement means in a kernel, and records the same. They also work in plain helper functions
that a kernel calls, where Python's statements are not recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

from tilelang.errors import ProgramError, ProgramTypeError, StagingRuntimeError
from tilelang.ir.builder import as_body
from tilelang.ir.expr import Const, Expr, ExprLike, Var, as_bool, as_expr, cast
from tilelang.ir.stmt import Bind, Break, Continue, Stmt
from tilelang.ir.stmt import If as Choice
from tilelang.ir.stmt import While as WhileLoop
from tilelang.ir.visit import expressions, substitute, variables_of, walk
from tilelang.language.api import api
from tilelang.language.control import check_jump
from tilelang.language.stage import Stager, current, current_if_any

__all__ = [
    "Else",
    "If",
    "Let",
    "Then",
    "While",
    "bind",
    "break_loop",
    "continue_loop",
    "ignore_loop_partition",
    "let",
    "likely",
    "loop_break",
    "undef",
]


class While:
    """`with T.While(condition):` runs its body as long as the condition holds, asked before each iteration.

    The condition should read a buffer or a mutable scalar that the body changes.

    Raises:
        ProgramError: The condition is no scalar.

    Example:
        `with T.While(count[0] < n): count[0] += 1`
    """

    @api
    def __init__(self, condition: ExprLike) -> None:
        self._stager = current("T.While")
        self._condition = _truth("T.While", condition)

    def __enter__(self) -> None:
        self._loc = self._stager.loc
        self._stager.open_block()
        self._stager.loops.append("While")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stager.loops.pop()
        body = self._stager.close_block()
        if kind is None:
            self._stager.emit(WhileLoop(self._condition, as_body(body, self._loc), loc=self._loc))


class If:
    """`with T.If(condition):` holds `with T.Then():` and, if there is something to do otherwise, `with T.Else():`.

    Raises:
        ProgramError: The condition is no scalar, there is no `T.Then` inside, or something stands beside the two.
    """

    @api
    def __init__(self, condition: ExprLike) -> None:
        self._stager = current("T.If")
        self._condition = _truth("T.If", condition)
        self.sides: dict[str, Stmt] = {}

    def __enter__(self) -> None:
        self._loc = self._stager.loc
        self._stager.branches.append(self)
        self._stager.open_block()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        beside = self._stager.close_block()
        self._stager.branches.pop()
        if kind is not None:
            return
        if beside or "Then" not in self.sides:
            raise ProgramError(
                "T.If: something stands beside T.Then and T.Else" if beside else "T.If: there is no T.Then inside",
                loc=self._loc,
                hint="write `with T.If(c):` around `with T.Then(): ...` and, if needed, `with T.Else(): ...`",
            )
        then_body, else_body = self.sides["Then"], self.sides.get("Else")
        self._stager.emit(Choice(self._condition, then_body, else_body, loc=self._loc))


class _Side:
    """One side of a `T.If`."""

    name = ""

    @api
    def __init__(self) -> None:
        self._stager: Stager = current(f"T.{self.name}")
        branch = self._stager.branches[-1] if self._stager.branches else None
        if not isinstance(branch, If):
            raise ProgramError(f"T.{self.name}: stands outside of T.If", hint="write `with T.If(condition):` around it")
        if self.name in branch.sides:
            raise ProgramError(f"T.{self.name}: this T.If has one already")
        self._branch = branch

    def __enter__(self) -> None:
        self._loc = self._stager.loc
        self._stager.branches.append(self)  # a side inside belongs to a T.If of its own
        self._stager.open_block()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        body = self._stager.close_block()
        self._stager.branches.pop()
        if kind is None:
            self._branch.sides[self.name] = as_body(body, self._loc)


class Then(_Side):
    """`with T.Then():` inside of `with T.If(condition):` holds what is done if the condition holds."""

    name = "Then"


class Else(_Side):
    """`with T.Else():` inside of `with T.If(condition):` holds what is done if the condition does not hold."""

    name = "Else"


@api
def loop_break() -> None:
    """Leaves the innermost loop, as `break` does.

    Raises:
        StagingRuntimeError: There is no loop around, or it is one whose iterations are independent or overlap.
    """
    _jump("T.loop_break", Break())


@api
def break_loop(span: object = None) -> None:
    """The same as `T.loop_break`."""
    del span
    _jump("T.break_loop", Break())


@api
def continue_loop(span: object = None) -> None:
    """Goes on with the next iteration of the innermost loop, as `continue` does. Errors as of `T.loop_break`."""
    del span
    _jump("T.continue_loop", Continue())


def _jump(what: str, statement: Break | Continue) -> None:
    stager = current(what)
    if not stager.loops:
        raise StagingRuntimeError(f"{what}: there is no loop around", hint="write it inside `for i in T.serial(n):`")
    check_jump(what, stager.loops[-1])
    stager.emit(statement)


@api
def let(var: Var, value: ExprLike, body: ExprLike | None = None) -> Expr:
    """Gives an unnamed variable a value.

    Without `body` it is a statement: the variable has the value in what follows. With `body`, an expression, it is that
    expression with the value in the variable's place.

    Args:
        var: A variable made before, as in `v = T.int32()`.
        value: Converted to the variable's dtype.
        body: An expression of the variable.

    Raises:
        ProgramTypeError: What is given a value is no variable.

    Example:
        `v = T.int32(); T.let(v, bx * 4); A[v] = 0`
    """
    if body is None:
        return _bound("T.let", var, value)
    inner, stager = as_expr(body), current_if_any()
    _check_variable("T.let", var)
    first = None if stager is None else next((n for n, s in enumerate(stager.statements) if _names(s, var)), None)
    if stager is None or first is None:
        return Let(inner, {var: value})
    # the body has emitted what uses the variable, such as a call, after all that the value consists of
    stager.statements.insert(first, Bind(var, _of_variable(var, value), loc=stager.loc))
    return inner


@api
def Let(expr: Expr, where: Mapping[Var, ExprLike]) -> Expr:
    """An expression in which variables are replaced by values, which are converted to the variables' dtypes.

    Raises:
        ProgramTypeError: What is replaced is no variable.
    """
    for var in where:
        _check_variable("T.Let", var)
    return substitute(as_expr(expr), {var: _of_variable(var, value) for var, value in where.items()})


@api
def bind(value: ExprLike, type_annotation: object = None, *, var: Var | None = None) -> Expr:
    """A name for a value as it is now, which later changes of memory do not change.

    Args:
        value: An expression.
        type_annotation: Accepted for older programs.
        var: The variable that is given the value; a new one without it.
    """
    del type_annotation
    stager = current("T.bind")
    if var is None:
        return stager.bind(stager.target or "v", as_expr(value))
    return _bound("T.bind", var, value)


@api
def likely(cond: ExprLike, span: object = None) -> ExprLike:
    """The condition itself, which is expected to hold."""
    del span
    return cond


@api
def ignore_loop_partition(predicate: ExprLike) -> ExprLike:
    """The condition itself."""
    return predicate


@api
def undef() -> Expr:
    """Any value, here 0: for operands that do not matter."""
    return Const(0, as_expr(0).dtype, weak=True)


def _bound(what: str, var: Var, value: ExprLike) -> Var:
    _check_variable(what, var)
    stager = current(what)
    stager.emit(Bind(var, _of_variable(var, value)))
    return var


def _names(stmt: Stmt, var: Var) -> bool:
    return any(var in variables_of(expr) for part in walk(stmt) for expr in expressions(part))


def _of_variable(var: Var, value: ExprLike) -> Expr:
    expr = as_expr(value)
    return expr if expr.is_index and var.index else cast(expr, var.dtype)


def _check_variable(what: str, var: object) -> None:
    if not isinstance(var, Var):
        raise ProgramTypeError(f"{what}: {var!r:.40} is no variable", hint="make one before, as in `v = T.int32()`")


def _truth(what: str, condition: ExprLike) -> Expr:
    test = as_expr(condition)
    if test.dtype.lanes > 1:
        raise ProgramTypeError(f"{what}: the condition is a {test.dtype!s}, not a scalar")
    return as_bool(test)
