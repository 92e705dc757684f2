"""Plain accesses of a warp that may not have taken place although later statements run.

On machines whose barriers wait for no memory access, a warp waits for its accesses itself. Takes the accesses of one
warp and its waits. Invariant: an access is ordered by a barrier only if the warp waited for it before; otherwise it may
still take place after the barrier, and is entered in the histories again as an access of that time. Accesses of one
warp take place in their order.

Source: LLVM, "User Guide for AMDGPU Backend", "Memory Model"; RDNA 4 Instruction Set Architecture, "Data Dependency
Resolution".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilelang.errors import Loc
from tilelang.records import record

if TYPE_CHECKING:
    from tilelang.sim.device_memory import Window
    from tilelang.sim.warp import SimWarp


@record
class _Access:
    window: Window
    threads: np.ndarray  # of the active lanes
    units: np.ndarray
    kind: str
    loc: Loc


class Unretired:
    """The accesses of one warp since it last waited for them."""

    def __init__(self) -> None:
        self._accesses: list[_Access] = []

    def __bool__(self) -> bool:
        return bool(self._accesses)

    def add(self, window: Window, threads: np.ndarray, units: np.ndarray, kind: str, loc: Loc) -> None:
        """Threads "load" or "store" units. Shapes: threads (n,), units (n, ...)."""
        self._accesses.append(_Access(window, threads, units, kind, loc))

    def retire(self, memory: str, kinds: tuple[str, ...]) -> None:
        """The warp has waited for its accesses of these kinds to "shared" or "global" memory."""
        self._accesses = [a for a in self._accesses if a.window.memory != memory or a.kind not in kinds]

    def repeat(self, warp: SimWarp) -> None:
        """All of them may take place only now; the threads of the warp itself are ordered after them."""
        for access in self._accesses:
            history = access.window.storage.history
            assert history is not None
            stamps = history.stamps(access.threads, access.loc, access.window.buffer.name)
            spread = np.broadcast_to(stamps.reshape(-1, *[1] * (access.units.ndim - 1)), access.units.shape)
            (history.has_read if access.kind == "load" else history.has_written)(access.units, spread)
        if self._accesses:
            warp.block.clocks.synchronize(warp.thread_ids[warp.present])
