"""The frame of one run of a rewritten function: what its assignments, operators and statements do.

Takes calls from rewritten code (see `language.rewrite`), gives Python values and records statements. Control flow is
in `language.control`.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tilelang.dtypes import BOOL, DType
from tilelang.errors import ProgramAssertionError, ProgramError, StagingError
from tilelang.ir.builder import as_body
from tilelang.ir.expr import Const, Expr, Load, Var, as_bool, as_expr, binary, cast, select, unary
from tilelang.ir.scalar import BinaryOp, UnaryOp
from tilelang.ir.stmt import Alloc, Assert, If, Stmt, Store
from tilelang.language.bindings import MISSING, Poison, Undeclared, is_number, kind_of, number_dtype, read
from tilelang.language.control import Branch, Loop, Named, PlainLoop, StagedFor, StagedWhile
from tilelang.language.loop_spec import LoopSpec
from tilelang.language.loops import serial
from tilelang.language.proxy import TileProxy
from tilelang.language.rewrite import StatementPlace
from tilelang.language.stage import OpenScope, Stager, is_mutable, reads_memory
from tilelang.language.types import TensorType

_COMPARE = {op.value: op for op in (BinaryOp.EQ, BinaryOp.NE, BinaryOp.LT, BinaryOp.LE, BinaryOp.GT, BinaryOp.GE)}
_PYTHON_COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Frame:
    """The object `__f` of rewritten code; one per call."""

    def __init__(
        self, stager: Stager, places: tuple[StatementPlace, ...], function: str, borrowed: Iterable[str] = ()
    ) -> None:
        self.stager = stager
        self._places = places
        self._function = function
        self._call_site = stager.call_site
        self._depth = stager.depth
        self.borrowed = set(borrowed)  # parameters still naming the caller's mutable scalars
        self.frozen: list[set[str]] = []  # names that no staged body around may rebind
        self.loop_targets: list[str] = []  # names of the variables of the staged loops around
        self._begun = 0  # how many statements the open block had when the present statement began
        self.result: object = None

    # -- places -------------------------------------------------------------------------------------------------
    def at(self, index: int) -> None:
        """Control reaches a statement."""
        place = self._places[index]
        loc = place.loc
        if self._call_site is not None:
            loc = dataclasses.replace(loc, caller=self._call_site)
        self.stager.loc = loc
        self.stager.targets = place.targets
        self.stager.coming = None
        self.stager.unpacks = place.unpacks
        self._begun = len(self.stager.statements)

    def known(self, value: Any, constant: object) -> Any:
        """`value` in `value is constant`, which Python answers now: a value of the kernel is no constant but None."""
        if isinstance(value, Expr) and constant is not None:
            raise StagingError(
                f"a value known only when the kernel runs is never the object {constant!r} of Python",
                hint=f"write `== {constant!r}`, or for True the condition itself and for False `not` before it",
            )
        return value

    def naming(self, names: tuple[str, ...], several: bool) -> None:
        """Call the next allocations by these names; if one stands for several, `name_0`, `name_1`, ..."""
        self.stager.targets = names
        self.stager.coming = None
        if len(names) > 1:
            self.stager.coming = iter(names)
        elif several:
            self.stager.coming = (f"{names[0]}_{place}" for place in itertools.count())

    # -- assignment ---------------------------------------------------------------------------------------------
    def assign(self, name: str, value: Any, get: Callable[[], object] | None = None) -> Any:
        """Return the value of `name` after `name = value`."""
        old = read(get)
        if isinstance(value, Poison):
            raise value.error()
        if isinstance(value, OpenScope):
            self.stager.scopes.append(value)
            return value.__enter__()
        if isinstance(old, Undeclared):
            return self._first_assignment(name, value, old)
        if isinstance(old, Var) and name in self.loop_targets:
            raise ProgramError(
                f"the loop variable '{name}' cannot be assigned",
                hint=f"use another name: `{name}_ = {name} + ...`; to skip iterations use `continue` or a step",
            )
        scalar = isinstance(value, Expr) or is_number(value)
        if self.stager.has_ended(old):
            old = MISSING
        if is_mutable(old) and name not in self.borrowed and not self._is_fresh(value):
            if not scalar:
                raise ProgramError(
                    f"'{name}' is a mutable scalar and cannot become {kind_of(value)}",
                    hint="use another name",
                )
            return self._store(name, old, value)  # type: ignore[arg-type]
        if any(name in names for names in self.frozen):
            raise ProgramError(
                f"'{name}' is bound outside of this loop or branch and cannot be rebound inside it: the body is "
                "recorded once",
                hint="use another name inside, or hold the changing value in T.alloc_var or a buffer",
            )
        self.borrowed.discard(name)
        if isinstance(value, Expr) and not self._is_fresh(value):
            return self.stager.bind(name, value)
        return value

    def _is_fresh(self, value: object) -> bool:
        """Whether a value is a mutable scalar allocated by this very statement."""
        if not is_mutable(value):
            return False
        recent = self.stager.statements[self._begun :]
        return any(isinstance(s, Alloc) and s.buffer is value.buffer for s in recent)  # type: ignore[attr-defined]

    def _store(self, name: str, target: Load, value: Any) -> Load:
        expr = as_expr(value)
        given = number_dtype(value) if not isinstance(value, Expr) else expr.dtype
        if given.is_float and not target.dtype.is_float:
            raise ProgramError(
                f"'{name}' is {target.dtype!s} and would lose the fraction of a {given!s} value",
                hint=f"start it as a float, `{name} = T.{given!s}(0)`, or convert: T.{target.dtype!s}(...)",
            )
        self.stager.assign_mutable(target, expr)
        return target

    def _first_assignment(self, name: str, value: Any, undeclared: Undeclared) -> Any:
        if not (isinstance(value, Expr) or is_number(value)):
            return value
        expr = as_expr(value)
        dtype = expr.dtype if isinstance(value, Expr) else number_dtype(value)
        target = self.stager.mutable(name, dtype, None, undeclared.parent)
        return self._store(name, target, value)

    def snapshot(self, value: Any, arity: int | None) -> Any:
        """A value about to be unpacked: staged parts are read now, before any target changes."""
        if isinstance(value, Poison):
            raise value.error()
        if isinstance(value, Expr):
            if arity is not None:
                raise StagingError(f"a scalar cannot be unpacked into {arity} names")
            return self._snapshot_one(value)
        if arity is None:
            return value
        parts = tuple(value)
        if len(parts) != arity:
            raise StagingError(f"cannot unpack {len(parts)} values into {arity} names")
        return tuple(self._snapshot_one(p) for p in parts)

    def _snapshot_one(self, value: Any) -> Any:
        if isinstance(value, Expr) and reads_memory(value) and not self._is_fresh(value):
            return self.stager.bind("t", value)
        return value

    def inplace(self, name: str, left: Any, right: Any) -> Any:
        """`left op= right` for a plain name."""
        return getattr(operator, name)(left, right)

    def annotated(self, annotation: Any, value: Any) -> Any:
        """The value of `name: annotation = value`; a dtype as annotation converts scalars."""
        if isinstance(annotation, DType) and (isinstance(value, Expr) or is_number(value)):
            return cast(value, annotation)
        return value

    def declare(self, name: str, annotation: Any, get: Callable[[], object]) -> Any:
        """`name: annotation` without a value: in eager style it gives a tensor argument its type."""
        value = read(get)
        if hasattr(value, "resolve_annotation"):
            return value.resolve_annotation(annotation)
        if value is MISSING:
            raise StagingError(
                f"'{name}' is annotated but has no value", hint=f"assign it, or make '{name}' a parameter"
            )
        if isinstance(annotation, TensorType) and not isinstance(value, TileProxy):
            raise StagingError(
                f"'{name}' is annotated as a tensor, but it is {value!r:.40}",
                hint="pass an array of NumPy, torch or any library that speaks DLPack",
            )
        return value

    # -- expressions --------------------------------------------------------------------------------------------
    def and_(self, *operands: Callable[[], Any]) -> Any:
        """`a and b and ...`, staged from the first operand on that is known only at run time."""
        return self._logical(BinaryOp.AND, operands)

    def or_(self, *operands: Callable[[], Any]) -> Any:
        """`a or b or ...`, staged likewise."""
        return self._logical(BinaryOp.OR, operands)

    def _logical(self, op: BinaryOp, operands: tuple[Callable[[], Any], ...]) -> Any:
        value = operands[0]()
        for operand in operands[1:]:
            if isinstance(value, Expr):
                right, effects = self._apart(operand)
                value = self._and_then(op, as_bool(value), as_bool(as_expr(right)), effects)
            elif bool(value) is (op is BinaryOp.OR):
                return value
            else:
                value = operand()
        return value

    def _apart(self, operand: Callable[[], Any]) -> tuple[Any, list[Stmt]]:
        """An operand that is evaluated only under a condition, and the statements that its macros and atomics emit."""
        self.stager.open_block()
        value = operand()
        return value, self.stager.close_block()

    def _and_then(self, op: BinaryOp, left: Expr, right: Expr, effects: list[Stmt]) -> Expr:
        """`left op right`; `effects` happen only where `right` is evaluated."""
        if not effects:
            return binary(op, left, right)
        result = self.stager.mutable("holds", BOOL, left)
        test = result if op is BinaryOp.AND else unary(UnaryOp.NOT, result)
        self.stager.emit(If(test, as_body([*effects, Store(result.buffer, (), right, loc=self.stager.loc)])))
        return self.stager.bind("holds", result)

    def not_(self, value: Any) -> Any:
        """`not value`."""
        return unary(UnaryOp.NOT, value) if isinstance(value, Expr) else not value

    def if_exp(self, test: Any, a: Callable[[], Any], b: Callable[[], Any]) -> Any:
        """`a if test else b`."""
        if isinstance(test, Expr) and not isinstance(test, Const):
            (x, effects_of_x), (y, effects_of_y) = self._apart(a), self._apart(b)
            for side in (x, y):
                if not (isinstance(side, Expr) or is_number(side)):
                    raise StagingError(
                        f"both sides of a staged `if ... else ...` must be scalars, got {kind_of(side)}",
                        hint="for tiles write an `if` statement around what is done with them",
                    )
            if not effects_of_x and not effects_of_y:
                return select(test, x, y)
            result = self.stager.mutable("chosen", select(test, x, y).dtype, None)
            sides = []
            for effects, side in ((effects_of_x, x), (effects_of_y, y)):
                store = Store(result.buffer, (), cast(side, result.dtype), loc=self.stager.loc)
                sides.append(as_body([*effects, store]))
            then_body, else_body = sides
            self.stager.emit(If(as_bool(test), then_body, else_body))
            return self.stager.bind("chosen", result)
        return a() if (test.value if isinstance(test, Const) else test) else b()

    def compare(self, left: Any, ops: tuple[str, ...], *operands: Callable[[], Any]) -> Any:
        """`left op a op b ...`: each operand is evaluated once."""
        result: Any = True
        for place, (op, operand) in enumerate(zip(ops, operands, strict=True), start=1):
            effects: list[Stmt] = []
            if result is True:
                right = operand()
            else:
                right, effects = self._apart(operand)
            if effects and place < len(ops):
                raise StagingError(
                    "an operand with effects in the middle of a chained comparison",
                    hint="assign it to a name first, and compare with that",
                )
            if isinstance(left, Expr) or isinstance(right, Expr):
                step: Any = binary(_COMPARE[op], left, right)
            else:
                step = _PYTHON_COMPARE[op](left, right)
                if not step and not isinstance(result, Expr):
                    return step
            if result is True:
                result = step
            else:
                result = self._and_then(BinaryOp.AND, as_bool(as_expr(result)), as_bool(as_expr(step)), effects)
            left = right
        return result

    # -- statements ---------------------------------------------------------------------------------------------
    def assert_(self, test: Any, message: Callable[[], Any], text: str) -> None:
        """`assert test, message`: at once on plain values, when the kernel runs on staged ones."""
        if isinstance(test, Expr) and not isinstance(test, Const):
            said = message()
            self.stager.emit(Assert(as_bool(test), str(said) if said is not None else text))
        elif not (test.value if isinstance(test, Const) else test):
            said = message()
            raise ProgramAssertionError(f"assertion failed: {text if said is None else said}")

    def return_(self, value: Any) -> Any:
        """`return value`."""
        if self.stager.depth != self._depth:
            raise StagingError(
                "`return` inside a kernel, a staged loop or a staged branch",
                hint="guard the rest with `if`; a kernel gives no value: store the result in a parameter, which calls "
                "return if it is in out_idx; in a macro assign it to a T.alloc_var and return at the end",
            )
        if isinstance(value, Poison):
            raise value.error()
        return value

    def range_(self, function: Any, *arguments: Any) -> Any:
        """`range(...)` as the iterable of a `for`: a serial loop of the kernel."""
        return serial(*arguments) if function is range else function(*arguments)

    def loop(self, targets: tuple[str, ...], iterable: Any) -> Loop:
        """The handle of a `for`."""
        if isinstance(iterable, Poison):
            raise iterable.error()
        if isinstance(iterable, LoopSpec):
            return StagedFor(self, targets, iterable)
        if isinstance(iterable, Expr):
            raise StagingError(
                "a value known only when the kernel runs cannot be iterated over", hint="write `for i in T.serial(n)`"
            )
        return PlainLoop(self, iter(iterable))

    def while_loop(self, condition: Callable[[], Any]) -> Loop:
        """The handle of a `while`."""
        first, effects = self._apart(condition)
        if isinstance(first, Expr):
            return StagedWhile(self, condition)
        for effect in effects:
            self.stager.emit(effect)
        return PlainLoop(self, self._plain_while(first, condition))

    def forever(self) -> Expr:
        """The condition of `while True`: a loop of the kernel, since plain Python could not tell when to leave it."""
        return Const(True, BOOL)

    def _plain_while(self, first: Any, condition: Callable[[], Any]) -> Iterator[None]:
        value = first
        while True:
            if isinstance(value, Expr):
                raise StagingError(
                    "the condition of this `while` began as a plain Python value and became a staged one",
                    hint="start its variables as staged values, for example `i = T.int32(0)`",
                )
            if not value:
                return
            yield None
            value = condition()

    def named(self, construct: str) -> Named:
        """The handle of a `with` of T.While, T.If or one of its sides."""
        return Named(self, construct)

    def branch(self, test: Any) -> Branch:
        """The handle of an `if`."""
        if isinstance(test, Poison):
            raise test.error()
        return Branch(self, test)
