"""Storage of the on-chip buffers of a block program on a CPU: on the stack if small, else in a per-thread arena.

Invariant: two buffers that are live at the same time never overlap; consecutive scopes reuse memory.
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
    """The storage of one block program.

    Attributes:
        offsets: Byte offsets of buffers in the arena.
        arena_bytes: The size of the arena.
    """

    offsets: Mapping[Buffer, int]
    arena_bytes: int


def plan_storage(body: Stmt) -> StoragePlan:
    """Assigns storage to the buffers of a block program; the largest go to the arena first."""
    sizes = {
        s.buffer: _size(s.buffer)
        for s in walk(body)
        if isinstance(s, Alloc) and _has_storage(s.buffer)
    }
    in_arena: set[Buffer] = set()
    on_stack = sum(sizes.values())
    for buffer in sorted(sizes, key=lambda b: sizes[b], reverse=True):
        if on_stack <= STACK_BYTES:
            break
        in_arena.add(buffer)
        on_stack -= sizes[buffer]
    offsets: dict[Buffer, int] = {}
    return StoragePlan(offsets, _assign(body, 0, in_arena, sizes, offsets))


def _has_storage(buffer: Buffer) -> bool:
    """Whether a buffer occupies memory of constant size."""
    return buffer.view_of is None and buffer.scope is not Scope.VAR and buffer.static_shape is not None


def _size(buffer: Buffer) -> int:
    return -(-max(buffer.bytes or 0, 1) // _ALIGN) * _ALIGN


def _assign(stmt: Stmt, top: int, chosen: set[Buffer], sizes: Mapping[Buffer, int], offsets: dict[Buffer, int]) -> int:
    """Assigns offsets from `top` on to the buffers of a scope; returns the highest byte in use."""
    high = top
    for child in stmt.body if isinstance(stmt, Seq) else sub_statements(stmt):
        if isinstance(child, Alloc):
            if child.buffer in chosen:
                offsets[child.buffer] = top
                top += sizes[child.buffer]
                high = max(high, top)
        else:
            high = max(high, _assign(child, top, chosen, sizes, offsets))
    if isinstance(stmt, Alloc) and stmt.buffer in chosen:  # a body that is one allocation
        offsets[stmt.buffer] = top
        high = max(high, top + sizes[stmt.buffer])
    return high
