"""Renews the thread's index behind the main loop of each tile, so that addresses are computed where they are used.

    for turn in ...:                             for turn in ...:
        for k in ...: T.gemm(...)                    for k in ...: T.gemm(...)
        stores to staging[f(thread)]      =>         own = renewed(thread)
                                                     stores to staging[f(own)]

NVVM moves what depends on the thread's index alone out of the loop over tiles, into registers that are taken all the
time, of which loops around matrix instructions have none left: attention with tiles of 192 x 80 spilled 1 (NVRTC 13.5)
and 6 (13.0) of 160. A few instructions for each tile are nothing beside its main loop.

Takes a thread-level launch. Invariant: each thread computes the same.
"""

from __future__ import annotations

import dataclasses

from tilelang.arith.domain import Domain
from tilelang.arith.interval import bounds
from tilelang.dtypes import INT32
from tilelang.ir.assumption import assume
from tilelang.ir.expr import Expr, Var, conjunction
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.sequences import statements_of, with_statements
from tilelang.ir.stmt import Bind, CallStmt, For, ForKind, If, Launch, Seq, Stmt, While
from tilelang.ir.visit import Rewriter, substitute_stmt, uses, variables_of, walk
from tilelang.isa.instruction import Instruction
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.targets.nvidia.isa.async_units import WGMMA
from tilelang.targets.nvidia.isa.renewed import RENEWED


class _Renew(Rewriter):
    """Rewrites the body of a launch.

    Args:
        thread: The thread's index in the block.
        threads: How many there are.
    """

    def __init__(self, thread: Var, threads: int) -> None:
        self._own = {thread: None}  # the index, and names of what follows from it alone
        self._domain = Domain().with_range(thread, 0, threads - 1)

    def stmt(self, node: Stmt) -> Stmt | None:
        variables = variables_of(node.value) if isinstance(node, Bind) and node.var.is_index else None
        if isinstance(node, Bind) and variables and variables <= self._own.keys():
            self._own[node.var] = None
            self._domain = self._domain.with_value(node.var, node.value)
        if isinstance(node, For | While):
            body = self._behind_loops(node.body)
            return node if body is node.body else dataclasses.replace(node, body=body)
        return self.rebuild_stmt(node)

    def _behind_loops(self, node: Stmt) -> Stmt:
        """The body of a loop, or a part of it, with a new index behind the last of its loops of matrix instructions."""
        if isinstance(node, If):
            then, other = self._behind_loops(node.then_body), node.else_body and self._behind_loops(node.else_body)
            same = then is node.then_body and other is node.else_body
            return node if same else dataclasses.replace(node, then_body=then, else_body=other)
        last = max((n for n, stmt in enumerate(statements_of(node)) if _has_loop(stmt)), default=None)
        if not isinstance(node, Seq) or last is None:
            return node
        before, behind = node.body[:last], node.body[last + 1 :]
        used = [var for var in self._own if any(uses(stmt, var) for stmt in behind)]
        if not used:
            return with_statements(node, (*before, self._behind_loops(node.body[last]), *behind))
        made: list[Stmt] = []
        renewed: dict[Var, Expr] = {}
        for var in used:
            loc, values = behind[0].loc, bounds(var, self._domain)
            assert values.low is not None  # it is made of the thread's index alone
            assert values.high is not None
            value, new = Var(var.name, INT32), Var(var.name, INT32, index=True)
            made.append(CallStmt(RENEWED, (var,), result=value, loc=loc))
            made.append(Bind(new, value, loc=loc))
            made.append(assume(conjunction([new >= values.low, new <= values.high]), loc))
            renewed[var] = new
        return Seq((*before, node.body[last], *made, *(substitute_stmt(s, renewed) for s in behind)), loc=node.loc)


def _has_loop(stmt: Stmt) -> bool:
    """Whether a statement holds a loop of matrix instructions, which take operands in registers, or is one."""
    loops = [s for s in walk(stmt) if isinstance(s, For) and s.kind is not ForKind.UNROLLED]
    calls = [s for loop in loops for s in walk(loop) if isinstance(s, CallStmt)]
    return any(isinstance(s.routine, Instruction) and s.routine.async_unit is WGMMA for s in calls)


def renew_thread_index(launch: Launch) -> Launch:
    """The launch with new indices behind main loops, if it has loops over tiles."""
    if launch.thread is None:
        return launch
    body = _Renew(launch.thread, launch.num_threads).visit(launch.body)
    return launch if body is launch.body or body is None else dataclasses.replace(launch, body=body)


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_launches(func, renew_thread_index)


PASS = Pass(
    "renew_thread_index", _run, Level.THREAD, Level.THREAD,
    requires=(Property.EXPRESSIONS_SIMPLIFIED,),
)
