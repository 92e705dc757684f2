"""Where the on-chip buffers of a block program live: on the stack while they are small, else in a per-thread arena.

Invariant: two buffers that are alive at the same time never share bytes; scopes that follow one another reuse them.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.stmt import Alloc, Seq, Stmt
from tilelang.ir.visit import sub_statements, walk
from tilelang.records import record

STACK_BYTES = 16 * 1024  # per block program; threads other than the first may have small stacks
_ALIGN = 64  # a cache line and the widest vector register


@record
class StoragePlan:
    """The outcome for one block program.

    Attributes:
        offsets: Byte offset in the arena of each buffer that lives there.
        arena_bytes: What the arena must hold.
    """

    offsets: Mapping[Buffer, int]
    arena_bytes: int


def plan_storage(body: Stmt) -> StoragePlan:
    """Places the buffers that a block program allocates; the largest leave the stack first."""
    sizes = {
        s.buffer: _size(s.buffer)
        for s in walk(body)
        if isinstance(s, Alloc) and _has_place(s.buffer)
    }
    in_arena: set[Buffer] = set()
    on_stack = sum(sizes.values())
    for buffer in sorted(sizes, key=lambda b: sizes[b], reverse=True):
        if on_stack <= STACK_BYTES:
            break
        in_arena.add(buffer)
        on_stack -= sizes[buffer]
    offsets: dict[Buffer, int] = {}
    return StoragePlan(offsets, _place(body, 0, in_arena, sizes, offsets))


def _has_place(buffer: Buffer) -> bool:
    """Whether a buffer takes memory of a size that is known now."""
    return buffer.view_of is None and buffer.scope is not Scope.VAR and buffer.static_shape is not None


def _size(buffer: Buffer) -> int:
    return -(-max(buffer.bytes or 0, 1) // _ALIGN) * _ALIGN


def _place(stmt: Stmt, top: int, chosen: set[Buffer], sizes: Mapping[Buffer, int], offsets: dict[Buffer, int]) -> int:
    """Gives offsets from `top` on to the buffers of a scope; returns the highest byte in use."""
    high = top
    for child in stmt.body if isinstance(stmt, Seq) else sub_statements(stmt):
        if isinstance(child, Alloc):
            if child.buffer in chosen:
                offsets[child.buffer] = top
                top += sizes[child.buffer]
                high = max(high, top)
        else:
            high = max(high, _place(child, top, chosen, sizes, offsets))
    if isinstance(stmt, Alloc) and stmt.buffer in chosen:  # a body that is one allocation
        offsets[stmt.buffer] = top
        high = max(high, top + sizes[stmt.buffer])
    return high
