"""Races between the blocks of one launch: who touched which element of global memory, and how.

Takes the accesses of a launch as they happen, raises `DataRace` when two blocks touch one element and at least one of
them writes without an atomic. Invariant: blocks run in no order, so the verdict does not depend on the order in which
they happen to run here. Only memory that some statement of the launch may write is watched.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tilelang.errors import NOWHERE, DataRace, Loc, Note
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Load
from tilelang.ir.stmt import Atomic, CallStmt, Launch, TileOp
from tilelang.ir.visit import expressions, walk, walk_expr, written_buffers
from tilelang.isa.nvidia.tma import stored_by_maps

Where = tuple[int, ...] | tuple[slice, ...] | tuple[np.ndarray]  # one element, a box, or places in a row

# An access is kept as one number: the block, counted from 1, above the place in the program. 0: there was none.
_PLACE_BITS = 32


def element_text(buffer: Buffer, where: tuple[int, ...]) -> str:
    """An element as a user would write it."""
    return f"{buffer.name}[{', '.join(map(str, where))}]" if where else buffer.name


class Watch:
    """What the blocks of one launch did to global memory.

    Args:
        launch: The launch.
        together: Blocks per cluster. They begin one behind the other, and are not strangers to each other: what orders
            their threads is known (`sim.history`).

    Attributes:
        loc: The place of the statement being executed.
        block: The number of the running block, counted from 1 in the order of beginning.
    """

    def __init__(self, launch: Launch, together: int = 1) -> None:
        self.loc = NOWHERE
        self._together = together
        self._units = _watched(launch)
        self._records: dict[Buffer, np.ndarray] = {}
        self._blocks: list[tuple[int, ...]] = []
        self._places: dict[Loc, int] = {}
        self._locs: list[Loc] = []
        self._flat: list[np.ndarray] = []
        self.block = 0

    def enter(self, block: tuple[int, ...]) -> int:
        """A block begins; gives its number."""
        self._blocks.append(block)
        self.block = len(self._blocks)
        return self.block

    def own(self, stamps: np.ndarray) -> np.ndarray:
        """Which stamps were left by the running block, or one that runs together with it."""
        blocks, block = stamps >> _PLACE_BITS, self.block
        if self._together > 1:
            blocks, block = (blocks - 1) // self._together, (block - 1) // self._together
        own: np.ndarray = blocks == block
        return own

    def meet(self) -> None:
        """All blocks meet: what they did is ordered before what they will do."""
        for slots in (*self._records.values(), *self._flat):
            slots[...] = 0

    def stamp(self) -> int:
        """The running block and statement as one number."""
        place = self._places.get(self.loc)
        if place is None:
            place = self._places[self.loc] = len(self._locs)
            self._locs.append(self.loc)
        return self.block << _PLACE_BITS | place

    def describe(self, stamp: int) -> tuple[tuple[int, ...], Loc]:
        """The block and the place that a number stands for."""
        return self._blocks[(stamp >> _PLACE_BITS) - 1], self._locs[stamp & (1 << _PLACE_BITS) - 1]

    def unit(self, storage: Buffer) -> int | None:
        """Bytes of the smallest element by which the memory is accessed, or None if nobody can write it."""
        return self._units.get(storage)

    def ledger(self, buffer: Buffer, shape: tuple[int, ...], storage_bytes: int) -> Ledger | None:
        """The record of a buffer's elements, or None if nobody can write its memory.

        Args:
            buffer: A global buffer, possibly a view.
            shape: The shape of the array that holds it.
            storage_bytes: Size of the memory that it names.
        """
        unit = self._units.get(buffer.storage)
        if unit is None:
            return None
        if buffer.storage not in self._records:
            self._records[buffer.storage] = np.zeros((_SLOTS, storage_bytes // unit), np.int64)
        per_element = buffer.dtype.numpy.itemsize // unit
        units = (per_element,) if per_element > 1 else ()
        return Ledger(self, buffer, self._records[buffer.storage].reshape(_SLOTS, *shape, *units))

    def flat_ledger(self, storage: Buffer, storage_bytes: int, text: Callable[[tuple[int, ...]], str]) -> Ledger:
        """The record of a memory as one row of units.

        Args:
            storage: A global buffer that owns its bytes and that somebody may write.
            storage_bytes: Size of its memory.
            text: A unit as a user would write it.
        """
        self._flat.append(np.zeros((_SLOTS, storage_bytes // self._units[storage]), np.int64))
        return Ledger(self, storage, self._flat[-1], text)


_SLOTS = 7


class Ledger:
    """The record of one buffer: per element the last writer, two readers, two each that update and read by atomics.

    Two of a kind are enough to know whether a block other than the one that asks was there: the second is never of
    the same block as the first.
    """

    def __init__(
        self, watch: Watch, buffer: Buffer, slots: np.ndarray, text: Callable[[tuple[int, ...]], str] | None = None
    ) -> None:
        self._watch = watch
        self._buffer = buffer
        self._text = text or functools.partial(element_text, buffer)
        self._writer, self._reader, self._other_reader = slots[:3]
        self._atomic, self._other_atomic, self._observer, self._other_observer = slots[3:]

    def at(self, loc: Loc) -> Ledger:
        """The same record, for an access of this statement."""
        self._watch.loc = loc
        return self

    def read(self, where: Where) -> None:
        """The running block reads elements.

        Raises:
            DataRace: Another block wrote one of them.
        """
        for slots in (self._writer, self._atomic, self._other_atomic):
            self._refuse(slots, where, "written", "read")
        self._enter(self._reader, self._other_reader, where)

    def write(self, where: Where) -> None:
        """The running block writes elements.

        Raises:
            DataRace: Another block touched one of them.
        """
        self._refuse(self._writer, where, "written", "written")
        for slots in (self._atomic, self._other_atomic):
            self._refuse(slots, where, "updated by an atomic", "written")
        for slots in (self._observer, self._other_observer):
            self._refuse(slots, where, "read by an atomic", "written")
        for slots in (self._reader, self._other_reader):
            self._refuse(slots, where, "read", "written")
        self._writer[where] = self._watch.stamp()

    def atomic(self, where: Where, *, stores: bool = True) -> None:
        """The running block updates elements indivisibly, or only reads them so.

        Raises:
            DataRace: Another block touched one of them without an atomic, unless both only read.
        """
        if not stores:
            self._refuse(self._writer, where, "written", "read by an atomic")
            self._enter(self._observer, self._other_observer, where)
            return
        self._refuse(self._writer, where, "written", "updated by an atomic")
        for slots in (self._reader, self._other_reader):
            self._refuse(slots, where, "read", "updated by an atomic")
        self._enter(self._atomic, self._other_atomic, where)

    def _enter(self, first: np.ndarray, second: np.ndarray, where: Where) -> None:
        stamp = self._watch.stamp()
        earlier = first[where]
        own = (earlier == 0) | self._watch.own(earlier)
        first[where] = np.where(own, stamp, earlier)
        second[where] = np.where(own, second[where], stamp)

    def _refuse(self, slots: np.ndarray, where: Where, before: str, now: str) -> None:
        earlier = slots[where]
        foreign = (earlier != 0) & ~self._watch.own(earlier)
        if not (foreign if foreign.ndim == 0 else foreign.any()):  # the first form is much the faster of the two
            return
        at = np.argwhere(np.atleast_1d(foreign))[0]
        stamp = int(np.atleast_1d(earlier)[tuple(at)])
        raise self._race(_element(where, at), stamp, before, now)

    def _race(self, element: tuple[int, ...], stamp: int, before: str, now: str) -> DataRace:
        name = self._buffer.name
        (here, _), (there, loc) = self._watch.describe(self._watch.stamp()), self._watch.describe(stamp)
        if "read" in (before, now):
            hint = f"let a second T.Kernel read '{name}', which starts when all blocks of the first are done"
        elif before == now:
            hint = (
                f"let every block write its own part of '{name}' and combine the parts in a second T.Kernel, or use "
                "T.atomic_add"
            )
        else:
            hint = f"use atomics for all accesses to '{name}', or write it in a T.Kernel of its own"
        return DataRace(
            f"{self._text(element)} is {before} by block {_block_text(there)} and {now} by block "
            f"{_block_text(here)} of one launch, and blocks run in no order",
            notes=(Note(f"{before} here by block {_block_text(there)}", loc),),
            hint=hint,
        )


def _block_text(block: tuple[int, ...]) -> str:
    return str(block[0]) if len(block) == 1 else str(block)


def _element(where: Where, at: np.ndarray) -> tuple[int, ...]:
    """The indices of the element at a position within what was accessed."""
    offsets = [*at, *[0] * len(where)]  # of a single element only the position among its units is given
    element: list[int] = []
    parts: list[Any] = list(where)
    for part, offset in zip(parts, offsets, strict=False):
        if isinstance(part, slice):
            element.append(int(part.start) + int(offset))
        else:
            element.append(int(part[tuple(at)] if isinstance(part, np.ndarray) else part))
    return tuple(element)


def _watched(launch: Launch) -> dict[Buffer, int]:
    """Per global memory that the launch may write, the size in bytes of the smallest element it is accessed by."""
    named = {each.tensor for each in launch.plan.tensor_maps}
    written = {buffer.storage for buffer in stored_by_maps(launch)}
    for stmt in walk(launch.body):
        targets = {buffer for buffer in written_buffers(stmt) if not buffer.scope.on_chip}
        written |= {buffer.storage for buffer in targets}
        named |= targets
        if isinstance(stmt, Atomic):
            named.add(stmt.buffer)
        for root in expressions(stmt):
            named |= {node.buffer for node in walk_expr(root) if isinstance(node, Load)}
        if isinstance(stmt, TileOp):
            named |= {region.buffer for region in stmt.reads()}
        if isinstance(stmt, CallStmt):
            named |= {operand.buffer for operand in (*stmt.args, *stmt.reads) if isinstance(operand, Region)}
    return {
        storage: min(b.dtype.numpy.itemsize for b in named | {storage} if b.storage is storage) for storage in written
    }
