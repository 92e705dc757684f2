"""Which tile-level statements are copies into shared memory that only a wait completes.

Takes statements with their lowerings. Invariant: such a copy is a `Copy` done by `cp.async`, or a parallel loop whose
last statement is a store marked asynchronous; what it does not read because it lies out of bounds becomes zero.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Set as AbstractSet

from tilelang.analysis.asynchronous_stores import asynchronous_store
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Const
from tilelang.ir.stmt import Launch, Seq, Stmt
from tilelang.ir.visit import Rewriter
from tilelang.lowering.lowering import ACCEPTED
from tilelang.ops.copy import Copy
from tilelang.passes.tile.expand_to_loops import BY_LOOP
from tilelang.targets.nvidia.lowerings.copy_async import NAME


def is_asynchronous(stmt: Stmt) -> bool:
    """Whether a statement is a copy that only a wait completes."""
    return isinstance(stmt, Copy) and stmt.choice == NAME or asynchronous_store(stmt) is not None


def target_of(stmt: Stmt) -> Buffer:
    """What an asynchronous copy fills."""
    store = asynchronous_store(stmt)
    if store is not None:
        return store.buffer
    assert isinstance(stmt, Copy)
    return stmt.dst.buffer


def not_zero_outside(launch: Launch) -> frozenset[Buffer]:
    """The buffers that read as something else than 0 out of bounds."""
    values = launch.hints.safe_values
    return frozenset(b.storage for b, value in values if not isinstance(value, Const) or value.value)


def filling_in_zeros(launch: Launch) -> Launch:
    """The launch without asynchronous copies that should fill in something else than zero, which hardware cannot."""
    safe = not_zero_outside(launch)
    if not safe:
        return launch
    return dataclasses.replace(launch, body=_FillInZeros(safe).visit(launch.body) or Seq((), loc=launch.loc))


class _FillInZeros(Rewriter):
    def __init__(self, safe: AbstractSet[Buffer]) -> None:
        self._safe = safe

    def stmt(self, node: Stmt) -> Stmt | None:
        if isinstance(node, Copy) and is_asynchronous(node) and node.src.buffer.storage in self._safe:
            return dataclasses.replace(node, choice=BY_LOOP, plan=ACCEPTED)
        return self.rebuild_stmt(node)
