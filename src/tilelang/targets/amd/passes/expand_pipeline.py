"""Expands software pipelines whose loads pass registers or go to LDS directly; see `schedule.expansion`.

Takes a tile-level function after `plan_pipeline`; gives one without pipelined loops. Direct loads are in groups that
are waited for; loads to registers are those of threads, for which compilers wait where the registers are read.
"""

from __future__ import annotations

from tilelang.ir.buffer import Scope
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Launch, Stmt
from tilelang.ops.copy import Copy
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.schedule.expansion import expand_loops, with_versions
from tilelang.schedule.loop_body import fills
from tilelang.targets.amd.passes.direct_copies import COPIES


def _moves_registers(stmt: Stmt) -> bool:
    """Whether a statement fills a shared tile with what registers hold, which does no harm after the last iteration.

    Then the barrier before it is in no branch, and serves the tile's readers as well.
    """
    return (
        isinstance(stmt, Copy) and stmt.src.buffer.scope is Scope.FRAGMENT and fills(stmt, stmt.dst.buffer)
        and stmt.dst.buffer.scope is Scope.SHARED
    )  # fmt: skip


def _expanded(launch: Launch) -> Launch:
    expanded = expand_loops(launch.body, COPIES, _moves_registers)
    return launch if expanded.body is launch.body else with_versions(launch, expanded, expanded.body)


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_launches(func, _expanded)


PASS = Pass(
    "expand_pipeline", _run, Level.TILE, Level.TILE,
    requires=(Property.STAGES_ASSIGNED,),
    establishes=(Property.NO_PIPELINED_LOOPS,),
    invalidates=(Property.BARRIERS_AS_WRITTEN,),
)  # fmt: skip
