"""Chooses layouts of tiles in shared memory that minimize the bank conflicts of loops.

Takes loop nests with layouts and their accesses, gives a `Layout` for each tile that gains from one. Invariant: what is
chosen costs fewer cycles than row-major order by the count of `layout.shared_memory`, on a sample of warps and values;
an access that row-major order lets be a vector may become several, and is counted as such.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tilelang.analysis.accesses import Access
from tilelang.analysis.sampled_accesses import TileAccess, tile_access
from tilelang.analysis.tile_uses import TileUses
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.stmt import CallStmt, ParallelLoop, TileOp
from tilelang.layout.layout import Layout
from tilelang.layout.shared_memory import (
    MAX_VECTOR_BYTES,
    contiguous_elements,
    has_pitch,
    offsets,
    padded,
    wavefronts,
)
from tilelang.layout.thread_values import Fragment
from tilelang.layout.xor_swizzle import MODES, swizzled
from tilelang.targets.machine import CommonFeature, Machine

# Cycles of the index arithmetic of an access where a loop steps through a layout without a pitch: the inner loop of a
# triangular solve in float32 took 117 instructions of an H200 for 16 elements of swizzled rows, and 44 for those of
# padded ones, which become vector loads. A multiprocessor issues four instructions in a cycle.
_STEP_CYCLES = 1
_WORTH = 0.95  # a layout must save one cycle in twenty, since it costs index arithmetic or memory


def cost(layout: Layout, accesses: Sequence[TileAccess], itemsize: int) -> float:
    """The cycles that accesses take in a layout; computed once per access and layout."""
    missing = dict.fromkeys(access for access in accesses if id(layout) not in access.cache)
    places = offsets(layout) if missing else np.empty(0)
    for access in missing:
        width = min(access.vector, contiguous_elements(layout), max(1, MAX_VECTOR_BYTES // itemsize))
        first = access.coordinates[:, ::width]
        inside = np.asarray(((first >= 0) & (first < np.array(layout.shape))).all(axis=-1))
        at = np.where(inside, places[tuple(np.moveaxis(np.where(inside[..., None], first, 0), -1, 0))] * itemsize, -1)
        size = min(MAX_VECTOR_BYTES, width * itemsize)
        cycles = access.weight * int(wavefronts(at, size, access.machine, access.kind).sum())
        if access.steps and len(layout.shape) == 2 and not has_pitch(layout):
            cycles += access.weight * _STEP_CYCLES * int(inside.any(axis=-1).sum())
        access.cache[id(layout)] = layout, cycles  # holds the layout, so that its id is not reused
    return sum((access.cache[id(layout)][1] for access in accesses), 0.0)


@functools.lru_cache(maxsize=1024)
def candidates(
    shape: tuple[int, int], itemsize: int, keep_bytes: int, bank_bytes: int, *, dense: bool = False
) -> tuple[Layout, ...]:
    """Layouts of a tile other than row-major, cheapest index arithmetic first; runs of `keep_bytes` stay contiguous.

    Those of a `dense` tile have no padding.
    """
    return tuple(_candidates(shape, itemsize, keep_bytes, bank_bytes, dense=dense))


@functools.lru_cache(maxsize=1024)
def _row_major(shape: tuple[int, ...]) -> Layout:
    return Layout(shape, lambda *at: at)


def _candidates(
    shape: tuple[int, int], itemsize: int, keep_bytes: int, bank_bytes: int, *, dense: bool
) -> Iterator[Layout]:
    row_bytes = shape[1] * itemsize
    modes = [mode for mode in MODES if row_bytes % mode == 0 and itemsize <= MAX_VECTOR_BYTES]
    yield from (swizzled(shape, 8 * itemsize, mode) for mode in modes)
    for mode in modes[:1]:
        yield from (swizzled(shape, 8 * itemsize, mode, rows) for rows in (2, 4, 8, 16) if rows < shape[0])
    for unit in () if dense else (MAX_VECTOR_BYTES, 8, bank_bytes):
        if unit >= keep_bytes and unit % itemsize == 0 and row_bytes % unit == 0:
            odd = (row_bytes // unit | 1) * unit
            yield padded(shape, (odd if odd > row_bytes else odd + 2 * unit) // itemsize - shape[1])


def choose(
    buffer: Buffer, accesses: Sequence[TileAccess], keep_bytes: int, spare_bytes: int | None = None
) -> tuple[Layout | None, float]:
    """The layout of a tile's last two dimensions that costs least, None for row-major order, and the cycles it costs.

    Args:
        buffer: The tile.
        accesses: Its sampled accesses.
        keep_bytes: Runs that other accesses need contiguous and aligned.
        spare_bytes: The shared memory that padding may take; None for any amount.
    """
    shape = buffer.static_shape or ()
    if not shape or not accesses or min(shape) < 1:
        return None, 0.0
    tile = shape[-2:]
    itemsize = buffer.dtype.storage_bytes
    least = cost(_row_major(tile), accesses, itemsize)
    floor = ideal(accesses, itemsize)
    best: Layout | None = None
    if len(tile) == 2 and least > floor / _WORTH:
        least *= _WORTH
        machine = accesses[0].machine
        dense = machine.has(CommonFeature.FILLED_BY_WARPS)
        for candidate in candidates((tile[0], tile[1]), itemsize, keep_bytes, machine.bank_bytes, dense=dense):
            if spare_bytes is not None and _padding(candidate, buffer) > spare_bytes:
                continue
            total = cost(candidate, accesses, itemsize)
            if total < least:
                best, least = candidate, total
            if total <= floor:
                break
    return best, least


def _padding(layout: Layout, buffer: Buffer) -> int:
    """The bytes that a layout of a buffer's last two dimensions adds to it."""
    shape = buffer.static_shape or ()
    elements = int(offsets(layout).max()) + 1
    return math.prod(shape[:-2]) * (elements - math.prod(shape[-2:])) * buffer.dtype.storage_bytes


