"""Reconverges warps after loops on values in memory, such as compare-and-swap, which lanes leave at different times.

    if thread < 17: atomic_max(S[i], x)          if thread < 17: atomic_max(S[i], x)
    if block != 1:                            => __syncwarp()
        __syncthreads() ...                      if block != 1: ...

ptxas reconverges divergent lanes after the branch or the loop, but not where a loop waits for values in memory: lanes
may then run the next statements separately. If one of these is a branch with a barrier in it, lanes may still be
divergent after it, where ptxas assumes convergence: an mma of such a warp gives undefined results. ptxas 13.0 does so
for compare-and-swap, and for other atomic operations in a loop whose exit depends on their results; loops with
shuffles, with waits for barriers in shared memory, or with exits by plain loads and arithmetic are safe.

Takes a thread-level launch with its barriers and groups. Invariant: only `__syncwarp` is added, at points that whole
warps reach together; none before a barrier, nor where no later statement executes an instruction of a whole warp.

Source: CUDA C++ Programming Guide, "Independent Thread Scheduling"; PTX ISA, "mma", of `.aligned`.
"""

from __future__ import annotations

import dataclasses

from tilelang.analysis.uniformity import uniformity
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.sequences import statements_of
from tilelang.ir.stmt import Atomic, Break, CallStmt, For, If, Launch, Seq, Stmt, While
from tilelang.ir.visit import sub_statements, walk
from tilelang.isa.instruction import ExecutionScope, Instruction
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.targets.gpu.isa.sync import SYNC_THREADS, SYNC_WARP
from tilelang.targets.nvidia.isa.atomic import of_statement
from tilelang.targets.nvidia.machines import WARP_SIZE
from tilelang.transforms.place_barriers import PlaceBarriers, block_barrier


def reconverge_warps(launch: Launch) -> Launch:
    """The launch with its warps reconverged where they may diverge."""
    if not _may_diverge(launch.body):
        return launch
    points = _Reconvergence(launch)
    points.visit(launch.body, needed_later=False)
    threads = min(launch.num_threads, WARP_SIZE)
    insert = PlaceBarriers(points.before, points.ends, lambda at: block_barrier(threads, WARP_SIZE, at.loc))
    body = insert.stmt(launch.body)
    return launch if body is launch.body or body is None else dataclasses.replace(launch, body=body)


class _Reconvergence:
    """The statements before which, and the bodies at whose end, `__syncwarp` is inserted."""

    def __init__(self, launch: Launch) -> None:
        self._uniform = uniformity(launch)
        self.before: set[Stmt] = set()
        self.ends: set[Stmt] = set()

    def visit(self, body: Stmt, *, needed_later: bool) -> None:
        """Visits a body that whole warps run; `needed_later`: whether a later statement needs convergence."""
        following: Stmt | None = None
        for stmt in reversed(statements_of(body)):
            needs_convergence = _needs_convergence(stmt)
            if isinstance(stmt, Seq):
                self.visit(stmt, needed_later=needed_later)
            elif _may_diverge(stmt):
                if needs_convergence and self._entered_by_whole_warps(stmt):
                    for child in sub_statements(stmt):
                        self.visit(child, needed_later=needed_later or isinstance(stmt, For | While))
                elif following is None:
                    self.ends.update([body] if needed_later else ())
                elif needed_later and not _is_barrier(following):
                    self.before.add(following)
            needed_later = needed_later or needs_convergence
            following = stmt

    def _entered_by_whole_warps(self, stmt: Stmt) -> bool:
        """Whether whole warps execute the body of a statement, given that whole warps reach the statement."""
        if isinstance(stmt, If) and stmt.group is not None:
            return stmt.group.count % WARP_SIZE == 0
        return not self._uniform.diverges(stmt)


def _may_diverge(stmt: Stmt) -> bool:
    """Whether lanes of a warp may run separately after a statement."""
    for node in walk(stmt):
        routine = of_statement(node) if isinstance(node, Atomic) else getattr(node, "routine", None)
        if isinstance(routine, Instruction) and routine.may_diverge:
            return True
        if isinstance(node, While) or isinstance(node, For) and any(isinstance(s, Break) for s in walk(node.body)):
            if any(isinstance(inner, Atomic) and inner.result is not None for inner in walk(node)):
                return True
    return False


def _needs_convergence(stmt: Stmt) -> bool:
    """Whether a statement holds an instruction of a whole warp or more."""
    routines = (node.routine for node in walk(stmt) if isinstance(node, CallStmt))
    instructions = (routine for routine in routines if isinstance(routine, Instruction))
    return any(instruction.execution_scope is not ExecutionScope.THREAD for instruction in instructions)


def _is_barrier(stmt: Stmt) -> bool:
    return isinstance(stmt, CallStmt) and stmt.routine in (SYNC_THREADS, SYNC_WARP)


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_launches(func, reconverge_warps)


PASS = Pass(
    "reconverge_warps",
    _run,
    Level.THREAD,
    Level.THREAD,
    requires=(Property.BLOCK_BARRIERS_INSERTED, Property.GROUP_BARRIERS_INSERTED, Property.THREAD_GROUPS_DETECTED),
    establishes=(Property.WARPS_RECONVERGED,),
)
