"""What a simulator offers to the meanings of instructions; `sim` implements it.

Invariant: values have one entry per lane along axis 0, in lane order; entries of lanes that are not `active` are
arbitrary and must not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from tilelang.ir.buffer import Buffer
from tilelang.isa.instruction import AsyncUnit
from tilelang.records import record


@record
class Pointer:
    """The addresses that a region argument stands for, one per lane.

    Attributes:
        buffer: The memory.
        offset: Elements of `buffer.dtype` from the beginning of `buffer`, per lane. Shape (lanes,), int64.
    """

    buffer: Buffer
    offset: np.ndarray

    def __add__(self, elements: int | np.ndarray) -> Pointer:
        """The addresses some elements further."""
        return Pointer(self.buffer, self.offset + elements)


@record(eq=False)
class TensorMapView:
    """A tensor as a copy engine sees it: an `ir.launch.TensorMap` in numbers.

    Attributes:
        tensor: The memory; the map begins at its index 0.
        dims: Extents in elements, innermost first.
        strides: Bytes from one element to the next, in dimensions 1 and on.
        box: Elements that one copy moves, per dimension.
        swizzle: Bytes within which 16-byte chunks are permuted in shared memory, or 0.
        pixels: See `ir.launch.TensorMap`.
    """

    tensor: Buffer
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    pixels: tuple[tuple[int, int, int], ...] = ()

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.tensor.dtype.storage_bytes


@record(eq=False)
class Pieces:
    """Equally large pieces of one memory, in the order in which an engine moves them.

    Attributes:
        buffer: The memory.
        starts: Where each begins, in bytes: in global memory from index 0 of the buffer, in shared memory from the
            beginning of the block's. Shape (n,), int64.
        size: Bytes of each.
        inside: Which of them exist: the others are read as zeros and written nowhere. None: all do. Shape (n,).
    """

    buffer: Buffer
    starts: np.ndarray
    size: int
    inside: np.ndarray | None = None


class Transfer(Protocol):
    """An asynchronous transfer in flight.

    Attributes:
        completed: Whether all of it has been written.
    """

    completed: bool

    def fetch(self) -> np.ndarray:
        """Completes the read; gives the vector clock for observers of the completion to `acquire`."""

    def complete(self) -> np.ndarray:
        """Completes the write; gives the vector clock for observers of the completion to `acquire`."""


class AsyncRead(Protocol):
    """An asynchronous read in flight."""

    def fetch(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Completes the read: contents, which bytes are defined, and the vector clock for observers to `acquire`.

        Shapes of the first two: that of the starts, and then (size,), uint8 and bool.
        """

    def drop(self) -> None:
        """Cancels the read: another warp read the pieces for this one."""


@record
class Wait:
    """What a warp that cannot go on yields; it is resumed once `ready` says so.

    Attributes:
        what: What it waits for, for reports of deadlocks.
        ready: Asked by the scheduler whenever another warp has run.
        detail: Asked once it is clear that the wait has no end: how far what it waits for is.
        beyond: Whether other blocks end the wait.
    """

    what: str
    ready: Callable[[], bool]
    detail: Callable[[], str] | None = None
    beyond: bool = False


