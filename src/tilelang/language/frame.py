"""The frame of one run of a rewritten function: what its control flow and assignments do.

A *staged* loop or branch is one whose header holds a value known only when the kernel runs. Inside it each statement is
recorded once, so a name that the body rebinds must live in memory: `carry` turns such names into mutable scalars before
the body, and `leave` poisons names that have no value after it.
"""

from __future__ import annotations

import dataclasses
import numbers
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tilelang.dtypes import BOOL, FLOAT32, INT32, INT64, DType
from tilelang.errors import ProgramError, StagingError
from tilelang.ir.builder import as_body
from tilelang.ir.expr import Const, Expr, Load, Var, as_bool, as_expr, binary, cast, select, unary
from tilelang.ir.scalar import BinaryOp, UnaryOp
from tilelang.ir.stmt import Alloc, Assert, Break, Continue, If, While
from tilelang.language.loops import LoopSpec, serial
from tilelang.language.rewrite import Site
from tilelang.language.stage import Stager, is_mutable, reads_memory

MISSING = object()

_COMPARE = {op.value: op for op in (BinaryOp.EQ, BinaryOp.NE, BinaryOp.LT, BinaryOp.LE, BinaryOp.GT, BinaryOp.GE)}


class Poison:
    """Stands for a name whose value exists only inside a staged loop or branch; any use is an error."""

    def __init__(self, name: str, construct: str) -> None:
        object.__setattr__(self, "_what", (name, construct))

    def __tilelang_expr__(self) -> Expr:
        raise self.error()

    def error(self) -> ProgramError:
        """The error of using the name."""
        name, construct = object.__getattribute__(self, "_what")
        return ProgramError(
            f"'{name}' has no value here: it is assigned only inside the {construct} above",
            hint=f"assign '{name}' before the {construct}, for example `{name} = T.float32(0)`, or use it inside",
        )

    def _use(self, *_: object) -> Any:
        raise self.error()

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__") and attribute.endswith("__"):  # protocol probes such as hasattr
            raise AttributeError(attribute)
        raise self.error()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _use
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __neg__ = __invert__ = _use
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lshift__ = __rshift__ = __abs__ = _use
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _use  # type: ignore[assignment]
    __getitem__ = __setitem__ = __iter__ = __len__ = __bool__ = __index__ = __int__ = __float__ = __call__ = _use
    __str__ = __format__ = _use  # type: ignore[assignment]
    __hash__ = object.__hash__


class Undeclared:
    """A name that both sides of a staged branch assign: its first assignment makes a mutable scalar before the branch."""

    def __init__(self, name: str, parent: list[Any]) -> None:
        self.name = name
        self.parent = parent

    def __tilelang_expr__(self) -> Expr:
        raise ProgramError(
            f"'{self.name}' is used before it is assigned", hint=f"assign '{self.name}' before this line"
        )


def _read(get: Callable[[], object] | None) -> object:
    """The present value of a name, or MISSING if it has none yet."""
    if get is None:
        return MISSING
    try:
        return get()
    except NameError:
        return MISSING


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) or type(value).__module__ == "numpy" and hasattr(value, "item") and not getattr(value, "shape", ())


def _number_dtype(value: Any) -> DType:
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return BOOL
    if isinstance(value, numbers.Integral):
        return INT32 if -(2**31) <= int(value) < 2**31 else INT64
    return FLOAT32


