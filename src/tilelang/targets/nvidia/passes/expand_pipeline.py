"""Expands software pipelines whose copies are those of cp.async; see `schedule.expansion`.

Takes a tile-level function after `plan_pipeline`; gives one without pipelined loops, in which all asynchronous copies
are committed in groups and waited for.
"""

from __future__ import annotations

from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Launch
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property
from tilelang.schedule.async_copies import AsyncCopies
from tilelang.schedule.expansion import expand_loops, with_versions
from tilelang.targets.nvidia.isa.cp_async import CP_ASYNC_COMMIT, CP_ASYNC_WAIT
from tilelang.targets.nvidia.passes.async_copies import is_asynchronous
from tilelang.targets.nvidia.passes.hoist_async_copies import hoist_async_copies
from tilelang.targets.nvidia.passes.insert_async_waits import insert_async_waits

_COPIES = AsyncCopies(is_asynchronous, CP_ASYNC_COMMIT, CP_ASYNC_WAIT)


def expand_launch(launch: Launch, shared_bytes: int) -> Launch:
    """The launch without pipelined loops, all its asynchronous copies waited for.

    Args:
        launch: The launch.
        shared_bytes: Shared memory of a block, in bytes.
    """
    expanded = expand_loops(launch.body, _COPIES)
    body = hoist_async_copies(expanded.body, expanded.copies, shared_bytes, launch.num_threads)
    body = insert_async_waits(body, expanded.copies)
    return launch if body is launch.body else with_versions(launch, expanded, body)


def _run(func: PrimFunc, context: PassContext) -> PrimFunc:
    shared_bytes = context.target.machine.shared_bytes
    return with_launches(func, lambda launch: expand_launch(launch, shared_bytes))


PASS = Pass(
    "expand_pipeline", _run, Level.TILE, Level.TILE,
    requires=(Property.STAGES_ASSIGNED,),
    establishes=(Property.NO_PIPELINED_LOOPS,),
    invalidates=(Property.BARRIERS_AS_WRITTEN,),
)