class Warp(Protocol):
    """One warp of a running block, as instructions see it."""

    @property
    def size(self) -> int:
        """How many lanes it has."""

    @property
    def active(self) -> np.ndarray:
        """Which lanes execute the instruction. Shape (size,), bool."""

    @property
    def lane(self) -> np.ndarray:
        """The lanes' numbers, from 0 on. Shape (size,)."""

    @property
    def index(self) -> int:
        """The warp's number in its block."""

    def read(self, pointer: Pointer, count: int = 1, *, where: np.ndarray | None = None) -> np.ndarray:
        """`count` neighboring elements per lane, as one vector access. Shape (size, count).

        Reports what is out of bounds, misaligned, never written, or raced for. Lanes outside `where` read nothing.
        """

    def take(
        self, pointer: Pointer, count: int = 1, *, where: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Like `read`, but undefined contents may be among the values; the second array says which are defined.

        For instructions that move contents, or that compute on padding as well. Shapes: (size, count) both.
        """

    def write(
        self,
        pointer: Pointer,
        values: np.ndarray,
        *,
        where: np.ndarray | None = None,
        defined: np.ndarray | None = None,
    ) -> None:
        """Stores `values`, of shape (size, count), as one vector access; `defined` says which of them are, or all."""

    def update(
        self, pointer: Pointer, change: Callable[[Any, int], Any], *, where: np.ndarray | None = None
    ) -> np.ndarray:
        """Replaces one element per lane, indivisibly and lane after lane; gives the old values. Shape (size,).

        `change(old, lane)` gives the new element for the lane from the element that it finds, a NumPy scalar.
        """

    def defer(
        self, unit: AsyncUnit, work: Callable[[], None], touch: Callable[[], None] | None = None
    ) -> None:
        """Queues work that completes when a wait guarantees it, or at once in eager mode.

        `work` does nothing but read and write memory through this warp: it may be asked before what it touches, and
        completes for some lanes earlier if these wait earlier. Where it does more, or not always the same,
        `touch` is asked in its place, and accesses all that it may.
        """

    def commit(self, unit: AsyncUnit) -> None:
        """Closes the group of work queued since the last commit."""

    def wait(self, unit: AsyncUnit, pending: int) -> None:
        """Completes all groups but the newest `pending` ones."""

    def completion(self, unit: AsyncUnit, where: np.ndarray) -> Callable[[], None] | None:
        """A function that completes what these lanes have queued so far, for completion without a wait.

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
        """Begins an asynchronous transfer of the pieces of a source to those of a target, on behalf of one lane.

        It reads and writes through the asynchronous proxy: what threads wrote before is visible to it only after
        `fence_proxy`. Who observes its completion calls `complete`; what nobody observes completes when the block ends.

        Args:
            lane: Which lane starts it; what happened before there is ordered before the transfer.
            source: What is read; or contents, of shape (n, size) and uint8, which go the way of ordinary stores and
                need no fences.
            target: What is written; equally many pieces of the same size.
            agent: The mechanism that signals its completion: work of one agent is ordered, that of several is not.
            update: Gives new contents from old and moved ones, both of shape (n, size) and uint8; replaces if None.
        """

    def shared_address(self, pointer: Pointer) -> np.ndarray:
        """Where a pointer points, in bytes from the beginning of the block's shared memory. Shape (lanes,), int64."""

    def async_read(
        self, starts: np.ndarray, size: int, *, agent: object, unused: np.ndarray | None = None
    ) -> AsyncRead:
        """Begins an asynchronous read of the block's shared memory, on behalf of the warp's first active lane.

        It does so through the asynchronous proxy, as for `transfer`.

        Args:
            starts: Where each piece begins, in bytes. Any shape, int64.
            size: Bytes of each.
            agent: The mechanism that signals its completion.
            unused: Where pieces begin that it fetches and makes nothing of; they need only exist.
        """

    def fence_registers(self) -> None:
        """Orders the warp's accesses to registers before asynchronous matrix instructions that use them."""

    def is_fenced(self, pointer: Pointer) -> bool:
        """Whether `fence_registers` stands between the warp's own accesses to an array of registers and now."""

    def fence_proxy(self, what: str) -> None:
        """Makes writes of the active lanes visible to the async proxy, for what is ordered after the fence.

        `what` is "shared" or "global" memory, or "barriers": initializations of those in shared memory.
        """

    def need_fence(self, pointer: Pointer, where: np.ndarray, what: str) -> None:
        """Reports an element that the async proxy will access, but whose last write no fence made visible.

        `what` is as in `fence_proxy`; a fence for shared memory is one for barriers.
        """

    @property
    def rank(self) -> int:
        """The number of the warp's block in its cluster; x runs fastest."""

    @property
    def cluster(self) -> tuple[int, int, int]:
        """Blocks of the cluster along x, y and z."""

    def cluster_arrive(self, *, release: bool) -> None:
        """Arrives at the cluster's barrier; without `release`, only what precedes a fence is released."""

    def cluster_wait(self) -> Iterator[Wait]:
        """Waits until all warps of the cluster that have not ended have arrived at its barrier."""

    def in_block(self, rank: int, where: np.ndarray | None = None, *, lasting: bool = True) -> Warp:
        """This warp, with addresses of shared memory being those of another block of its cluster.

        The active lanes, or those of `where`, are about to touch its memory: `lasting` if it can learn only from them
        when they are done, and not from barriers of its own that count what arrives. They are the active ones there.
        """

    def release(self, where: np.ndarray) -> np.ndarray:
        """The joined vector clock of these lanes, for others to `acquire`; join several with `np.maximum`."""

    def acquire(self, known: np.ndarray, where: np.ndarray) -> None:
        """What others released is ordered before all that these lanes do from now on."""

    def has_observed(self, known: np.ndarray, where: np.ndarray) -> bool:
        """Whether all that was released happened before one of these lanes got here; the others go with it.

        This covers more than the accesses that `acquire` orders: completion of a transfer implies progress of the
        thread that started it, though its accesses are not ordered before the observer's.
        """

    def barrier_sync(self, barrier: int = 0, threads: int | None = None) -> Iterator[Wait]:
        """Arrives at a barrier of the block and waits for the others; all threads of the block if `threads` is None."""

    def grid_sync(self) -> Iterator[Wait]:
        """Waits for all other blocks of the grid; called after a barrier of the whole block."""

    def converge(self, mask: np.ndarray | int, what: str) -> None:
        """Reports divergence unless every existing lane that the active lanes' masks name executes `what` now.

        Orders no memory accesses. `mask` has one bit per lane; an array holds the mask that each lane gave.
        """

    def arrive(self, barrier: int, threads: int) -> None:
        """Arrives at a named barrier of that many threads without waiting for the others."""

    def warp_sync(self, mask: np.ndarray | int) -> Iterator[Wait]:
        """Synchronizes the lanes of a mask and makes their writes visible to each other."""

    def fence(self) -> None:
        """Orders the memory accesses of the active lanes."""

    def report(self, text: str) -> None:
        """Prints a line, as `T.print` does."""

    def state(self, name: str, make: Callable[[], Any], *, looks: bool = False) -> Any:
        """State that the instructions of a family share within a block, such as its barriers; made on first use.

        An instruction that `looks` changes nothing there.
        """
