"""`T.thread_return`: the threads that reach it do nothing more in this kernel.

While a block is staged it is a statement of its own. When the kernel is complete, what follows it in the block goes
under the condition that the thread did not return, so that no other part of the compiler has to handle it. Invariant:
what `without_returns` gives holds no `ThreadReturn`, and evaluates each condition of the block as often as before.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence

from tilelang.dtypes import BOOL
from tilelang.errors import ProgramError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.builder import as_body
from tilelang.ir.expr import Const, Expr, Load, unary
from tilelang.ir.scalar import UnaryOp
from tilelang.ir.stmt import Alloc, Break, For, If, Seq, Stmt, Store, While
from tilelang.ir.visit import walk
from tilelang.language.api import api
from tilelang.language.control import check_jump
from tilelang.language.stage import Stager, current
from tilelang.records import record

__all__ = ["thread_return"]


@record(eq=False)
class ThreadReturn(Stmt):
    """The thread leaves the kernel; where all threads of a block do, the block does."""


@api
def thread_return() -> None:
    """Leaves the kernel: the rest of the block's program is done only by threads that did not get here.

    Under a condition that is the same for all threads of a block, the block does nothing more. Under one that depends
    on the thread, each thread that gets here does nothing more. What stands after it is then under a condition on the
    thread, as if the program said `if` around it: each thread does it by itself, and tiles that the threads of a
    block do together (a `T.Parallel` loop, a `T.copy` to shared memory) need threads of which none has returned.

    A loop around it has to be `T.serial`, `T.unroll` or `while`, which ends, too. Kernels that follow in the same
    function are not affected.

    Raises:
        ProgramError: There is no kernel around.
        StagingError: It stands in a loop whose iterations are independent or overlap.

    Example:
        `if bx * 128 + tx >= n: T.thread_return()`
    """
    stager = current("T.thread_return")
    if stager.hints is None:
        raise ProgramError(
            "T.thread_return: stands outside of a kernel",
            hint="write it inside `with T.Kernel(...)`, which has threads",
        )
    for kind in reversed(stager.loops):
        check_jump("T.thread_return", kind)
    stager.emit(ThreadReturn())


def without_returns(body: Stmt, stager: Stager) -> Stmt:
    """The body of a block without a `ThreadReturn`: what follows one stands under the condition that it is not reached.

    Where no condition of the program says whether a thread has returned, a mutable scalar does.
    """
    if not _returns(body):
        return body
    plain = _Cut(None)
    statements, _ = plain.sequence((body,), in_loop=False)
    if plain.asked:
        flag = Buffer(stager.unique("returned"), (), BOOL, Scope.VAR, loc=body.loc)
        statements, _ = _Cut(Load(flag, (), BOOL)).sequence((body,), in_loop=False)
        statements.insert(0, Alloc(flag, Const(False, BOOL), loc=body.loc))
    return as_body(statements, body.loc)


class _Ways(enum.Enum):
    """Which threads return in a statement."""

    NONE = enum.auto()
    SOME = enum.auto()
    ALL = enum.auto()


class _Cut:
    """Rewrites the statements of one block.

    Args:
        flag: What threads set when they return; None while it is not known whether that is needed.

    Attributes:
        asked: Whether a condition needs the flag.
    """

    def __init__(self, flag: Load | None) -> None:
        self._flag = flag
        self.asked = False

    def sequence(self, statements: Sequence[Stmt], *, in_loop: bool) -> tuple[list[Stmt], _Ways]:
        """Statements one after another, of which those that are not reached after a return are not done."""
        done: list[Stmt] = []
        ways = _Ways.NONE
        for n, stmt in enumerate(statements):
            if not _returns(stmt):
                done.append(stmt)
                continue
            rest = statements[n + 1 :]
            if isinstance(stmt, Seq):
                inner, last = self.sequence((*stmt.body, *rest), in_loop=in_loop)
                return [*done, *inner], ways if last is _Ways.NONE else last
            if isinstance(stmt, ThreadReturn):
                return [*done, *self._leave(stmt, in_loop)], _Ways.ALL
            if in_loop:
                rewritten, here = self._within(stmt)
                done.extend(rewritten)
                if here is _Ways.ALL:
                    return done, _Ways.ALL
                ways = _Ways.SOME  # those that did have left the loop
                continue
            rewritten, here = self._before(stmt, rest)
            return [*done, *rewritten], here
        return done, ways

    def _leave(self, stmt: ThreadReturn, in_loop: bool) -> list[Stmt]:
        """Emit the statements that take the place of the return itself."""
        statements: list[Stmt] = []
        if self._flag is not None:
            statements.append(Store(self._flag.buffer, (), Const(True, BOOL), loc=stmt.loc))
        if in_loop:
            statements.append(Break(loc=stmt.loc))
        return statements

    def _within(self, stmt: Stmt) -> tuple[list[Stmt], _Ways]:
        """A statement of a loop's body: threads that return leave the loop."""
        if isinstance(stmt, If):
            then_body, then_ways = self.sequence((stmt.then_body,), in_loop=True)
            other, other_ways = self._other(stmt, in_loop=True)
            return [_branch(stmt, then_body, other)], _joined(then_ways, other_ways)
        loop = self._loop(stmt)
        return [loop, If(self._has_returned(), Break(loc=stmt.loc), loc=stmt.loc)], _Ways.SOME

    def _before(self, stmt: Stmt, rest: Sequence[Stmt]) -> tuple[list[Stmt], _Ways]:
        """A statement outside of loops, and those after it."""
        if not isinstance(stmt, If):
            statements: list[Stmt] = [self._loop(stmt)]
        else:
            then_body, then_ways = self.sequence((stmt.then_body,), in_loop=False)
            other, other_ways = self._other(stmt, in_loop=False)
            if then_ways is other_ways is _Ways.ALL:
                return [_branch(stmt, then_body, other)], _Ways.ALL
            if then_ways is _Ways.ALL and other_ways is _Ways.NONE:
                after, after_ways = self.sequence(rest, in_loop=False)
                return _split(stmt, then_body, [*other, *after]), _joined(_Ways.ALL, after_ways)
            if then_ways is _Ways.NONE and other_ways is _Ways.ALL:
                after, after_ways = self.sequence(rest, in_loop=False)
                return [_branch(stmt, [*then_body, *after], other)], _joined(_Ways.ALL, after_ways)
            statements = [_branch(stmt, then_body, other)]
        after, _ = self.sequence(rest, in_loop=False)
        if after:
            stays = unary(UnaryOp.NOT, self._has_returned())
            statements.append(If(stays, as_body(after, after[0].loc), loc=after[0].loc))
        return statements, _Ways.SOME

    def _other(self, stmt: If, *, in_loop: bool) -> tuple[list[Stmt], _Ways]:
        return ([], _Ways.NONE) if stmt.else_body is None else self.sequence((stmt.else_body,), in_loop=in_loop)

    def _loop(self, stmt: Stmt) -> Stmt:
        assert isinstance(stmt, For | While), stmt
        body, _ = self.sequence((stmt.body,), in_loop=True)
        return dataclasses.replace(stmt, body=as_body(body, stmt.body.loc))

    def _has_returned(self) -> Expr:
        self.asked = True
        return Const(False, BOOL) if self._flag is None else self._flag


def _branch(stmt: If, then_body: list[Stmt], other: list[Stmt]) -> If:
    return dataclasses.replace(
        stmt,
        then_body=as_body(then_body, stmt.then_body.loc),
        else_body=as_body(other, stmt.loc) if other else None,
    )


def _split(stmt: If, then_body: list[Stmt], other: list[Stmt]) -> list[Stmt]:
    """A branch whose other side goes on with the rest of the block; of a group, as a branch of its own."""
    if stmt.group is None and then_body:
        return [_branch(stmt, then_body, other)]
    sides: list[Stmt] = []
    if then_body:
        sides.append(_branch(stmt, then_body, []))
    if other:
        sides.append(If(unary(UnaryOp.NOT, stmt.condition), as_body(other, stmt.loc), loc=stmt.loc))
    return sides


def _joined(first: _Ways, second: _Ways) -> _Ways:
    """Which threads return where they go one of two ways."""
    return first if first is second else _Ways.SOME


def _returns(stmt: Stmt) -> bool:
    return any(isinstance(s, ThreadReturn) for s in walk(stmt))