class Frame:
    """What `__f` is in rewritten code; one per call."""

    def __init__(self, stager: Stager, sites: tuple[Site, ...], function: str, borrowed: Iterable[str] = ()) -> None:
        self.stager = stager
        self._sites = sites
        self._function = function
        self._call_site = stager.call_site
        self._depth = stager.depth
        self.borrowed = set(borrowed)  # parameters still naming the caller's mutable scalars
        self.frozen: list[set[str]] = []  # names that no staged body around may rebind
        self.result: object = None

    # -- places -------------------------------------------------------------------------------------------------
    def at(self, index: int) -> None:
        """Control reaches a statement."""
        site = self._sites[index]
        loc = site.loc
        if self._call_site is not None:
            loc = dataclasses.replace(loc, caller=self._call_site)
        self.stager.loc = loc
        self.stager.targets = site.targets

    # -- assignment ---------------------------------------------------------------------------------------------
    def assign(self, name: str, value: Any, get: Callable[[], object] | None = None) -> Any:
        """What `name` means after `name = value`."""
        old = _read(get)
        if isinstance(value, Poison):
            raise value.error()
        if isinstance(old, Undeclared):
            return self._first_assignment(name, value, old)
        if old is not MISSING and isinstance(old, Var) and any(v is old for v in self.stager.loop_vars):
            raise ProgramError(
                f"the loop variable '{name}' cannot be assigned",
                hint=f"use another name: `{name}_ = {name} + ...`; to skip iterations use `continue` or a step",
            )
        scalar = isinstance(value, Expr) or _is_number(value)
        if is_mutable(old) and name not in self.borrowed and not self._is_fresh(value):
            if not scalar:
                raise ProgramError(
                    f"'{name}' is a mutable scalar and cannot become a {type(value).__name__}",
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
        last = self.stager.statements[-1] if self.stager.statements else None
        return isinstance(last, Alloc) and last.buffer is value.buffer  # type: ignore[attr-defined]

    def _store(self, name: str, target: Load, value: Any) -> Load:
        expr = as_expr(value)
        given = _number_dtype(value) if not isinstance(value, Expr) else expr.dtype
        if given.is_float and not target.dtype.is_float:
            raise ProgramError(
                f"'{name}' is {target.dtype!s} and would lose the fraction of a {given!s} value",
                hint=f"start it as a float, `{name} = T.{given!s}(0)`, or convert: T.{target.dtype!s}(...)",
            )
        self.stager.assign_mutable(target, expr)
        return target

    def _first_assignment(self, name: str, value: Any, undeclared: Undeclared) -> Any:
        if not (isinstance(value, Expr) or _is_number(value)):
            return value
        expr = as_expr(value)
        dtype = expr.dtype if isinstance(value, Expr) else _number_dtype(value)
        with self.stager.block():
            target = self.stager.mutable(name, dtype, None)
            declaration = self.stager.statements[-1]
        undeclared.parent.append(declaration)
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
        if isinstance(annotation, DType) and (isinstance(value, Expr) or _is_number(value)):
            return cast(value, annotation)
        return value

    def declare(self, name: str, annotation: Any, get: Callable[[], object]) -> Any:
        """`name: annotation` without a value: in eager style it gives a tensor argument its type."""
        value = _read(get)
        if hasattr(value, "resolve_annotation"):
            return value.resolve_annotation(annotation)  # type: ignore[union-attr]
        if value is MISSING:
            raise StagingError(
                f"'{name}' is annotated but has no value", hint=f"assign it, or make '{name}' a parameter"
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
                value = binary(op, as_bool(value), as_bool(as_expr(operand())))
            elif bool(value) is (op is BinaryOp.OR):
                return value
            else:
                value = operand()
        return value

    def not_(self, value: Any) -> Any:
        """`not value`."""
        return unary(UnaryOp.NOT, value) if isinstance(value, Expr) else not value

    def if_exp(self, test: Any, a: Callable[[], Any], b: Callable[[], Any]) -> Any:
        """`a if test else b`."""
        if isinstance(test, Expr) and not isinstance(test, Const):
            x, y = a(), b()
            for side in (x, y):
                if not (isinstance(side, Expr) or _is_number(side)):
                    raise StagingError(
                        f"both sides of a staged `if ... else ...` must be scalars, got {type(side).__name__}"
                    )
            return select(test, x, y)
        return a() if (test.value if isinstance(test, Const) else test) else b()

    def compare(self, left: Any, ops: tuple[str, ...], *operands: Callable[[], Any]) -> Any:
        """`left op a op b ...`: each operand is evaluated once."""
        result: Any = True
        for op, operand in zip(ops, operands, strict=True):
            right = operand()
            if isinstance(left, Expr) or isinstance(right, Expr):
                step: Any = binary(_COMPARE[op], left, right)
            else:
                step = _PYTHON_COMPARE[op](left, right)
                if not step and not isinstance(result, Expr):
                    return step
            result = step if result is True else binary(BinaryOp.AND, as_bool(as_expr(result)), as_bool(as_expr(step)))
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
            raise ProgramError(f"assertion failed: {text if said is None else said}")

    def return_(self, value: Any) -> Any:
        """`return value`."""
        if self.stager.depth != self._depth:
            raise StagingError(
                "`return` inside a kernel, a staged loop or a staged branch",
                hint="guard the rest with `if`, or assign the result to a T.alloc_var and return at the end",
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
        first = condition()
        if isinstance(first, Expr):
            return StagedWhile(self, condition)
        return PlainLoop(self, self._plain_while(first, condition))

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

    def branch(self, test: Any) -> Branch:
        """The handle of an `if`."""
        if isinstance(test, Poison):
            raise test.error()
        return Branch(self, test)


_PYTHON_COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Region:
    """What loops and branches share: names that their staged bodies assign."""

    construct = "loop"

    def __init__(self, frame: Frame, *, staged: bool) -> None:
        self.frame = frame
        self.stager = frame.stager
        self.staged = staged
        self.value: Any = None
        self._before: dict[str, object] = {}
        self._frozen: set[str] = set()

    def carry(self, name: str, get: Callable[[], object], mode: str) -> bool:
        """Whether `name` must be rebound to `self.value` before the staged body.

        `mode`: "both" if both sides of a branch assign it, "reborn" if the body assigns it before reading it.
        """
        if not self.staged:
            return False
        old = _read(get)
        if isinstance(old, Undeclared):  # a branch further out declares it
            return False
        if old is None or isinstance(old, Poison):
            old = MISSING
        self._before[name] = old
        if old is MISSING:
            if mode == "both":
                self.value = self._before[name] = Undeclared(name, self.stager.statements)
                return True
            return False
        if isinstance(old, Var) and any(v is old for v in self.stager.loop_vars):
            return False  # assigning it is an error, raised where it happens
        if is_mutable(old) and name not in self.frame.borrowed:
            return False
        if isinstance(old, Expr) or _is_number(old):
            dtype = old.dtype if isinstance(old, Expr) else _number_dtype(old)
            self.frame.borrowed.discard(name)
            self.value = self._before[name] = self.stager.mutable(name, dtype, old)  # type: ignore[arg-type]
            return True
        if mode != "reborn":
            self._frozen.add(name)
        return False

    def leave(self, name: str, get: Callable[[], object]) -> bool:
        """Whether `name` must be rebound to `self.value` after the staged body."""
        if not self.staged:
            return False
        now, before = _read(get), self._before.get(name, MISSING)
        if now is MISSING or isinstance(now, Poison):
            return False
        if now is before and not isinstance(now, Undeclared) or isinstance(now, Undeclared) and now is not before:
            return False
        if is_mutable(now) and self._visible(now):
            return False
        self.value = Poison(name, self.construct)
        return True

    def _visible(self, value: object) -> bool:
        """Whether a mutable scalar was declared in a block that is still open."""
        return any(
            isinstance(s, Alloc) and s.buffer is value.buffer  # type: ignore[attr-defined]
            for block in self.stager.open_blocks
            for s in block
        )

    def _enter(self) -> None:
        self.stager.open_block()
        self.frame.frozen.append(self._frozen)

    def _exit(self) -> list[Any]:
        self.frame.frozen.pop()
        return self.stager.close_block()


class Loop(Region):
    """A `for` or `while`, plain or staged."""

    def run(self) -> Iterator[Any]:
        """Yields what the loop's target is bound to: once if staged, else once per iteration."""
        raise NotImplementedError

    def break_(self) -> bool:
        """Whether Python's own `break` shall follow."""
        return self._jump("break", Break())

    def continue_(self) -> bool:
        """Whether Python's own `continue` shall follow."""
        return self._jump("continue", Continue())

    def _jump(self, what: str, statement: Break | Continue) -> bool:
        if not self.staged:
            if self.stager.depth != self._depth:
                raise StagingError(
                    f"`{what}` out of a plain Python loop under a condition known only when the kernel runs",
                    hint="write the loop with T.serial so that it runs in the kernel",
                )
            return True
        self.stager.emit(statement)
        return False

    _depth = 0


class PlainLoop(Loop):
    """A loop over plain Python values: it runs now, and its body is recorded once per iteration."""

    def __init__(self, frame: Frame, iterator: Iterator[Any]) -> None:
        super().__init__(frame, staged=False)
        self._iterator = iterator
        self._depth = self.stager.depth

    def run(self) -> Iterator[Any]:
        yield from self._iterator


class StagedFor(Loop):
    """A loop of the kernel."""

    def __init__(self, frame: Frame, targets: tuple[str, ...], spec: LoopSpec) -> None:
        super().__init__(frame, staged=True)
        self._spec = spec
        self._targets = targets
        pending = self.stager.pending_pipeline
        if pending is not None:
            self._spec = spec.pipelined_by(pending)
            self.stager.pending_pipeline = None

    def run(self) -> Iterator[Any]:
        spec, loc = self._spec, self.stager.loc
        opened = spec.open(self.stager, self._targets)
        self.stager.loop_vars.extend(opened.vars)
        self._enter()
        for prologue in opened.prologue:
            self.stager.emit(prologue)
        yield opened.value
        body = self._exit()
        del self.stager.loop_vars[len(self.stager.loop_vars) - len(opened.vars) :]
        self.stager.loc = loc
        self.stager.emit(opened.close(as_body(body, loc)))

    def _jump(self, what: str, statement: Break | Continue) -> bool:
        if self._spec.kind not in ("serial", "unroll"):
            raise StagingError(
                f"`{what}` cannot leave a T.{self._spec.kind} loop: its iterations are independent or overlap",
                hint="write the loop with T.serial, or guard the rest of the body with `if`",
            )
        return super()._jump(what, statement)


class StagedWhile(Loop):
    """A `while` of the kernel."""

    def __init__(self, frame: Frame, condition: Callable[[], Any]) -> None:
        super().__init__(frame, staged=True)
        self._condition = condition

    def run(self) -> Iterator[Any]:
        loc = self.stager.loc
        condition = as_bool(as_expr(self._condition()))
        self._enter()
        yield None
        body = self._exit()
        self.stager.loc = loc
        self.stager.emit(While(condition, as_body(body, loc)))


class Branch(Region):
    """An `if`, decided now or when the kernel runs."""

    construct = "branch"

    def __init__(self, frame: Frame, test: Any) -> None:
        super().__init__(frame, staged=isinstance(test, Expr) and not isinstance(test, Const))
        self._loc = self.stager.loc
        self._test = test
        self._then: list[Any] = []

    def then(self) -> bool:
        """Whether the first side shall be run."""
        if self.staged:
            self._enter()
            return True
        test = self._test
        self._test = bool(test.value if isinstance(test, Const) else test)
        return bool(self._test)

    def orelse(self) -> bool:
        """Whether the second side shall be run."""
        if self.staged:
            self._then = self._exit()
            self._enter()
            return True
        return not self._test

    def end(self) -> None:
        """Records the branch."""
        if not self.staged:
            return
        orelse = self._exit()
        then_body = as_body(self._then, self._loc)
        else_body = as_body(orelse, self._loc) if orelse else None
        self.stager.emit(If(as_bool(self._test), then_body, else_body, loc=self._loc))
