"""The interface of the simulator for the meanings of instructions; implemented by `sim`.

Invariant: values have one entry per lane along axis 0, in lane order; entries of inactive lanes are arbitrary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from tilelang.errors import Loc
from tilelang.ir.buffer import Buffer
from tilelang.isa.instruction import AsyncUnit
from tilelang.records import record


@record
class Pointer:
    """The addresses of a region argument, one per lane.

    Attributes:
        buffer: The memory.
        offset: Offset in elements of `buffer.dtype`, per lane. Shape (lanes,), int64.
    """

    buffer: Buffer
    offset: np.ndarray

    def __add__(self, elements: int | np.ndarray) -> Pointer:
        """The addresses advanced by a number of elements."""
        return Pointer(self.buffer, self.offset + elements)


@record(eq=False)
class TensorMapView:
    """A tensor map with evaluated sizes; see `ir.launch.TensorMap`.

    Attributes:
        tensor: The memory; the map begins at its index 0.
        dims: Extents in elements, innermost first.
        strides: Bytes from one element to the next, in dimensions 1 and on.
        box: Elements that one copy moves, per dimension.
        swizzle: Bytes within which 16-byte chunks are permuted in shared memory, or 0.
        pixels: See `ir.launch.TensorMap`.
        rounds: Likewise.
    """

    tensor: Buffer
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    pixels: tuple[tuple[int, int, int], ...] = ()
    rounds: bool = False

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.tensor.dtype.storage_bytes


@record(eq=False)
class Pieces:
    """Equally large pieces of one memory, in the order of a transfer.

    Attributes:
        buffer: The memory.
        starts: Byte offsets: from index 0 of a global buffer, or from the start of the block's shared memory. Shape
            (n,), int64.
        size: Bytes of each.
        inside: Which of them are in bounds: others read as zeros and are not written. None: all. Shape (n,).
        convert: What becomes of the bytes that are read; None: they stay. From and to shape (n, size), uint8.
    """

    buffer: Buffer
    starts: np.ndarray
    size: int
    inside: np.ndarray | None = None
    convert: Callable[[np.ndarray], np.ndarray] | None = None


class Transfer(Protocol):
    """An asynchronous transfer in flight.

    Attributes:
        completed: Whether all of it has been written.
    """

    completed: bool

    def fetch(self) -> np.ndarray:
        """Completes the read; returns the vector clock that observers of the completion `acquire`."""

    def complete(self) -> np.ndarray:
        """Completes the write; returns the vector clock that observers of the completion `acquire`."""


class AsyncRead(Protocol):
    """An asynchronous read in flight."""

    def fetch(self) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        """Completes the read; returns contents, a mask of defined bytes, and the vector clock to `acquire`.

        Shapes of the first two: that of the starts, and then (size,); uint8 and bool. No mask: all are defined.
        """

    def drop(self) -> None:
        """Cancels the read, if another warp has read the pieces."""


@record
class Wait:
    """Yielded by a warp that must wait; it is resumed when `ready` returns true.

    Attributes:
        what: The awaited event, for reports of deadlocks.
        ready: Polled by the scheduler whenever another warp has run.
        detail: Called at a deadlock: the state of the awaited event, as text.
        by_other_blocks: Whether other blocks end the wait.
        polls: Whether it always is ready: the warp looks for a change that others make, and lets them go on.
    """

    what: str
    ready: Callable[[], bool]
    detail: Callable[[], str] | None = None
    by_other_blocks: bool = False
    polls: bool = False


@record(eq=False)
class Moment:
    """A moment in the run of some lanes of a warp.

    Attributes:
        warp: The index of the warp in its block.
        loc: The statement that it executes.
        happened_before: Whether one of the lanes got there before all that the lanes whose clock is given had released.
    """

    warp: int
    loc: Loc
    happened_before: Callable[[np.ndarray], bool]


class Warp(Protocol):
    """One warp of a running block, as instructions access it."""

    @property
    def size(self) -> int:
        """Number of lanes."""

    @property
    def active(self) -> np.ndarray:
        """The lanes that execute the instruction. Shape (size,), bool."""

    @property
    def lane(self) -> np.ndarray:
        """The lane indices. Shape (size,)."""

    @property
    def index(self) -> int:
        """The index of the warp in its block."""

    def read(self, pointer: Pointer, count: int = 1, *, where: np.ndarray | None = None) -> np.ndarray:
        """Reads `count` consecutive elements per lane, as one vector access. Shape (size, count).

        Reports accesses that are out of bounds, misaligned, uninitialized, or racing. Lanes outside `where` read
        nothing.
        """

    def read_raw(
        self, pointer: Pointer, count: int = 1, *, where: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Like `read`, but allows undefined contents; also returns a mask of defined elements.

        For instructions that move contents, or that compute on padding. Shapes: (size, count) both.
        """

    def write(
        self,
        pointer: Pointer,
        values: np.ndarray,
        *,
        where: np.ndarray | None = None,
        defined: np.ndarray | None = None,
    ) -> None:
        """Stores `values`, of shape (size, count), as one vector access; `defined` is the mask of defined ones."""

    def update(
        self, pointer: Pointer, change: Callable[[Any, int], Any], *, where: np.ndarray | None = None
    ) -> np.ndarray:
        """Atomically replaces one element per lane, lane after lane; returns the old values. Shape (size,).

        `change(old, lane)` returns the new element for the lane, given the old one as a NumPy scalar.
        """

    def defer(
        self, unit: AsyncUnit, work: Callable[[], None], touch: Callable[[], None] | None = None
    ) -> None:
        """Queues work that completes at a wait, or immediately in eager mode.

        `work` must only read and write memory through this warp: it may be traced for its accesses beforehand, and
        completes earlier for lanes that wait earlier. If it does more, or is not deterministic, `touch` is traced
        instead and makes all possible accesses.
        """

    def commit(self, unit: AsyncUnit) -> None:
        """Closes the group of work queued since the last commit."""

    def wait(self, unit: AsyncUnit, pending: int) -> None:
        """Completes all groups but the newest `pending` ones."""

    def completion(self, unit: AsyncUnit, where: np.ndarray) -> Callable[[], None] | None:
        """A function that completes the work queued by these lanes, for completion without a wait.

        None if nothing is in flight.
        """

    def transfer(
        self,
        lane: int,
        source: Pieces | np.ndarray,
        target: Pieces,
        *,
        agent: object,
        update: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
    ) -> Transfer:
        """Starts an asynchronous transfer of pieces of a source to those of a target, on behalf of one lane.

        Accesses memory through the async proxy: earlier writes of threads are visible to it only after `fence_proxy`.
        An observer of the completion calls `complete`; otherwise the transfer completes when the block ends.

        Args:
            lane: The issuing lane; its earlier accesses are ordered before the transfer.
            source: The pieces to read; or contents, of shape (n, size) and uint8, which need no fences.
            target: The pieces to write; as many, of the same size.
            agent: The completion mechanism: work of one agent is ordered, that of several is not.
            update: Computes new contents from old and moved ones, both of shape (n, size) and uint8; None to overwrite.
        """

    def shared_address(self, pointer: Pointer) -> np.ndarray:
        """The byte offsets of a pointer in the shared memory of the block. Shape (lanes,), int64."""

    def async_read(
        self, starts: np.ndarray, size: int, *, agent: object, unused: np.ndarray | None = None
    ) -> AsyncRead:
        """Starts an asynchronous read of shared memory, on behalf of the first active lane of the warp.

        Through the async proxy, like `transfer`.

        Args:
            starts: Byte offsets of the pieces. Any shape, int64.
            size: Bytes of each.
            agent: The completion mechanism.
            unused: Byte offsets of pieces that are fetched but not used; they must be in bounds.
        """

    def fence_registers(self) -> None:
        """Orders the warp's accesses to registers before asynchronous matrix instructions that use them."""

    def is_fenced(self, pointer: Pointer) -> bool:
        """Whether `fence_registers` was executed since the last access of the warp to an array in registers."""

    def fence_proxy(self, what: str) -> None:
        """Makes writes of the active lanes visible to the async proxy, for accesses ordered after the fence.

        `what` is "shared" or "global" memory, or "barriers": initializations of barriers in shared memory.
        """

    def need_fence(self, pointer: Pointer, where: np.ndarray, what: str) -> None:
        """Reports an element that the async proxy will access if no fence made its last write visible.

        `what` is as in `fence_proxy`; a fence for shared memory is one for barriers, too.
        """

    @property
    def rank(self) -> int:
        """The rank of the block in its cluster; x fastest."""

    @property
    def cluster(self) -> tuple[int, int, int]:
        """Blocks of the cluster along x, y and z."""

    def cluster_arrive(self, *, release: bool) -> None:
        """Arrives at the cluster barrier; without `release`, releases only what precedes a fence."""

    def cluster_wait(self) -> Iterator[Wait]:
        """Waits until all running warps of the cluster have arrived at its barrier."""

    def in_block(self, rank: int, where: np.ndarray | None = None, *, until_barrier: bool = True) -> Warp:
        """This warp, with addresses of shared memory being those of another block of its cluster.

        The lanes in `where`, by default the active ones, are active there. `until_barrier`: the accesses are complete
        only at a barrier with these lanes, and are not counted on a barrier of that block.
        """

    def release(self, where: np.ndarray, *, accesses: bool = True) -> np.ndarray:
        """The joined vector clock of these lanes, for others to `acquire`; join several by `np.maximum`.

        Without `accesses` others learn that the lanes got here, but their accesses to memory are not ordered.
        """

    def moment(self, where: np.ndarray) -> Moment:
        """The present one of these lanes."""

    def acquire(self, clock: np.ndarray, where: np.ndarray) -> None:
        """Orders what others released before all following accesses of these lanes."""

    def has_observed(self, clock: np.ndarray, where: np.ndarray) -> bool:
        """Whether all released events happened before one of these lanes got here.

        This covers more than the accesses that `acquire` orders: completion of a transfer implies progress of the
        thread that started it, though its accesses are not ordered before the observer's.
        """

    def barrier_sync(self, barrier: int = 0, threads: int | None = None) -> Iterator[Wait]:
        """Arrives at a barrier of the block and waits for the other threads; all of the block if `threads` is None.

        Accesses to memory before it are ordered before those after it.
        """

    def barrier_signal(self) -> None:
        """Arrives at the block's barrier without waiting; orders only accesses that the warp has waited for."""

    def barrier_wait(self) -> Iterator[Wait]:
        """Waits until all warps of the block have arrived by `barrier_signal`."""

    def barrier_join(self) -> Iterator[Wait]:
        """Arrives at the block's barrier and waits for all warps; orders accesses as `barrier_signal` does."""

    def retire(self, memory: str, kinds: tuple[str, ...] = ("load", "store")) -> None:
        """Waits for the warp's plain accesses of these kinds to "shared" or "global" memory."""

    def grid_sync(self) -> Iterator[Wait]:
        """Waits for all other blocks of the grid; called after a barrier of the whole block."""

    def join_launches(self) -> None:
        """Waits until the launches in front have ended, whose writes are visible then."""

    def converge(self, mask: np.ndarray | int, what: str) -> None:
        """Reports divergence unless all existing lanes of the active lanes' masks execute `what` now.

        Does not order memory accesses. `mask` has one bit per lane; an array has the mask of each lane.
        """

    def arrive(self, barrier: int, threads: int) -> None:
        """Arrives at a named barrier of that many threads without waiting."""

    def warp_sync(self, mask: np.ndarray | int) -> Iterator[Wait]:
        """Synchronizes the lanes of a mask and makes their writes visible to each other."""

    def fence(self) -> None:
        """Orders the memory accesses of the active lanes."""

    def report(self, text: str) -> None:
        """Prints a line, as `T.print` does."""

    def state(self, name: str, make: Callable[[], Any], *, read_only: bool = False) -> Any:
        """State of a family of instructions within a block, such as its barriers; created at first use.

        `read_only`: the instruction does not change it.
        """
