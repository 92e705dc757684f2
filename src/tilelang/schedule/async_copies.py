"""Asynchronous copies into shared memory, as software pipelines deal with those of any target.

Takes tile-level statements. Invariant: such a copy fills its tile at any time up to a wait for its group.
"""

from __future__ import annotations

from collections.abc import Callable

from tilelang.analysis.asynchronous_stores import asynchronous_store
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Const
from tilelang.ir.stmt import Launch, Stmt
from tilelang.isa.instruction import Instruction
from tilelang.ops.copy import Copy
from tilelang.records import record


@record
class AsyncCopies:
    """The asynchronous copies of a target.

    Attributes:
        is_asynchronous: Whether a statement is one.
        commit: Closes the group of the copies since the last commit; no operands.
        wait: Waits for all groups but the newest; the operand is their constant number.
    """

    is_asynchronous: Callable[[Stmt], bool]
    commit: Instruction
    wait: Instruction


def target_of(stmt: Stmt) -> Buffer:
    """The destination of an asynchronous copy."""
    store = asynchronous_store(stmt)
    if store is not None:
        return store.buffer
    assert isinstance(stmt, Copy)
    return stmt.dst.buffer


def with_safe_values(launch: Launch) -> frozenset[Buffer]:
    """The buffers whose safe value is not 0."""
    values = launch.hints.safe_values
    return frozenset(b.storage for b, value in values if not isinstance(value, Const) or value.value)
