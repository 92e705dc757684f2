"""Lets the copy engine round elements of tfloat32 on their way to tiles that only gemms read.

Takes a tile-level function with all of its copies; gives one with `Copy.rounds`. wgmma ignores the bits of fraction
beyond the ten of tf32 in what it reads from shared memory, so that products of elements as they are would be too small:
by 0.07 % on average. Invariant: what else is read keeps all of its bits.

Source: PTX ISA, "wgmma.mma_async", on .tf32.
"""

from __future__ import annotations

import dataclasses

from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.func import Level, PrimFunc
from tilelang.ir.stmt import Alloc, Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter, accessed_buffers, walk
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import Pass, PassContext, with_launches
from tilelang.passes.properties import Property


def round_loads(launch: Launch) -> Launch:
    """The launch in which loads to tiles that only gemms read may round."""
    loads = {stmt for stmt in walk(launch.body) if isinstance(stmt, Copy) and _loads_tf32(stmt)}
    if not loads:
        return launch
    read: set[Buffer] = set()
    for stmt in walk(launch.body):
        if isinstance(stmt, Gemm):
            read.add(stmt.c.buffer.storage)
        elif not isinstance(stmt, Alloc) and stmt not in loads:
            read.update(buffer.storage for buffer in accessed_buffers(stmt))
    rounding = _Round({load for load in loads if load.dst.buffer.storage not in read})
    return dataclasses.replace(launch, body=rounding.visit(launch.body) or Seq((), loc=launch.loc))


def _loads_tf32(copy: Copy) -> bool:
    src, dst = copy.src.buffer, copy.dst.buffer
    return src.dtype.is_tf32 and dst.dtype.is_tf32 and (src.scope, dst.scope) == (Scope.GLOBAL, Scope.SHARED)


class _Round(Rewriter):
    def __init__(self, loads: set[Copy]) -> None:
        self._loads = loads

    def stmt(self, node: Stmt) -> Stmt | None:
        return dataclasses.replace(node, rounds=True) if node in self._loads else self.rebuild_stmt(node)


def _run(func: PrimFunc, _: PassContext) -> PrimFunc:
    return with_launches(func, round_loads)


PASS = Pass("round_loads", _run, Level.TILE, Level.TILE, requires=(Property.WARPS_SPECIALIZED,))
