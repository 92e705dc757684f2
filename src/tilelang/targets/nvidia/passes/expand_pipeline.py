"""Expands software pipelines whose copies are those of cp.async; see `schedule.expansion`.

Takes a tile-level function after `plan_pipeline`; gives one without pipelined loops, in which all asynchronous copies
are committed in groups and waited for.
"""

from __future__ import annotations

from collections.abc import Set

from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Launch, Stmt
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.schedule.async_copies import CopyGroups
from tilelang.schedule.expansion import expand_launch
from tilelang.targets.nvidia.isa.cp_async import CP_ASYNC_COMMIT, CP_ASYNC_WAIT
from tilelang.targets.nvidia.passes.hoist_async_copies import hoist_async_copies
from tilelang.targets.nvidia.passes.insert_async_waits import insert_async_waits

_GROUPS = CopyGroups(CP_ASYNC_COMMIT, CP_ASYNC_WAIT)


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    shared_bytes = context.target.machine.shared_bytes

    def expanded(launch: Launch) -> Launch:
        def with_waits(body: Stmt, owned: Set[Stmt]) -> Stmt:
            body = hoist_async_copies(body, owned, shared_bytes, launch.num_threads)
            return insert_async_waits(body, owned)

        return expand_launch(launch, _GROUPS, with_waits)

    return with_launches(func, expanded)


PASS = Pass(
    "expand_pipeline", _run, Level.TILE, Level.TILE,
    requires=(Property.STAGES_ASSIGNED,),
    establishes=(Property.NO_PIPELINED_LOOPS,),
    invalidates=(Property.BARRIERS_AS_WRITTEN,),
)