def ideal(accesses: Sequence[TileAccess], itemsize: int) -> float:
    """The cycles that accesses take without bank conflicts, if all that can be are vectors."""
    total = 0.0
    for access in accesses:
        width = min(access.vector, max(1, MAX_VECTOR_BYTES // itemsize))
        phases = len(access.machine.phases(access.kind, min(MAX_VECTOR_BYTES, width * itemsize)).lanes)
        active = (access.coordinates[:, ::width] >= 0).all(axis=-1).any(axis=-1)
        total += access.weight * int(active.sum()) * phases
    return total


class SharedLayoutChooser:
    """Chooses layouts of shared tiles, and among equally good layouts of nests the one with fewer bank conflicts.

    Args:
        uses: The accesses of a launch.
        layouts: The layouts of its nests; updated for nests with variants.
        given: Layouts of tiles that are fixed already.
        machine: The machine that executes them.
    """

    def __init__(
        self,
        uses: TileUses,
        layouts: dict[ParallelLoop, Fragment],
        given: Mapping[Buffer, Layout],
        machine: Machine,
    ) -> None:
        self.layouts, self._machine = layouts, machine
        self._uses, self._given = uses, given
        self._samples: dict[tuple[int, Fragment], TileAccess | None] = {}
        self._equal: dict[tuple[object, ...], TileAccess] = {}
        self._accesses: dict[Buffer, list[Access]] = {}
        for access in uses.found.all:
            if access.buffer.scope is Scope.SHARED and access.buffer.rank:
                self._accesses.setdefault(access.buffer, []).append(access)
        tiles = {buffer.storage for buffer in self._accesses}
        self._spare = machine.shared_bytes - sum(tile.bytes or 0 for tile in tiles)

    def choose_nest_layouts(self, variants: Mapping[ParallelLoop, Sequence[Fragment]]) -> None:
        """Chooses for each nest the variant with the lowest cost of the tiles it accesses."""
        for nest, others in variants.items():
            accessed = [b for b, found in self._accesses.items() if any(nest in a.context.loops() for a in found)]
            least, free = self._cost(accessed)
            for other in others if least > free / _WORTH else ():
                before = self.layouts[nest]
                self.layouts[nest] = other
                total, _ = self._cost(accessed)
                if total < least * _WORTH:
                    least = total
                else:
                    self.layouts[nest] = before

    def layout(self, buffer: Buffer) -> Layout | None:
        """The cheapest layout of a tile; None for row-major order."""
        accesses = self._accesses.get(buffer, [])
        if any(isinstance(access.stmt, CallStmt) for access in accesses):
            return None  # the user's instructions compute its addresses
        layout = self._choose(buffer)[0]
        if layout is not None:
            self._spare -= _padding(layout, buffer)
        return layout

    def _choose(self, buffer: Buffer) -> tuple[Layout | None, float]:
        # tiles that do not fit together take turns; how much of them is used at once is not known yet
        spare = self._spare if self._spare >= 0 else self._machine.shared_bytes - (buffer.bytes or 0)
        return choose(buffer, self._sampled(buffer), self._keep(buffer), spare)

    def _cost(self, buffers: Sequence[Buffer]) -> tuple[float, float]:
        """The cycles of accesses to tiles, and those without bank conflicts."""
        total = free = 0.0
        for buffer in buffers:
            accesses, itemsize = self._sampled(buffer), buffer.dtype.storage_bytes
            given = self._given.get(buffer)
            if given is None:
                total += self._choose(buffer)[1]
            elif len(given.shape) == min(2, buffer.rank):
                total += cost(given, accesses, itemsize)
            free += ideal(accesses, itemsize)
        return total, free

    def _keep(self, buffer: Buffer) -> int:
        """Bytes that operators need contiguous."""
        return MAX_VECTOR_BYTES if any(isinstance(a.stmt, TileOp) for a in self._accesses.get(buffer, ())) else 1

    def _sampled(self, buffer: Buffer) -> list[TileAccess]:
        found = []
        for access in self._accesses.get(buffer, ()):
            nest = next((loop for loop in access.context.loops() if isinstance(loop, ParallelLoop)), None)
            layout = None if nest is None else self.layouts.get(nest)
            if nest is None or layout is None or access.extent is not None:
                continue
            key = (access.position, layout)
            if key not in self._samples:
                domain = access.context.domain(self._uses.domain)
                sample = tile_access(access, nest, layout, min(2, buffer.rank), domain, self._machine)
                if sample is not None:  # equal accesses to elements of one size cost the same: one is counted
                    sample = self._equal.setdefault((buffer.dtype.storage_bytes, *sample.content), sample)
                self._samples[key] = sample
            sample = self._samples[key]
            if sample is not None:
                found.append(sample)
        return found
