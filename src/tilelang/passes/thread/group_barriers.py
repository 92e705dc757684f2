"""Inserts the barriers that groups of threads need among themselves, which are named ones: others do not come there.

Takes a thread-level function in which barriers of the block stand where they are needed; treats what each group does
together as the program of a block of these threads. Invariant: nothing but named barriers is added, with numbers that
the program does not use; groups with the same threads share one.
"""

from __future__ import annotations

import dataclasses
import functools

from tilelang.analysis.thread_accesses import hands_over
from tilelang.analysis.uniform import Uniformity
from tilelang.arith.domain import Domain, of_function
from tilelang.dtypes import INT32
from tilelang.errors import CompilerBug, Loc, NoLowering
from tilelang.ir.expr import Expr, const, int_const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Bind, CallStmt, Group, If, Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter, any_expr, walk
from tilelang.isa.nvidia.sync import BAR_ARRIVE, BAR_SYNC, BARRIERS
from tilelang.passes.base import Pass, PassContext
from tilelang.passes.thread.insert_barriers import insert_barriers

_LOWEST = 8  # numbers below are the program's own, whichever it computes


class _Groups(Rewriter):
    """The groups of one launch."""

    def __init__(self, launch: Launch, domain: Domain) -> None:
        self._launch, self._domain = launch, domain
        self._uniform = Uniformity(launch)
        calls = [s for s in walk(launch.body) if isinstance(s, CallStmt) and s.routine in (BAR_SYNC, BAR_ARRIVE)]
        taken = {int_const(call.args[0]) for call in calls if isinstance(call.args[0], Expr)}
        self._free = [number for number in range(_LOWEST, BARRIERS) if number not in taken]
        self._numbers: dict[Group, int] = {}

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, If) or node.group is None:
            return self.rebuild_stmt(node)
        first, *rest = node.then_body.body if isinstance(node.then_body, Seq) else (node.then_body,)
        body = Seq(tuple(rest), loc=node.then_body.loc)
        thread = self._launch.thread
        if not isinstance(first, Bind) or any(any_expr(s, lambda e: e is thread) for s in rest):
            raise CompilerBug("group_barriers: a group must name its threads by their place in it")
        group = dataclasses.replace(self._launch, body=body, threads=(node.group.count, 1, 1), thread=first.var)
        barrier = functools.partial(self._barrier, node)
        made = insert_barriers(group, self._domain, self._uniform, barrier).body
        # where the program orders groups itself, no barrier of the block does it for what the group did before
        before = [barrier(node.loc)] if any(hands_over(s) for s in rest) else []
        return dataclasses.replace(node, then_body=Seq((first, *before, made), loc=node.then_body.loc))

    def _barrier(self, node: If, loc: Loc) -> Stmt:
        assert node.group is not None
        if node.group not in self._numbers:
            if not self._free:
                raise NoLowering(
                    f"T.ws: no barrier of the block is left for this group; there are {BARRIERS}",
                    loc=node.loc,
                    hint="use fewer different groups, and numbers below 8 for T.sync_threads",
                )
            self._numbers[node.group] = self._free.pop()
        number, count = const(self._numbers[node.group], INT32), const(node.group.count, INT32)
        return CallStmt(BAR_SYNC, (number, count), loc=loc)


class _Launches(Rewriter):
    def __init__(self, domain: Domain) -> None:
        self._domain = domain

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, Launch):
            return self.rebuild_stmt(node)
        if not any(isinstance(s, If) and s.group for s in walk(node.body)):
            return node
        return _Groups(node, self._domain).rebuild_stmt(node)


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    body = _Launches(of_function(func)).visit(func.body) or Seq((), loc=func.body.loc)
    return func if body is func.body else dataclasses.replace(func, body=body)


PASS = Pass("group_barriers", _run, Level.THREAD, Level.THREAD)
