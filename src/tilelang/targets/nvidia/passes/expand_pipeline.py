"""Commits and waits for the asynchronous copies of expanded pipelines by the groups of cp.async.

Takes the expanded body of a launch; gives one in which all asynchronous copies are committed in groups and waited for.
"""

from __future__ import annotations

from collections.abc import Set

from tilelang.ir.stmt import Launch, Stmt
from tilelang.passes.base import PassContext
from tilelang.schedule.async_copies import CopyGroups
from tilelang.schedule.expand_pipeline import expand_pipeline
from tilelang.targets.nvidia.isa.cp_async import CP_ASYNC_COMMIT, CP_ASYNC_WAIT
from tilelang.targets.nvidia.passes.hoist_async_copies import hoist_async_copies
from tilelang.targets.nvidia.passes.insert_async_waits import insert_async_waits


def _with_waits(body: Stmt, owned: Set[Stmt], launch: Launch, context: PassContext) -> Stmt:
    body = hoist_async_copies(body, owned, context.target.machine.shared_bytes, launch.num_threads)
    return insert_async_waits(body, owned)


PASS = expand_pipeline(CopyGroups(CP_ASYNC_COMMIT, CP_ASYNC_WAIT), _with_waits)
