"""Commits and waits for the asynchronous copies of expanded pipelines by the groups of cp.async.

Takes the expanded body of a launch; gives one in which all asynchronous copies are committed in groups and waited for.
"""

from __future__ import annotations

from collections.abc import Set

from tilelang.ir.expr import int_const
from tilelang.ir.stmt import Launch, Stmt
from tilelang.ops.copy import Copy
from tilelang.passes.base import PassContext
from tilelang.schedule.async_copies import CopyGroups
from tilelang.schedule.expand_pipeline import expand_pipeline
from tilelang.targets.nvidia.isa.cp_async import CP_ASYNC_COMMIT, CP_ASYNC_WAIT
from tilelang.targets.nvidia.lowerings.operand_load import OperandPlan
from tilelang.targets.nvidia.passes.hoist_async_copies import hoist_async_copies
from tilelang.targets.nvidia.passes.insert_async_waits import insert_async_waits


def _with_waits(body: Stmt, owned: Set[Stmt], launch: Launch, context: PassContext) -> Stmt:
    body = hoist_async_copies(body, owned, context.target.machine.shared_bytes, launch.num_threads)
    return insert_async_waits(body, owned)


def _loads_operands(stmt: Stmt) -> bool:
    """Whether a statement loads an operand from a tile to registers, which is harmless after the last iteration."""
    return isinstance(stmt, Copy) and isinstance(stmt.plan, OperandPlan) and None not in map(int_const, stmt.src.start)


PASS = expand_pipeline(CopyGroups(CP_ASYNC_COMMIT, CP_ASYNC_WAIT), _with_waits, _loads_operands)
