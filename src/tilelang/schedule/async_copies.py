"""Asynchronous copies into shared memory, as software pipelines deal with those of any target.

Takes tile-level statements with their lowerings. Invariant: such a copy fills its tile at any time up to a wait for its
group; elements that are out of bounds become zero.
"""

from __future__ import annotations

import dataclasses

from tilelang.analysis.asynchronous_stores import asynchronous_store
from tilelang.ir.buffer import Buffer
from tilelang.ir.stmt import Stmt
from tilelang.isa.instruction import Instruction
from tilelang.lowering import by_loop
from tilelang.lowering.chunks import ChunkPlan
from tilelang.lowering.lowering import ACCEPTED
from tilelang.ops.copy import Copy
from tilelang.records import record


@record
class CopyGroups:
    """The instructions of a target by which threads wait for asynchronous copies.

    Attributes:
        commit: Closes the group of the copies since the last commit; no operands.
        wait: Waits for all groups but the newest; the operand is their constant number.
    """

    commit: Instruction
    wait: Instruction


def is_asynchronous(stmt: Stmt) -> bool:
    """Whether a statement is an asynchronous copy: a `Copy` in chunks, or a loop whose last store is asynchronous."""
    return isinstance(stmt, Copy) and isinstance(stmt.plan, ChunkPlan) or asynchronous_store(stmt) is not None


def synchronous(copy: Copy) -> Copy:
    """The copy by threads, through registers."""
    return dataclasses.replace(copy, choice=by_loop.COPY.name, plan=ACCEPTED)


def target_of(stmt: Stmt) -> Buffer:
    """The tile that an asynchronous copy fills, by that name or by that of a view."""
    store = asynchronous_store(stmt)
    if store is not None:
        return store.buffer.storage
    assert isinstance(stmt, Copy)
    return stmt.dst.buffer.storage
