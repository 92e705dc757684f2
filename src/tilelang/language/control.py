"""Loops and branches of a rewritten function: what `for`, `while` and `if` do while a kernel is staged.

A *staged* loop or branch is one whose header holds a value known only when the kernel runs. Inside it each statement is
recorded once, so a name that the body rebinds must live in memory: `carry` turns such names into mutable scalars before
the body, and `leave` poisons names that have no value after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tilelang.dtypes import BOOL
from tilelang.errors import StagingError
from tilelang.ir.builder import as_body
from tilelang.ir.expr import Const, Expr, Load, Var, as_bool, as_expr, unary
from tilelang.ir.scalar import UnaryOp
from tilelang.ir.stmt import Break, Continue, If, While
from tilelang.language.bindings import MISSING, Poison, Undeclared, is_number, number_dtype, read
from tilelang.language.loop_spec import LoopSpec
from tilelang.language.proxy import TileProxy
from tilelang.language.stage import is_mutable

if TYPE_CHECKING:
    from tilelang.language.frame import Frame


class Region:
    """The base of loops and branches: the names that their staged bodies assign."""

    construct = "loop"

    def __init__(self, frame: Frame, *, staged: bool) -> None:
        self.frame = frame
        self.stager = frame.stager
        self.staged = staged
        self.value: Any = None
        self._before: dict[str, object] = {}
        self._declared_outside: dict[str, Undeclared] = {}
        self._frozen: set[str] = set()

    def carry(self, name: str, get: Callable[[], object], mode: str) -> bool:
        """Whether `name` must be rebound to `self.value` before the staged body.

        `mode`: "both" if both sides of a branch assign it, "reborn" if the body assigns it before reading it.
        """
        if not self.staged:
            return False
        old = read(get)
        if isinstance(old, Undeclared):  # a branch further out declares it
            self._declared_outside[name] = old
            return False
        if old is None or isinstance(old, Poison) or self.stager.has_ended(old):
            old = MISSING
        self._before[name] = old
        if old is MISSING:
            if mode == "both":
                self.value = self._before[name] = Undeclared(name, self.stager.statements)
                return True
            return False
        if isinstance(old, Var) and name in self.frame.loop_targets:
            return False  # assigning it is an error, raised where it happens
        if is_mutable(old) and name not in self.frame.borrowed:
            return False
        if isinstance(old, Expr) or is_number(old):
            dtype = old.dtype if isinstance(old, Expr) else number_dtype(old)
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
        now, before = read(get), self._before.get(name, MISSING)
        if now is MISSING or isinstance(now, Poison):
            return False
        if now is before and not isinstance(now, Undeclared) or isinstance(now, Undeclared) and now is not before:
            return False
        if isinstance(now, Load) and is_mutable(now) and self.stager.in_scope(now.buffer):
            return False
        self.value = Poison(name, self.construct, tile=isinstance(now, TileProxy))
        return True

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


def check_jump(what: str, kind: str) -> None:
    """Raises if a loop of a kind cannot be left, or its iterations not cut short.

    Raises:
        StagingError: Its iterations are independent or overlap.
    """
    if kind not in ("serial", "unroll", "While"):
        raise StagingError(
            f"{what} cannot leave a T.{kind} loop: its iterations are independent or overlap",
            hint="write the loop with T.serial, or guard the rest of the body with `if`",
        )


class Named(Region):
    """The names that the body of `with T.While(...)`, `T.If(...)`, `T.Then()` or `T.Else()` assigns."""

    def __init__(self, frame: Frame, construct: str) -> None:
        super().__init__(frame, staged=True)
        self.construct = "branch" if construct in ("If", "Then", "Else") else "loop"

    def __enter__(self) -> None:
        self.frame.frozen.append(self._frozen)

    def __exit__(self, *_: object) -> None:
        self.frame.frozen.pop()


class PlainLoop(Loop):
    """A loop over plain Python values: it runs now, and its body is recorded once per iteration."""

    def __init__(self, frame: Frame, iterator: Iterator[Any]) -> None:
        super().__init__(frame, staged=False)
        self._iterator = iterator
        self._depth = self.stager.depth

    def run(self) -> Iterator[Any]:
        """Yields the plain values."""
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
        """Yields the loop variables once and records the loop around what was recorded meanwhile."""
        spec, loc = self._spec, self.stager.loc
        opened = spec.open(self.stager, self._targets)
        self.frame.loop_targets.extend(self._targets)
        self._enter()
        self.stager.loops.append(spec.kind)
        for prologue in opened.prologue:
            self.stager.emit(prologue)
        yield opened.value
        self.stager.loops.pop()
        body = self._exit()
        del self.frame.loop_targets[len(self.frame.loop_targets) - len(self._targets) :]
        self.stager.loc = loc
        self.stager.emit(opened.close(as_body(body, loc)))

    def _jump(self, what: str, statement: Break | Continue) -> bool:
        check_jump(f"`{what}`", self._spec.kind)
        return super()._jump(what, statement)


class StagedWhile(Loop):
    """A `while` of the kernel."""

    def __init__(self, frame: Frame, condition: Callable[[], Any]) -> None:
        super().__init__(frame, staged=True)
        self._condition = condition

    def run(self) -> Iterator[Any]:
        """Yields once and records the loop around what was recorded meanwhile."""
        loc = self.stager.loc
        self._enter()
        self.stager.loops.append("While")
        condition = as_bool(as_expr(self._condition()))
        if self.stager.statements:  # what its macros and atomics do happens before each iteration
            self.stager.emit(If(unary(UnaryOp.NOT, condition), Break(loc=loc), loc=loc))
            condition = Const(True, BOOL)
        yield None
        self.stager.loops.pop()
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

    def reset(self, name: str, get: Callable[[], object]) -> bool:
        """Whether `name` must be rebound to `self.value` before the second side, as the first side has bound it."""
        if not self.staged:
            return False
        now, before = read(get), self._declared_outside.get(name) or self._before.get(name, MISSING)
        if isinstance(now, Load) and is_mutable(now) and self.stager.in_scope(now.buffer):
            return False
        if isinstance(before, Undeclared):
            self.value = before
            return now is not before
        if before is not MISSING or now is MISSING or isinstance(now, Poison):
            return False
        self.value = Poison(name, self.construct, tile=isinstance(now, TileProxy))
        return True

    def end(self) -> None:
        """Records the branch."""
        if not self.staged:
            return
        orelse = self._exit()
        then_body = as_body(self._then, self._loc)
        else_body = as_body(orelse, self._loc) if orelse else None
        self.stager.emit(If(as_bool(self._test), then_body, else_body, loc=self._loc))
