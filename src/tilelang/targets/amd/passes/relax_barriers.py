"""Relaxes barriers of the block to order LDS only, where no thread reads what others write to global memory.

Takes a thread-level function with its barriers. Invariant: a barrier that orders accesses to global memory stays as it
is: in a launch with fences or atomics of global memory, by which threads may publish what others wrote, or with a
tensor that is both written and accessed elsewhere. A relaxed barrier does not wait for prefetched loads, as a release
fence of the work-group does on RDNA and with direct loads, and does not invalidate the L1 cache.

Source: LLVM, "User Guide for AMDGPU Backend", "Memory Model".
"""

from __future__ import annotations

import dataclasses

from tilelang.analysis.accesses import accesses
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Atomic, CallStmt, Launch, Stmt
from tilelang.ir.visit import Rewriter, walk
from tilelang.isa.instruction import Effect, Instruction
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.targets.amd.isa.barriers import lds_barrier
from tilelang.targets.amd.isa.wait_counters import counters_of
from tilelang.targets.gpu.isa.sync import SYNC_THREADS


def orders_global_memory(launch: Launch) -> bool:
    """Whether barriers of a launch may have to order accesses to global memory."""
    if any(map(_may_publish, walk(launch.body))):
        return True
    found = [access for access in accesses(launch.body).all if access.buffer.scope is Scope.GLOBAL]
    written = [access.buffer.storage for access in found if access.write]
    return any(sum(access.buffer.storage is storage for access in found) > 1 for storage in written)


def _may_publish(stmt: Stmt) -> bool:
    """Whether a statement may publish global memory, or access some that its regions do not name."""
    if isinstance(stmt, Atomic):
        return stmt.buffer.scope is Scope.GLOBAL
    if not isinstance(stmt, CallStmt):
        return False
    if isinstance(stmt.routine, Instruction) and stmt.routine.effect & (Effect.FENCE | Effect.SYNC_GRID):
        return True
    named = {region.buffer for region in (*stmt.reads, *stmt.writes)}
    operands = (arg.buffer for arg in stmt.args if isinstance(arg, Region))
    return any(buffer.scope is Scope.GLOBAL and buffer not in named for buffer in operands)


class _Relax(Rewriter):
    def __init__(self, barrier: Instruction) -> None:
        self._barrier = barrier

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, CallStmt) and node.routine is SYNC_THREADS:
            return dataclasses.replace(node, routine=self._barrier)
        return self.rebuild_stmt(node)


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    relax = _Relax(lds_barrier(counters_of(context.target.machine)))

    def run(launch: Launch) -> Launch:
        if orders_global_memory(launch):
            return launch
        return dataclasses.replace(launch, body=relax.visit(launch.body) or launch.body)

    return with_launches(func, run)


PASS = Pass(
    "relax_barriers", _run, Level.THREAD, Level.THREAD,
    requires=(Property.GROUP_BARRIERS_INSERTED,),
)  # fmt: skip
