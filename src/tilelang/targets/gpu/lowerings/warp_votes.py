"""`T.Parallel` loops under a condition that holds for whole rows, skipped by warps in which it holds for none.

    for i, j in T.Parallel(M, N):                  any = whether alpha[i] != 1 for a row of the executing thread
        if alpha[i] != 1:                     =>   if any in some lane of the warp:
            O[i, j] = O[i, j] * alpha[i]               O[i, j] = O[i, j] * alpha[i] if alpha[i] != 1 else O[i, j]

All lanes of a warp go the same way, so that matrix instructions around the loop stay asynchronous, which they do not
beside divergent branches. Invariant: each iteration whose condition holds is executed.
"""

from __future__ import annotations

import dataclasses

from tilelang.analysis.parallel_legality import ParallelLegality
from tilelang.dtypes import BOOL
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.builder import Builder, as_body
from tilelang.ir.expr import Load, Var, binary, const, int_const, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Alloc, CallStmt, If, ParallelLoop, Seq, Store
from tilelang.ir.visit import expressions, loads_of, variables_of, walk
from tilelang.lowering.lowering import LoweringContext
from tilelang.targets.gpu.isa.warp import ANY
from tilelang.targets.gpu.lowerings.bind_invariants import bind_invariants
from tilelang.targets.gpu.lowerings.loop_partition import LoopPartition
from tilelang.targets.gpu.lowerings.parallel import DistributedLoop, plain_iteration
from tilelang.targets.gpu.lowerings.thread_all_reduce import ThreadReducer


def skip_by_votes(loop: ParallelLoop, legality: ParallelLegality, context: LoweringContext, build: Builder) -> str:
    """Emits a loop that warps may skip and gives the note on it; "" if its condition is not one of whole rows."""
    branch = loop.body
    if not isinstance(branch, If) or loop.layout is None or context.thread is None:
        return ""
    if legality.reductions or legality.atomics or legality.last_value_stores or legality.live_out:
        return ""
    known = context.change_votes.implied_by(branch.condition)
    axes = condition_axes(loop, is_voted=known is not None)
    if not axes:
        return ""
    lanes = _vote(loop, branch, axes, legality, context, build) if known is None else known
    with build.block() as body:
        DistributedLoop(_without_branch(loop, branch), loop.layout, legality, context).iterations(build)
    build.emit(If(lanes, bind_invariants(as_body(body, loop.loc))))
    return "warps skip it where its condition holds for none of their rows"


def _vote(
    loop: ParallelLoop, branch: If, axes: tuple[int, ...], legality: ParallelLegality, context: LoweringContext,
    build: Builder,
) -> Var:  # fmt: skip
    """Emits a vote on a condition; gives the variable that holds the result."""
    assert loop.layout is not None
    assert context.thread is not None
    rows = Buffer("any_row", (), BOOL, Scope.VAR)
    vote = Store(rows, (), binary(BinaryOp.OR, Load(rows, (), BOOL), branch.condition), loc=branch.loc)
    votes = ParallelLoop(loop.vars, loop.extents, vote, layout=loop.layout, loc=loop.loc)
    partition = LoopPartition(loop.layout, context.thread)
    build.emit(Alloc(rows, const(False, BOOL)))
    build.emit(partition.emit_loops(plain_iteration(votes, legality, context, partition), loc=loop.loc, only=axes))
    mask = ThreadReducer(build, context.thread, context.threads, context.target).mask()
    lanes = Var("any_lane", BOOL)
    build.emit(CallStmt(ANY, (mask, Load(rows, (), BOOL)), result=lanes))
    return lanes


def _without_branch(loop: ParallelLoop, branch: If) -> ParallelLoop:
    """The loop with selections in the place of its branch, if it has one store, to the element of the iteration."""
    store = branch.then_body
    if not isinstance(store, Store) or not all(isinstance(index, Var) for index in store.indices):
        return loop
    loads = [load for root in expressions(store) for load in loads_of(root)]
    if any(not isinstance(index, Var) for load in loads for index in load.indices):
        return loop  # the condition may keep an index within its tile
    old = Load(store.buffer, store.indices, store.buffer.dtype)
    chosen = select(branch.condition, store.value, old)
    return dataclasses.replace(loop, body=dataclasses.replace(store, value=chosen))


def condition_axes(loop: ParallelLoop, *, is_voted: bool = False) -> tuple[int, ...]:
    """The dimensions of a loop that select the rows to which its condition applies.

    There are none if the body is more than a branch that stores to fragments, or if its condition is one of single
    elements, for which a vote does not pay unless it has been taken, or reads more than fragments.
    """
    branch = loop.body
    if not isinstance(branch, If) or branch.else_body is not None or branch.group is not None:
        return ()
    inside = list(walk(branch.then_body))
    if not all(isinstance(stmt, Seq | Store) for stmt in inside):
        return ()
    named = [stmt.buffer for stmt in inside if isinstance(stmt, Store)]
    named += [load.buffer for stmt in (branch, *inside) for root in expressions(stmt) for load in loads_of(root)]
    used = variables_of(branch.condition)
    if not loads_of(branch.condition) or any(buffer.scope is not Scope.FRAGMENT for buffer in named):
        return ()
    long = [axis for axis, extent in enumerate(loop.extents) if int_const(extent) != 1]
    axes = tuple(axis for axis in long if loop.vars[axis] in used)
    return axes if (is_voted or len(axes) < len(long)) and used <= frozenset(loop.vars) else ()
