"""The layouts of shared tiles that are settled before any operator asks for one.

Takes a launch, gives what the user said with `T.annotate_layout`, and row-major order for tiles whose bytes have
several names. Invariant: whoever chooses a lowering and whoever infers layouts ask here, so that both see the same.
"""

from __future__ import annotations

from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.stmt import Alloc, Launch
from tilelang.ir.visit import walk
from tilelang.layout.layout import Layout
from tilelang.layout.memory import row_major


def fixed_layouts(launch: Launch) -> dict[Buffer, Layout]:
    """Shared buffers whose layout no operator may choose, with that layout."""
    found = {buffer: layout for buffer, layout in launch.hints.layouts if isinstance(layout, Layout)}
    for buffer in viewed_tiles(launch):
        if buffer.static_shape is not None:
            found[buffer] = row_major(buffer.static_shape)
    return found


def viewed_tiles(launch: Launch) -> frozenset[Buffer]:
    """The shared buffers whose bytes have several names, and these names."""
    allocated = [stmt.buffer for stmt in walk(launch.body) if isinstance(stmt, Alloc)]
    views = [buffer for buffer in allocated if buffer.view_of is not None and buffer.scope is Scope.SHARED]
    return frozenset(name for view in views for name in (view, view.storage))
