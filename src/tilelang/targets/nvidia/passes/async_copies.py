"""Recognizes the tile-level statements that copy into shared memory asynchronously, by cp.async.

Takes statements with their lowerings. Invariant: such a copy is a `Copy` that is lowered to `cp.async`, or a parallel
loop whose last statement is a store marked asynchronous; elements that are out of bounds become zero.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Set as AbstractSet

from tilelang.analysis.asynchronous_stores import asynchronous_store
from tilelang.ir.buffer import Buffer
from tilelang.ir.stmt import Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter
from tilelang.lowering import by_loop
from tilelang.lowering.lowering import ACCEPTED
from tilelang.ops.copy import Copy
from tilelang.schedule.async_copies import with_safe_values
from tilelang.targets.nvidia.lowerings.copy_async import NAME


def is_asynchronous(stmt: Stmt) -> bool:
    """Whether a statement is an asynchronous copy, which completes at a wait."""
    return isinstance(stmt, Copy) and stmt.choice == NAME or asynchronous_store(stmt) is not None


def only_zero_fill(launch: Launch) -> Launch:
    """The launch without asynchronous copies whose safe value is not 0: hardware fills with zeros only."""
    safe = with_safe_values(launch)
    if not safe:
        return launch
    return dataclasses.replace(launch, body=_OnlyZeroFill(safe).visit(launch.body) or Seq((), loc=launch.loc))


class _OnlyZeroFill(Rewriter):
    def __init__(self, safe: AbstractSet[Buffer]) -> None:
        self._safe = safe

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Copy) and is_asynchronous(node) and node.src.buffer.storage in self._safe:
            return dataclasses.replace(node, choice=by_loop.COPY.name, plan=ACCEPTED)
        return self.rebuild_stmt(node)
