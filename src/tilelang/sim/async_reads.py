"""Asynchronous reads of a block's shared memory by matrix units.

Takes pieces by address, gives their contents when the read completes. Invariant: a read is checked for races when it
begins and again when it completes, since other reads of the same pieces may complete before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilelang.errors import OutOfBounds
from tilelang.ir.buffer import Buffer
from tilelang.sim.async_transfers import Span

if TYPE_CHECKING:
    from tilelang.sim.block import Block
    from tilelang.sim.warp import SimWarp


class AsyncRead:
    """Pieces of the block's shared memory that will be read; see `isa.simulated.Warp.async_read`.

    Args:
        warp: Whose first active lane starts it.
        starts: Where the pieces begin, in bytes.
        size: Bytes of each.
        agent: The mechanism that signals its completion.
        unused: Pieces that are fetched and do not matter.

    Raises:
        OutOfBounds: There is no memory at one of the pieces.
    """

    def __init__(
        self, warp: SimWarp, starts: np.ndarray, size: int, agent: object, unused: np.ndarray | None = None
    ) -> None:
        self._clocks, self._loc, self._shape = warp.block.clocks, warp.loc, (*starts.shape, size)
        self._thread = int(warp.thread_ids[warp.active][0])
        self._agent, self._causes = self._clocks.agent(agent), self._clocks.causes(self._thread)
        flat = starts.reshape(-1)
        self._span = Span(warp.block, flat, size, _tile(warp.block, int(flat.min()), int(flat.max()) + size))
        end, last = self._span.storage.bytes.size, 0 if unused is None else int(unused.max(initial=0)) + size
        if last > end:
            raise OutOfBounds(
                f"'{self._span.window.buffer.name}': matrix units fetch up to byte {last} of shared memory, but the "
                f"block has {end}",
                hint="give the block as much as whole instructions reach",
            )
        self._span.begin_read(self._loc, self._thread)

    def fetch(self) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        """It is read now."""
        span = self._span
        with self._loc:
            span.begin_read(self._loc, self._thread)
            contents, defined = span.contents(by_address=True)
            span.end_read(self._loc, self._agent)
        learned = self._clocks.release_agent(self._agent, self._causes)
        return contents.reshape(self._shape), None if defined is None else defined.reshape(self._shape), learned

    def drop(self) -> None:
        """It is not read after all."""
        history = self._span.storage.history
        if history is not None:
            history.end_pending_read(self._span.units)


def _tile(block: Block, low: int, high: int) -> Buffer:
    """The buffer that holds all of these bytes, else one that holds the first."""
    whole = (buffer for begin, end, buffer in block.tiles if begin <= low and high <= end)
    first = (buffer for begin, end, buffer in block.tiles if begin <= low < end)
    return next(whole, None) or next(first, None) or block.tiles[0][2]
