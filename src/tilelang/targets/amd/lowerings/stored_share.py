"""Layouts in LDS of operands with contiguous K that have bank conflicts neither for loads nor for stores.

Takes an operand of a gemm and the part of it that a wave needs; see `targets.gpu.lowerings.mma_operand`. Stores of rows
as they are in global memory have no bank conflicts in any layout that loads have none in; stores of transposed tiles
have none in those of `targets.amd.transposed_stores`.
"""

from __future__ import annotations

import itertools

from tilelang.layout.layout import Layout
from tilelang.lowering.operand_layout import choose_layout, conflict_cycles
from tilelang.records import record
from tilelang.targets.amd.transposed_stores import by_steps, layouts, store_accesses
from tilelang.targets.gpu.lowerings.mma_operand import Share
from tilelang.targets.machine import Machine


@record
class StoredShare(Share):
    """A wave's part of an operand that may be stored transposed."""

    def layout(self, machine: Machine) -> Layout | None:
        """A layout without bank conflicts for loads and stores; None for row-major, or if it is fixed."""
        shape = self.region.buffer.static_shape
        if shape is None or {self.row_axis, self.k_axis} != {self._last - 1, self._last}:
            return None
        height, length = shape[-2:]
        item_bytes = self.dtype.storage_bytes
        stores = [] if self.transposes else list(store_accesses((height, length), item_bytes, machine.warp_size))
        if not stores:
            return super().layout(machine)
        loads = self.accesses(height, length)
        first = by_steps((height, length), item_bytes) if self.by_columns else None
        candidates = itertools.chain([] if first is None else [first], layouts((height, length), item_bytes))
        found = choose_layout((height, length), self.dtype, [*loads, *stores], machine, candidates)
        if found is None or any(conflict_cycles(found, load, self.dtype, machine) for load in loads):
            return super().layout(machine)  # each tile is loaded more often than stored
        return found
