"""The warps of a running block: what the meanings of instructions work on.

Takes the memory of the launch, gives warps that implement `isa.simulated.Warp`. Invariant: whatever a warp does to
memory passes through the checks of `device_memory` and `local_memory`; what one warp does is seen by others only
through memory, barriers and the state that instructions share.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tilelang.errors import NOWHERE, BarrierDivergence, CompilerBug, Loc
from tilelang.ir.buffer import Buffer, Scope
from tilelang.isa.instruction import AsyncUnit
from tilelang.isa.simulated import Moment, Pieces, Pointer, Transfer, Wait
from tilelang.sim import violations
from tilelang.sim.async_reads import AsyncRead
from tilelang.sim.async_transfers import BlockTransfer
from tilelang.sim.async_work import AsyncWork
from tilelang.sim.block import Block
from tilelang.sim.device_memory import Window
from tilelang.sim.history import thread_of
from tilelang.sim.lane_expressions import Value, per_lane
from tilelang.sim.local_memory import Registers
from tilelang.sim.pointers import ElementPointer, RegisterPointer
from tilelang.sim.storage import Footprint, Index, all_set
from tilelang.sim.unretired import Unretired

_WORD = (1 << 64) - 1
_MANY = 256  # as many values as any instruction takes from a lane at once


@functools.cache
def _all_known(lanes: int) -> np.ndarray:
    """That all of many values are defined. Shape (lanes, many), read-only."""
    defined = np.ones((lanes, _MANY), bool)
    defined.flags.writeable = False
    return defined


class SimWarp:
    """One warp; see `isa.simulated.Warp` for what it offers to instructions, and `lane_expressions.Frame` to closures.

    Attributes:
        env: The value of every variable, by its slot.
        cells: The memory of every buffer, by its slot.
        moves: Whether a buffer may lie elsewhere later on.
        size: How many lanes it has.
        lane: Their numbers.
        none: A mask of no lane.
        mask: Which lanes are active.
        lanes: Their numbers, or None if all are.
        present: The lanes that have a thread.
        threads: The number in the block of every lane's thread.
        thread_ids: Its number among all threads that run together.
        loc: The statement that is executed.
        machine: What it runs on.
        broken: Lanes that have executed `break` in the innermost loop.
    """

    def __init__(self, block: Block, index: int, env: list[Value]) -> None:
        self.block, self._index = block, index
        self.env = env
        self.cells: list[Window | Registers | None] = [None] * len(block.buffers)
        self.moves = False
        self.lane = block.lane
        self.size = len(self.lane)
        self.none = np.zeros(self.size, bool)
        self.threads = self.lane + index * self.size
        self.present = self.threads < block.threads
        self.thread_ids = self.threads + block.clocks.of_block(block.rank).start
        self.loc: Loc = NOWHERE
        self.machine, self.counters = block.machine, block.counters
        self.footprint: Footprint | None = None
        self.fences, self.completing = 0, False
        self.broken = self.none
        self.async_work = AsyncWork(self, block.lazy)
        self.unretired = Unretired() if block.has_bare_barriers else None
        self.mask = self.present
        self.lanes: np.ndarray | None = None
        self.set_mask(self.present)

    def set_mask(self, mask: np.ndarray) -> None:
        """Makes these lanes the active ones."""
        self.mask = mask
        self.lanes = None if all_set(mask) else mask.nonzero()[0]

    def cell(self, slot: int) -> Window | Registers:
        """The memory of a buffer."""
        found = self.cells[slot]
        if found is None:
            buffer = self.block.buffers[slot]
            if buffer.scope in (Scope.LOCAL, Scope.VAR, Scope.FRAGMENT):
                raise CompilerBug(f"'{buffer.name}' is used before it is allocated")
            found = self.cells[slot] = self.block.window(slot)
        return found

    def allocate(self, slot: int, storage: int) -> None:
        """The active lanes allocate registers, undefined, or name those of an older buffer."""
        buffer = self.block.buffers[slot]
        found = self.cells[slot]
        if buffer.view_of is not None:
            if found is None:
                owner = self.cell(storage)
                assert isinstance(owner, Registers)
                self.cells[slot] = Registers(buffer, self.size, owner)
            return
        if found is None:
            found = self.cells[slot] = Registers(buffer, self.size)
        assert isinstance(found, Registers)
        found.forget(self)

    @property
    def tracks_changes(self) -> bool:
        """Whether a warp may be waiting for others to change memory."""
        return self.block.cluster.tracks_changes

    def changed(self) -> None:
        """Something was written."""
        self.block.cluster.version += 1

    def condition(self) -> tuple[int, ...]:
        """All that decides what the warp does next, if the state of a loop is the same: its registers, and memory."""
        self.block.cluster.tracks_changes = True
        return self.block.cluster.version, *(hash(c.data.tobytes()) for c in self.cells if isinstance(c, Registers))

    # -- isa.simulated.Warp -----------------------------------------------------------------------------------
    @property
    def active(self) -> np.ndarray:
        """Which lanes execute the instruction."""
        return self.mask

    @property
    def index(self) -> int:
        """The warp's number in its block."""
        return self._index

    def read(self, pointer: Pointer, count: int = 1, *, where: np.ndarray | None = None) -> np.ndarray:
        """`count` neighboring elements per lane. Shape (size, count)."""
        return self._read(pointer, count, where, moving=False)[0]

    def read_raw(
        self, pointer: Pointer, count: int = 1, *, where: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Like `read`, but values may be undefined; the second array is True where they are defined."""
        values, defined = self._read(pointer, count, where, moving=True)
        return values, _all_known(self.size)[:, : values.shape[1]] if defined is None else defined

    def _read(
        self, pointer: Pointer, count: int, where: np.ndarray | None, *, moving: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        cell = self._cell_of(pointer.buffer)
        count *= cell.per_element

        def read() -> tuple[np.ndarray, np.ndarray | None]:
            values, defined = cell.read(self, self._address(cell, pointer, count), count, moving=moving)
            if count > 1:
                return values, defined
            column = np.broadcast_to(values, (self.size,))[:, None]  # one value may be that of all lanes
            return column, None if defined is None else np.broadcast_to(defined, (self.size,))[:, None]

        if where is None:
            return read()
        found: tuple[np.ndarray, np.ndarray | None] = self._within(
            where, read, lambda: (np.zeros((self.size, count), cell.data.dtype), None)
        )
        return found

    def write(
        self,
        pointer: Pointer,
        values: np.ndarray,
        *,
        where: np.ndarray | None = None,
        defined: np.ndarray | None = None,
    ) -> None:
        """Stores `values`, of shape (size, count), as one vector access; `defined` is None if all are."""
        cell = self._cell_of(pointer.buffer)
        array, count = values.astype(cell.data.dtype, copy=False), values.shape[1]
        defined_mask = None if defined is None or all_set(defined) else defined
        if count == 1:
            array, defined_mask = array[:, 0], None if defined_mask is None else defined_mask[:, 0]

        def write() -> None:
            cell.write(self, self._address(cell, pointer, count), array, count, defined=defined_mask)

        if where is None:
            write()
        else:
            self._within(where, write, lambda: None)

    def update(
        self, pointer: Pointer, change: Callable[[Any, int], Any], *, where: np.ndarray | None = None
    ) -> np.ndarray:
        """Replaces one element per lane, atomically and lane after lane; gives the old values. Shape (size,)."""
        cell = self._cell_of(pointer.buffer)

        def each(old: np.ndarray, lanes: np.ndarray) -> np.ndarray:
            new: np.ndarray = old.copy()
            for lane in lanes.tolist():
                new[lane] = change(old[lane], lane)
            return new

        def update() -> np.ndarray:
            found: np.ndarray = cell.update(self, per_lane(self._address(cell, pointer, 1), self.size), each)
            return found

        old: np.ndarray = self._within(where, update, lambda: np.zeros(self.size, cell.data.dtype))
        return old

    def defer(
        self, unit: AsyncUnit, work: Callable[[], None], touch: Callable[[], None] | None = None
    ) -> None:
        """Queues work that completes when a wait guarantees it, or at once in eager mode."""
        self.async_work.defer(unit, work, touch)

    def commit(self, unit: AsyncUnit) -> None:
        """Closes the group of work queued since the last commit."""
        self.async_work.commit(unit)

    def wait(self, unit: AsyncUnit, pending: int) -> None:
        """Completes all groups but the newest `pending` ones."""
        self.async_work.wait(unit, int(pending))

    def completion(self, unit: AsyncUnit, where: np.ndarray) -> Callable[[], None] | None:
        """A function that completes all work that these lanes have queued so far; None if none is in flight."""
        return self.async_work.completion(unit, where)

    # -- isa.simulated.Warp: asynchronous units ---------------------------------------------------------
    def transfer(
        self,
        lane: int,
        source: Pieces | np.ndarray,
        target: Pieces,
        *,
        agent: object,
        update: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
    ) -> Transfer:
        """Begins an asynchronous transfer of the pieces of a source to those of a target, on behalf of one lane."""
        return BlockTransfer(self, lane, source, target, agent, update)

    def async_read(
        self, starts: np.ndarray, size: int, *, agent: object, unused: np.ndarray | None = None
    ) -> AsyncRead:
        """Begins an asynchronous read of pieces of the block's shared memory for the warp."""
        return AsyncRead(self, starts, size, agent, unused)

    def shared_address(self, pointer: Pointer) -> np.ndarray:
        """Where a pointer points, in bytes from the beginning of the block's shared memory. Shape (size,)."""
        cell = self._cell_of(pointer.buffer)
        assert isinstance(cell, Window)
        address: np.ndarray = cell.begin + pointer.offset * pointer.buffer.dtype.storage_bytes
        return address

    def fence_proxy(self, what: str) -> None:
        """Makes writes of the active lanes visible to the async proxy, for what is ordered after the fence."""
        self.block.proxies.fence(what, self.thread_ids[self.mask])
        if what == "global":
            self.block.grid.races.fence(self.thread_ids[self.mask].tolist())
        if what == "barriers":
            self.block.cluster.fence(self.thread_ids[self.mask])

    def need_fence(self, pointer: Pointer, where: np.ndarray, what: str) -> None:
        """Reports an element whose last write no fence made visible to the async proxy."""
        cell = self._cell_of(pointer.buffer)
        assert isinstance(cell, Window)
        history = cell.storage.history
        if history is None:
            return
        for lane in np.flatnonzero(where & self.mask).tolist():
            unit = (cell.begin + int(pointer.offset[lane]) * cell.itemsize) // cell.storage.unit
            writes, thread = history.writers(np.array([unit])), int(self.thread_ids[lane])
            if self.block.proxies.invisible(what, thread, writes).any():
                writer, site = int(thread_of(writes)[0]), history.site(int(writes[0]))
                name = self.block.clocks.name
                raise violations.unfenced(cell.element_of_unit((unit,)), "updated", name(thread), name(writer), site)

    def fence_registers(self) -> None:
        """Orders the warp's accesses to registers before asynchronous matrix instructions that use them."""
        self.fences += 1

    def is_fenced(self, pointer: Pointer) -> bool:
        """Whether `fence_registers` was executed since the warp's last access to an array of registers."""
        cell = self._cell_of(pointer.buffer)
        assert isinstance(cell, Registers)
        return cell.hazards.fences_at_last_access < self.fences

    def release(self, where: np.ndarray, *, accesses: bool = True) -> np.ndarray:
        """The joined vector clock of these lanes, for others to acquire."""
        return self.block.clocks.release(self.thread_ids[where], accesses=accesses)

    def moment(self, where: np.ndarray) -> Moment:
        """The present one of these lanes."""
        return Moment(self.index, self.loc, self.block.clocks.moment(self.thread_ids[where]))

    def acquire(self, clock: np.ndarray, where: np.ndarray) -> None:
        """Order what others released before all that these lanes do from now on."""
        self.block.clocks.acquire(self.thread_ids[where], clock)

    def has_observed(self, clock: np.ndarray, where: np.ndarray) -> bool:
        """Whether all that was released happened before one of these lanes got here."""
        return self.block.clocks.has_observed(self.thread_ids[where], clock)

    def barrier_sync(self, barrier: int = 0, threads: int | None = None) -> Iterator[Wait]:
        """Arrives at a barrier of the block and waits for the others, and first for its own accesses to memory."""
        self._need_whole_warp(barrier)
        self._retire_all()
        yield from self.block.barriers.barrier_sync(barrier, self.index, self.loc, threads)

    def barrier_signal(self) -> None:
        """Arrives at the block's barrier without waiting for accesses to memory or for the others."""
        self._signal(orders_all=False)

    def barrier_wait(self) -> Iterator[Wait]:
        """Waits until all warps have arrived at the block's barrier by `barrier_signal`."""
        self._need_whole_warp("of the block")
        yield from self.block.barriers.wait(self.index)

    def barrier_join(self) -> Iterator[Wait]:
        """Arrives at the block's barrier without waiting for accesses to memory, and waits for the others."""
        self._signal(orders_all=not self.unretired)
        yield from self.barrier_wait()

    def _signal(self, *, orders_all: bool) -> None:
        self._need_whole_warp("of the block")
        self.block.barriers.signal(self.index, self.loc, orders_all=orders_all)
        if self.unretired:
            self.unretired.repeat(self)

    def retire(self, memory: str, kinds: tuple[str, ...] = ("load", "store")) -> None:
        """Waits for the warp's plain accesses of these kinds to "shared" or "global" memory."""
        if self.unretired is not None:
            self.unretired.retire(memory, kinds)

    def _retire_all(self) -> None:
        self.retire("shared")
        self.retire("global")

    def arrive(self, barrier: int, threads: int) -> None:
        """Arrives at a named barrier without waiting for the others."""
        self._need_whole_warp(barrier)
        self.block.barriers.arrive(barrier, self.index, self.loc, threads, waits=False)

    def grid_sync(self) -> Iterator[Wait]:
        """Waits for all other blocks of the grid."""
        grid, before = self.block.grid, self.block.grid.syncs
        yield Wait("the other blocks of the grid", lambda: grid.syncs > before, by_other_blocks=True)

    def join_launches(self) -> None:
        """Waits for the launches in front, which have ended here, but may not have where launches overlap."""
        if self.block.grid.waits is not None:
            self.block.grid.waits.wait(self.thread_ids[self.mask])

    # -- isa.simulated.Warp: clusters of blocks -----------------------------------------------------------------
    @property
    def rank(self) -> int:
        """The number of the warp's block in its cluster."""
        return self.block.rank

    @property
    def cluster(self) -> tuple[int, int, int]:
        """Blocks of the cluster along x, y and z."""
        return self.block.cluster.extents

    def cluster_arrive(self, *, release: bool) -> None:
        """Arrives at the cluster's barrier without waiting for the others."""
        self._need_whole_warp("of the cluster")
        self.block.cluster.arrive((self.rank, self.index), self.thread_ids[self.mask], self.loc, release=release)

    def cluster_wait(self) -> Iterator[Wait]:
        """Waits until all warps of the cluster have arrived at its barrier."""
        self._need_whole_warp("of the cluster")
        yield from self.block.cluster.wait((self.rank, self.index), self.thread_ids[self.mask])

    def in_block(self, rank: int, where: np.ndarray | None = None, *, until_barrier: bool = True) -> SimWarp:
        """This warp, with addresses of shared memory being those of another block of its cluster."""
        lanes = self.mask if where is None else self.mask & where
        self.block.cluster.access_remote(rank, self.rank, self.thread_ids[lanes], self.loc, until_barrier=until_barrier)
        if rank == self.rank and where is None:
            return self
        there = copy.copy(self)
        there.set_mask(lanes)
        if rank != self.rank:
            there.block = self.block.cluster.blocks[rank]
            there.cells = [cell if isinstance(cell, Registers) else None for cell in self.cells]
        return there

    def converge(self, mask: np.ndarray | int, what: str) -> None:
        """Reports divergence unless all lanes that the active lanes' masks name execute `what` now."""
        everyone = (1 << self.size) - 1
        if self.lanes is None and isinstance(mask, int) and mask & everyone == everyone:
            return
        for named, here in self._mask_groups(mask):
            if (here & ~named).any() or (named & ~here).any():
                raise BarrierDivergence(
                    f"{what}: lanes {_numbers(here)} of warp {self.index} execute it together, but their mask names "
                    f"lanes {_numbers(named)}",
                    hint="name exactly the lanes that reach the statement together",
                )

    def warp_sync(self, mask: np.ndarray | int) -> Iterator[Wait]:
        """Synchronizes the lanes of a mask and makes their writes visible to each other."""
        self.converge(mask, "sync_warp")
        for named, _ in self._mask_groups(mask):
            self.block.clocks.synchronize(self.thread_ids[named])
        yield from ()

    def _mask_groups(self, mask: np.ndarray | int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Per mask that active lanes give: the lanes that it names, and those that give it."""
        words = np.uint64(mask & _WORD) if isinstance(mask, int) else mask.astype(np.uint64)
        masks = np.broadcast_to(words & np.uint64((1 << self.size) - 1), (self.size,))
        for one in np.unique(masks[self.mask]):
            named = (one >> self.lane.astype(np.uint64) & np.uint64(1)).astype(bool)
            yield named & self.present, self.mask & (masks == one)

    def fence(self) -> None:
        """Orders the accesses of the active lanes before what follows, such as arrivals that wait for no memory."""
        self._retire_all()
        self.block.cluster.fence(self.thread_ids[self.mask])

    def report(self, text: str) -> None:
        """Prints a line."""
        self.block.printer(text)

    def state(self, name: str, make: Callable[[], Any], *, read_only: bool = False) -> Any:
        """State that the instructions of a family share within a block."""
        if not read_only:
            self.block.cluster.version += 1
        return self.block.state(name, make)

    # -- pointers -------------------------------------------------------------------------------------------
    def _cell_of(self, buffer: Buffer) -> Window | Registers:
        return self.cell(self.block.slots[buffer])

    def _address(self, cell: Window | Registers, pointer: Pointer, count: int) -> Index:
        """Where a pointer points, in scalars, if `count` of them are there for every active lane."""
        if isinstance(pointer, RegisterPointer):
            first_register = pointer.place * cell.per_element
            if not 0 <= first_register <= cell.size - count:
                cell.contain(self, pointer.offset * cell.per_element, count)
            return first_register
        if isinstance(pointer, ElementPointer):
            return cell.offset(self, pointer.indices, count)
        offset = pointer.offset if cell.per_element == 1 else pointer.offset * cell.per_element
        cell.contain(self, offset, count)
        return offset

    def _within(self, where: np.ndarray | None, access: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
        """Does an access for those active lanes that take part in it."""
        if where is None:
            return access()
        outer = self.mask
        inner = outer & np.asarray(where, bool)
        if not np.count_nonzero(inner):
            return otherwise()
        self.set_mask(inner)
        try:
            return access()
        finally:
            self.set_mask(outer)

    def _need_whole_warp(self, barrier: int | str) -> None:
        if not np.array_equal(self.mask, self.present):
            raise BarrierDivergence(
                f"barrier {barrier}: only lanes {_numbers(self.mask)} of warp {self.index} reach it",
                hint="all threads of a warp must arrive together: move the barrier out of the branch or loop whose "
                "condition differs between threads",
            )


def _numbers(mask: np.ndarray) -> str:
    """Lanes as text, runs of them shortened: `0-15, 31`."""
    parts: list[str] = []
    lanes = np.flatnonzero(mask)
    if not len(lanes):
        return "none"
    for run in np.split(lanes, np.flatnonzero(np.diff(lanes) != 1) + 1):
        parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ", ".join(parts)
