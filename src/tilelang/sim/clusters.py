"""What the blocks of a running cluster share: their barrier, each other's memory, and how long that is there.

Takes arrivals, waits and ends of warps, and accesses to the memory of other blocks. Invariant: the barrier lets
everybody go when all warps of all blocks have arrived that have not ended; a block's memory is touched by others only
after they know that it has begun, and it ends only once it knows that they are done.

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
_MEET = "let all blocks of the cluster meet"


class Cluster:
    """The blocks of one cluster; a block without a cluster is one of its own.

    Args:
        extents: Blocks along x, y and z.
        clocks: What orders the accesses of all their threads.

    Attributes:
        extents: As given.
        blocks: By rank.
        version: Grows with every write to memory, so that a warp can tell whether waiting for one is in vain.
        watched: Whether a warp may be waiting so: then only writes count that change something.
    """

    def __init__(self, extents: tuple[int, int, int], clocks: Clocks) -> None:
        self.extents, self._clocks = extents, clocks
        self.blocks: list[Block] = []
        self.version, self.watched = 0, False
        self._live: set[_Warp] = set()
        self._arrived: dict[_Warp, int] = {}  # in the generation under way, and when
        self._met: set[_Warp] = set()  # those that have waited once, and know that all blocks have begun
        self._owing: dict[_Warp, tuple[int, Loc]] = {}  # arrived and have not waited: in which generation, and where
        self._generation = 0
        self._gathered = self._known = np.zeros(0, np.int64)
        self._fenced: dict[int, np.ndarray] = {}  # what each thread had done when it executed its last fence
        self._visits: dict[int, dict[int, tuple[int, Loc]]] = {}  # by rank: who touched its memory last, when and where
        self._ended: set[int] = set()

    def enter(self, block: Block, warps: int) -> int:
        """A block begins; gives its rank."""
        rank = len(self.blocks)
        self.blocks.append(block)
        self._live.update((rank, warp) for warp in range(warps))
        return rank

    def leave(self, warp: _Warp) -> None:
        """A warp ends.

        Raises:
            SimulationError: It is the last of its block, whose memory others may still touch.
        """
        self._live.discard(warp)
        self._advance()
        if not any(rank == warp[0] for rank, _ in self._live):
            self._end(warp[0])

    # -- the barrier ----------------------------------------------------------------------------------------
    def fence(self, threads: np.ndarray) -> None:
        """What these threads did so far is released by their next arrival, even a relaxed one."""
        if len(self.blocks) > 1:
            for thread in threads.tolist():
                self._fenced[thread] = self._clocks.release(np.array([thread]))

    def arrive(self, warp: _Warp, threads: np.ndarray, loc: Loc, *, release: bool) -> None:
        """A warp arrives at the cluster's barrier.

        Raises:
            BarrierDivergence: It has not waited since it arrived before.
        """
        if warp in self._owing:
            raise BarrierDivergence(
                f"barrier of the cluster: {self._name(warp)} arrives twice without waiting in between",
                notes=(Note("it arrived here before", self._owing[warp][1]),),
                hint="let every arrival be followed by a wait",
            )
        self._owing[warp] = self._generation, loc
        self._arrived[warp] = self._clocks.tick()
        known = [self._clocks.release(threads)] if release else []
        known += [self._fenced[thread] for thread in threads.tolist() if thread in self._fenced]
        self._gathered = _joined(self._gathered, *known)
        self._advance()

    def wait(self, warp: _Warp, threads: np.ndarray) -> Iterator[Wait]:
        """A warp waits for all others of the cluster to arrive.

        Raises:
            BarrierDivergence: It has not arrived itself.
        """
        if warp not in self._owing:
            raise BarrierDivergence(
                f"barrier of the cluster: {self._name(warp)} waits without having arrived",
                hint="let every wait follow an arrival of the same threads",
            )
        generation, _ = self._owing[warp]
        yield Wait("the barrier of the cluster", lambda: self._generation > generation, self._missing)
        del self._owing[warp]
        self._met.add(warp)
        if self._known.size:
            self._clocks.acquire(threads, self._known)

    def _advance(self) -> None:
        if self._arrived and self._live <= self._arrived.keys():
            self._generation += 1
            self._known, self._gathered = _joined(self._known, self._gathered), np.zeros(0, np.int64)
            for rank, visits in self._visits.items():  # whoever has arrived is done with what he did before
                self._visits[rank] = {t: v for t, v in visits.items() if v[0] > self._arrived.get(self._warp(t), 0)}
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
    def visit(self, rank: int, visitor: int, threads: np.ndarray, loc: Loc, *, lasting: bool) -> None:
        """Threads of a block are about to touch the memory of another.

        Args:
            rank: Of the block whose memory it is.
            visitor: Of their own block.
            threads: Who.
            loc: Where.
            lasting: Whether the other block can learn only by meeting them that they are done.

        Raises:
            SimulationError: There is no such block, or it may not have begun or may have ended.
        """
        if not 0 <= rank < len(self.blocks):
            raise SimulationError(
                f"block {rank} of a cluster of {len(self.blocks)}: there is none",
                hint="pass cluster_dims= to T.Kernel, and ranks below the number of blocks",
            )
        if rank == visitor or not len(threads):
            return
        if rank in self._ended:
            raise self._gone(rank, int(threads[0]))
        own, time = self._clocks.of_block(rank), self._clocks.tick()
        for thread in threads.tolist():
            if self._warp(thread) not in self._met and not self._clocks.observed_any(thread, own):
                raise SimulationError(
                    f"thread {self._clocks.name(thread)} touches shared memory of block {rank} of the cluster, which "
                    "may not have begun",
                    hint=f"{_MEET} before they touch each other's memory",
                )
            if lasting:
                self._visits.setdefault(rank, {})[thread] = time, loc

    def _end(self, rank: int) -> None:
        """All warps of a block have ended."""
        own = self._clocks.of_block(rank)
        for thread, (time, loc) in self._visits.pop(rank, {}).items():
            if not self._clocks.observed_until(own, thread, time):
                error = self._gone(rank, thread)
                error.loc = loc if loc.file else None
                raise error
        self.blocks[rank].pending_transfers.end_of_block(own)
        self._ended.add(rank)

    def _gone(self, rank: int, thread: int) -> SimulationError:
        return SimulationError(
            f"thread {self._clocks.name(thread)} touches shared memory of block {rank} of the cluster, which may have "
            "ended",
            hint=f"{_MEET} before one of them ends",
        )


def _joined(first: np.ndarray, *others: np.ndarray) -> np.ndarray:
    for other in others:
        if other.size:
            first = np.maximum(first, other) if first.size else other
    return first
