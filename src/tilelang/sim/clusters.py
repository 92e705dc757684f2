"""The state of a running cluster: its barrier, accesses to shared memory of other blocks, and lifetimes of blocks.

Takes arrivals, waits and exits of warps, and accesses to the memory of other blocks. Invariant: a phase of the barrier
completes when all warps that have not exited have arrived; another block's memory is accessed only after
synchronization with its start, and a block exits only after synchronization with all accesses to its memory.

Source: PTX ISA, "barrier.cluster"; CUDA C++ Programming Guide, "Distributed Shared Memory".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from tilelang.errors import BarrierDivergence, Loc, Note, SimulationError
from tilelang.isa.simulated import Wait
from tilelang.sim.clocks import Clocks

if TYPE_CHECKING:
    from tilelang.sim.block import Block

_Warp = tuple[int, int]  # rank of the block, number of the warp
_SYNC_HINT = "write T.cluster_sync()"


class Cluster:
    """The blocks of one cluster; a block without a cluster is one of its own.

    Args:
        extents: Blocks along x, y and z.
        clocks: What orders the accesses of all their threads.

    Attributes:
        extents: As given.
        blocks: By rank.
        version: Counts writes to memory, by which a spinning warp sees whether its condition can have changed.
        tracks_changes: Whether a warp spins: then only writes that change something are counted.
    """

    def __init__(self, extents: tuple[int, int, int], clocks: Clocks) -> None:
        self.extents, self._clocks = extents, clocks
        self.blocks: list[Block] = []
        self.version, self.tracks_changes = 0, False
        self._live: set[_Warp] = set()
        self._arrived: dict[_Warp, int] = {}  # in the current generation, and when
        self._synchronized: set[_Warp] = set()  # those that have waited once: all blocks have begun
        self._unwaited: dict[_Warp, tuple[int, Loc]] = {}  # arrived but not waited: generation and place of the arrival
        self._generation = 0
        self._gathered = self._known = np.zeros(0, np.int64)
        self._fenced: dict[int, np.ndarray] = {}  # the vector clock of each thread at its last fence
        # By rank: the threads that accessed the memory of that block, when and where
        self._last_accesses: dict[int, dict[int, tuple[int, Loc]]] = {}
        self._ended: set[int] = set()

    def enter(self, block: Block, warps: int) -> int:
        """A block begins; gives its rank."""
        rank = len(self.blocks)
        self.blocks.append(block)
        self._live.update((rank, warp) for warp in range(warps))
        return rank

    def exit_warp(self, warp: _Warp) -> None:
        """A warp ends.

        Raises:
            SimulationError: It is the last of its block, whose memory others may still access.
        """
        self._live.discard(warp)
        self._advance()
        if not any(rank == warp[0] for rank, _ in self._live):
            self._end(warp[0])

    # -- the barrier ----------------------------------------------------------------------------------------
    def fence(self, threads: np.ndarray) -> None:
        """Accesses of these threads so far are released by their next arrival, even a relaxed one."""
        if len(self.blocks) > 1:
            for thread in threads.tolist():
                self._fenced[thread] = self._clocks.release(np.array([thread]))

    def arrive(self, warp: _Warp, threads: np.ndarray, loc: Loc, *, release: bool) -> None:
        """A warp arrives at the cluster's barrier.

        Raises:
            BarrierDivergence: It has not waited since it arrived before.
        """
        if warp in self._unwaited:
            raise BarrierDivergence(
                f"barrier of the cluster: {self._name(warp)} arrives twice without waiting in between",
                notes=(Note("it arrived here before", self._unwaited[warp][1]),),
                hint="let every arrival be followed by a wait",
            )
        self._unwaited[warp] = self._generation, loc
        self._arrived[warp] = self._clocks.tick()
        clocks = [self._clocks.release(threads)] if release else []
        clocks += [self._fenced[thread] for thread in threads.tolist() if thread in self._fenced]
        self._gathered = _joined(self._gathered, *clocks)
        self._advance()

    def wait(self, warp: _Warp, threads: np.ndarray) -> Iterator[Wait]:
        """A warp waits for all others of the cluster to arrive.

        Raises:
            BarrierDivergence: It has not arrived itself.
        """
        if warp not in self._unwaited:
            raise BarrierDivergence(
                f"barrier of the cluster: {self._name(warp)} waits without having arrived",
                hint="let every wait follow an arrival of the same threads",
            )
        generation, _ = self._unwaited[warp]
        yield Wait("the barrier of the cluster", lambda: self._generation > generation, self._missing)
        del self._unwaited[warp]
        self._synchronized.add(warp)
        if self._known.size:
            self._clocks.acquire(threads, self._known)

    def _advance(self) -> None:
        if self._arrived and self._live <= self._arrived.keys():
            self._generation += 1
            self._known, self._gathered = _joined(self._known, self._gathered), np.zeros(0, np.int64)
            for rank, accesses in self._last_accesses.items():  # those before an arrival are complete
                self._last_accesses[rank] = {
                    thread: access
                    for thread, access in accesses.items()
                    if access[0] > self._arrived.get(self._warp(thread), 0)
                }
            self._arrived = {}

    def _warp(self, thread: int) -> _Warp:
        rank, number = divmod(thread, self._clocks.per_block)
        return rank, number // self._clocks.warp_size

    def _missing(self) -> str:
        absent = sorted(self._live - self._arrived.keys())
        shown = ", ".join(map(self._name, absent[:4])) + (", ..." if len(absent) > 4 else "")
        return f"{shown} {'has' if len(absent) == 1 else 'have'} not arrived"

    def _name(self, warp: _Warp) -> str:
        return f"warp {warp[1]} of block {warp[0]}"

    # -- memory of other blocks -----------------------------------------------------------------------------
    def access_remote(self, rank: int, accessor: int, threads: np.ndarray, loc: Loc, *, until_barrier: bool) -> None:
        """Threads of a block are about to access the memory of another.

        Args:
            rank: Of the block whose memory it is.
            accessor: Of their own block.
            threads: Which.
            loc: The statement.
            until_barrier: Whether only a barrier with the other block orders the access before its exit.

        Raises:
            SimulationError: There is no such block, or it may not have begun or may have ended.
        """
        if not 0 <= rank < len(self.blocks):
            raise SimulationError(
                f"block {rank} of a cluster of {len(self.blocks)}: there is none",
                hint="pass cluster_dims= to T.Kernel, and ranks below the number of blocks",
            )
        if rank == accessor or not len(threads):
            return
        if rank in self._ended:
            raise self._exited_error(rank, int(threads[0]))
        own, time = self._clocks.of_block(rank), self._clocks.tick()
        for thread in threads.tolist():
            if self._warp(thread) not in self._synchronized and not self._clocks.observed_any(thread, own):
                raise SimulationError(
                    f"thread {self._clocks.name(thread)} accesses shared memory of block {rank} of the cluster, which "
                    "may not have begun",
                    hint=f"{_SYNC_HINT} before the first access to another block's memory",
                )
            if until_barrier:
                self._last_accesses.setdefault(rank, {})[thread] = time, loc

    def _end(self, rank: int) -> None:
        """All warps of a block have ended."""
        own = self._clocks.of_block(rank)
        for thread, (time, loc) in self._last_accesses.pop(rank, {}).items():
            if not self._clocks.observed_until(own, thread, time):
                error = self._exited_error(rank, thread)
                error.loc = loc if loc.file else None
                raise error
        self.blocks[rank].pending_transfers.end_of_block(own)
        self._ended.add(rank)

    def _exited_error(self, rank: int, thread: int) -> SimulationError:
        return SimulationError(
            f"thread {self._clocks.name(thread)} accesses shared memory of block {rank} of the cluster, which may have "
            "ended",
            hint=f"{_SYNC_HINT} before a block exits",
        )


def _joined(first: np.ndarray, *others: np.ndarray) -> np.ndarray:
    for other in others:
        if other.size:
            first = np.maximum(first, other) if first.size else other
    return first
