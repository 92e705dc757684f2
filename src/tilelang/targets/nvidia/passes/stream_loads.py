"""Loads what a launch reads once past the L1 cache, 16 bytes at a time.

    x[0:8] = A[i, j:j+8]        =>  value = load_float16x8_no_allocate(A[i, j:j+8])
                                    x[0:8] = value

Takes a thread-level function whose launches name what they stream (`choose_cache_policy`). Such lines also leave the L2
cache first, so that the launch does not wait until dirty lines are written back. Invariant: the same values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Set

from tilelang.dtypes import BOOL
from tilelang.errors import Note
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Const, Load, Var, const
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import CallStmt, Launch, Seq, Stmt, Store
from tilelang.ir.visit import Rewriter
from tilelang.layout.shared_memory import MAX_VECTOR_BYTES
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.targets.nvidia.isa.memory import CacheHint, load

_ALWAYS = Const(True, BOOL)


class _StreamLoads(Rewriter):
    """The statements of a launch, with these tensors loaded so.

    Attributes:
        found: A load of each tensor that is.
    """

    def __init__(self, streamed: Set[Buffer]) -> None:
        self._streamed = streamed
        self.found: dict[Buffer, Stmt] = {}

    def stmt(self, node: Stmt) -> Stmt | None:
        if not isinstance(node, Store) or not isinstance(node.value, Load) or not self._is_streamed(node.value):
            return self.rebuild_stmt(node)
        source = node.value
        self.found.setdefault(source.buffer.storage, node)
        ones = (const(1, source.indices[0].dtype),) * (len(source.indices) - 1)
        region = Region(source.buffer, source.indices, (*ones, const(source.dtype.lanes, source.indices[0].dtype)))
        value = Var(f"{source.buffer.name}_value", source.dtype)
        routine = load(source.dtype, CacheHint.NO_ALLOCATE)
        call = CallStmt(routine, (region, _ALWAYS), reads=(region,), result=value, loc=node.loc)
        return Seq((call, dataclasses.replace(node, value=value)), loc=node.loc)

    def _is_streamed(self, source: Load) -> bool:
        if source.buffer.scope is not Scope.GLOBAL or source.buffer.storage not in self._streamed:
            return False
        return source.dtype.lanes > 1 and source.dtype.storage_bytes == MAX_VECTOR_BYTES


def _streaming(launch: Launch) -> Launch:
    if not launch.plan.streamed:
        return launch
    rewriter = _StreamLoads(frozenset(launch.plan.streamed))
    body = rewriter.visit(launch.body)
    assert body is not None
    notes = [Note(f"L1 cache: '{each.name}' is read once (no_allocate)", at.loc) for each, at in rewriter.found.items()]
    plan = dataclasses.replace(launch.plan, notes=(*launch.plan.notes, *notes))
    return dataclasses.replace(launch, body=body, plan=plan)


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_launches(func, _streaming)


PASS = Pass("stream_loads", _run, Level.THREAD, Level.THREAD)
