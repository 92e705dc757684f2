"""Asynchronous transfers of a block: source, target, and when each has been read and written.

Takes pieces of memory and the lane that starts the transfer, gives `Transfer`s. Invariant: the accesses of a transfer
are checked for races when it begins, against the vector clock of its thread; until it completes they are pending, and
whatever conflicts with them is reported; afterwards they are accesses of the transfer's agent (`sim.clocks`), ordered
before those who acquired its completion. Lazily, a transfer completes when a thread observes its completion; eagerly,
at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from tilelang.errors import Loc, OutOfBounds, SimulationError
from tilelang.ir.buffer import Buffer
from tilelang.isa.simulated import Pieces
from tilelang.sim import violations
from tilelang.sim.device_memory import Window
from tilelang.sim.history import History, thread_of
from tilelang.sim.storage import Storage, all_set

if TYPE_CHECKING:
    from tilelang.sim.block import Block
    from tilelang.sim.warp import SimWarp

Update = Callable[[np.ndarray, np.ndarray], np.ndarray]
CHUNK_BYTES = 16  # of most pieces


class Span:
    """Those pieces of a memory that exist, as bytes and units of its storage.

    Args:
        block: Whose shared memory it is.
        starts: Where pieces begin, in bytes, as in `isa.simulated.Pieces`. Shape (n,).
        size: Bytes of each.
        buffer: What they belong to.

    Raises:
        OutOfBounds: A piece does not lie in the buffer.
    """

    def __init__(self, block: Block, starts: np.ndarray, size: int, buffer: Buffer) -> None:
        self._block, self.size = block, size
        self.window: Window = block.window(block.slots[buffer])
        self.storage: Storage = self.window.storage
        self.what = "global" if self.window.memory == "global" else "shared"
        low = self.window.begin
        if self.what == "global":
            starts = starts + low
            low, high = 0, self.storage.bytes.size
        else:
            high = low + self.window.size * self.window.itemsize
        if len(starts) and (starts.min() < low or starts.max() + size > high):
            raise OutOfBounds(
                f"'{self.window.buffer.name}': a copy accesses bytes {int(starts.min()) - low} to "
                f"{int(starts.max()) + size - 1 - low}, but it has {high - low}",
                hint="let the box, or the dimensions and strides of the map, fit what is there",
            )
        self._starts = starts
        unit = self.storage.unit
        first = int(starts[0]) // unit if len(starts) else 0
        self.units: np.ndarray = first + _units((starts - first * unit).tobytes(), size, unit)

    # -- contents -------------------------------------------------------------------------------------------------
    def contents(self, *, by_address: bool = False) -> tuple[np.ndarray, np.ndarray | None]:
        """The bytes of the pieces, and which are defined, or None if all are. Shapes: (n, size), uint8 and bool.

        Args:
            by_address: Whether an address names the pieces and not a buffer, of which several may share the bytes.
        """
        contents, mark = self._fetch(self.storage.bytes), self.window.mark
        if self.storage.flags is None:
            return contents, None
        flags = self._fetch(self.storage.flags)
        if all_set(flags, mark):
            return contents, None
        defined = flags != 0 if by_address else flags == mark
        return contents, None if defined.all() else defined

    def put(self, contents: np.ndarray, defined: np.ndarray | None) -> None:
        """Stores the bytes of the pieces. Shapes: (n, size), uint8 and bool.

        Raises:
            ReadBeforeWrite: Undefined bytes are stored to an argument of the kernel.
        """
        places = self._places()
        if defined is not None and self.what == "global" and self.storage.flags is None and not defined.all():
            unit = int(places[tuple(np.argwhere(~defined)[0])]) // self.storage.unit
            raise violations.undefined_result(self._element_of(unit), " by an asynchronous copy")
        self.storage.bytes[places] = contents
        if defined is not None:
            self.storage.track_contents()[places] = np.where(defined, self.window.mark, 0)
        elif self.storage.flags is not None:
            self.storage.flags[places] = self.window.mark

    def _fetch(self, row: np.ndarray) -> np.ndarray:
        """The bytes of the pieces in a row of bytes: piece by piece where they lie at multiples of their size."""
        if self.size != CHUNK_BYTES or np.bitwise_or.reduce(self._starts) % CHUNK_BYTES:
            found: np.ndarray = row[self._places()]
        else:
            chunks = row[: len(row) // CHUNK_BYTES * CHUNK_BYTES].view(f"V{CHUNK_BYTES}")
            found = chunks[self._starts // CHUNK_BYTES].view(np.uint8).reshape(-1, CHUNK_BYTES)
        return found

    def _places(self) -> np.ndarray:
        places: np.ndarray = self._starts[:, None] + np.arange(self.size)
        return places

    # -- order ------------------------------------------------------------------------------------------------------
    def need_wait(self, thread: int, *, reads: bool) -> None:
        """Reports a transfer that a thread starts before it has waited for the launches in front."""
        guard = self.storage.guard if self.units.size else None
        if guard is not None and guard.first_missing(np.array([thread]), reads=reads) is not None:
            raise violations.too_early(self._element(0), self._block.clocks.name(thread), reads=reads)

    def begin_read(self, loc: Loc, thread: int) -> None:
        """A transfer that a thread starts will read the pieces."""
        history = self.storage.history
        if history is None:
            return
        stamps = self._stamps(history, loc, thread)
        found = history.read(self.units, stamps, enter=False)
        if found is not None:
            raise violations.conflicting(self._element(found.position[0]), self._name, found)
        if self.storage.shadow is not None:
            self.storage.shadow.at(loc).may_read((self.units,), stamps)
        self._fenced(history, thread, "read")
        history.begin_pending_read(self.units, stamps)

    def end_read(self, loc: Loc, agent: int) -> None:
        """The transfer has read them."""
        history = self.storage.history
        if history is not None:
            history.end_pending_read(self.units)
            stamps = self._stamps(history, loc, agent)
            history.has_read(self.units, stamps)
            if self.storage.shadow is not None:
                self.storage.shadow.at(loc).has_read((self.units,), stamps)

    def begin_write(self, loc: Loc, thread: int, *, fenced: bool = True) -> None:
        """A transfer that a thread starts will write the pieces; `fenced` if it goes through the async proxy."""
        history = self.storage.history
        if history is None:
            return
        stamps = self._stamps(history, loc, thread)
        found = history.write(self.units, stamps, lambda: np.ones(len(self.units), bool), enter=False)
        if found is not None:
            raise violations.conflicting(self._element(found.position[0]), self._name, found)
        if self.storage.shadow is not None:
            self.storage.shadow.at(loc).may_write((self.units,), stamps)
        if fenced:
            self._fenced(history, thread, "written")
        history.begin_pending_write(self.units, stamps)

    def end_write(self, loc: Loc, agent: int) -> None:
        """The transfer has written them."""
        history = self.storage.history
        if history is not None:
            history.end_pending_write(self.units)
            stamps = self._stamps(history, loc, agent)
            history.has_written(self.units, stamps)
            if self.storage.shadow is not None:
                self.storage.shadow.at(loc).has_written((self.units,), stamps)

    def atomic_update(self, loc: Loc, thread: int) -> None:
        """A transfer that a thread started updates the pieces atomically now."""
        history = self.storage.history
        if history is not None:
            stamps = self._stamps(history, loc, thread)
            found = history.atomic(self.units, stamps)
            if found is not None:
                raise violations.conflicting(self._element(found.position[0]), self._name, found)
            if self.storage.shadow is not None:
                self.storage.shadow.at(loc).atomic((self.units,), stamps)

    def undefined(self, piece: int, thread: int) -> Exception:
        """The error for a piece whose contents are undefined although they matter."""
        unit = int(self._starts[piece]) // self.storage.unit
        return violations.undefined(self._element_of(unit), self._block.clocks.name(thread), self.what)

    def _stamps(self, history: History, loc: Loc, who: int) -> np.ndarray:
        return history.stamps(np.array(who), loc, self._name)

    def _fenced(self, history: History, thread: int, now: str) -> None:
        writes, shadow = history.writers(self.units), self.storage.shadow
        if shadow is not None:  # what other blocks wrote
            shadow.need_fence((self.units,), thread, now)
            writes = np.where(shadow.is_foreign((self.units,)), 0, writes)
        wrong = self._block.proxies.invisible(self.what, thread, writes)
        if np.count_nonzero(wrong):
            at = int(np.flatnonzero(wrong)[0])
            writer, site, name = int(thread_of(writes[at])), history.site(int(writes[at])), self._block.clocks.name
            raise violations.unfenced(self._element(at), now, name(thread), name(writer), site)

    @property
    def _name(self) -> str:
        return self.window.buffer.name

    def _element(self, position: int) -> str:
        return self._element_of(int(self.units[position]))

    def _element_of(self, unit: int) -> str:
        return self.window.element_of_unit((unit,))


@lru_cache(maxsize=256)
def _units(starts: bytes, size: int, unit: int) -> np.ndarray:
    """The units of pieces, given where these begin as bytes of int64; the same boxes and operands come again."""
    units = (np.frombuffer(starts, np.int64) // unit)[:, None] + np.arange(max(1, size // unit))
    return units.ravel() if size >= unit else np.unique(units)


class BlockTransfer:
    """An asynchronous transfer between two memories; see `isa.simulated.Warp.transfer`.

    Args:
        warp: Whose lane starts it.
        lane: Which.
        source: What is read; or contents that registers hold.
        target: What is written.
        agent: The mechanism that signals its completion: a barrier or a group of commits.
        update: Gives new contents from old and moved ones; None to replace them.
    """

    def __init__(
        self,
        warp: SimWarp,
        lane: int,
        source: Pieces | np.ndarray,
        target: Pieces,
        agent: object,
        update: Update | None,
    ) -> None:
        block = warp.block
        self._warp, self._loc, self._block = warp, warp.loc, block
        self._thread = int(warp.thread_ids[lane])
        self._agent, self._causes = block.clocks.agent(agent), block.clocks.causes(self._thread)
        self._count, self._update = len(target.starts), update
        self._read: Span | None = None
        self._inside: tuple[np.ndarray | None, np.ndarray | None] = (None, target.inside)
        self._write = Span(block, _existing(target), target.size, target.buffer)
        self._write.need_wait(self._thread, reads=False)
        self._convert = source.convert if isinstance(source, Pieces) else None
        self._fetched: tuple[np.ndarray, np.ndarray | None] | None = None
        self.completed = False
        self._learned = np.zeros(0, np.int64)
        if isinstance(source, Pieces):
            self._inside = source.inside, target.inside
            self._read = Span(block, _existing(source), source.size, source.buffer)
            self._read.need_wait(self._thread, reads=True)
            self._read.begin_read(self._loc, self._thread)
        else:
            self._fetched = source, None
        if update is None:
            self._write.begin_write(self._loc, self._thread, fenced=self._read is not None)
        if warp.counters is not None and self._read is not None:
            size = self._count * target.size
            warp.counters.bulk_access("bulk load" if self._write.what == "shared" else "bulk store", size, warp.loc)
        block.pending_transfers.begin(self)
        if not block.lazy:
            self.complete()

    def fetch(self) -> np.ndarray:
        """All has been read by now."""
        if self._fetched is None:
            assert self._read is not None
            with self._loc:
                contents, defined = self._read.contents()
                contents = contents if self._convert is None else self._convert(contents)
                self._fetched = self._spread(contents, defined)
                self._read.end_read(self._loc, self._agent)
            self._learned = self._block.clocks.release_agent(self._agent, self._causes)
        return self._learned

    def complete(self) -> np.ndarray:
        """All has been written by now."""
        if not self.completed:
            self.fetch()
            assert self._fetched is not None
            contents, defined = self._fetched
            with self._loc:
                if self._update is not None:
                    contents = self._reduced(contents, defined)
                    defined = None
                    self._write.atomic_update(self._loc, self._thread)
                else:
                    self._write.end_write(self._loc, self._agent)
                self._write.put(contents, defined)
            self._learned = self._block.clocks.release_agent(self._agent, self._causes)
            self._warp.changed()
            self.completed = True
            self._fetched = (np.zeros((0, 0), np.uint8), None)
            self._block.pending_transfers.end(self)
        return self._learned

    def finish_at_exit(self) -> None:
        """The block ends: the rest happens now, if it still can."""
        if self._fetched is None and self._read is not None and self._read.what == "shared":
            raise self._placed(violations.unfinished_read(self._read.window.buffer.name, self._name))
        if not self.completed and self._write.what == "shared":
            name = self._write.window.buffer.name
            raise self._placed(violations.unfinished_write(name, self._name, across_blocks=False))
        self.complete()

    def check_remote_target(self, threads: slice) -> None:
        """The block of these threads ends, whose memory the work touches."""
        if not threads.start <= self._thread < threads.stop:
            name = self._write.window.buffer.name
            raise self._placed(violations.unfinished_write(name, self._name, across_blocks=True))

    @property
    def _name(self) -> str:
        return self._block.clocks.name(self._thread)

    def _placed(self, error: SimulationError) -> SimulationError:
        error.loc = self._loc if self._loc.file else None
        return error

    def _spread(self, contents: np.ndarray, defined: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the bytes read, with zeros for pieces that do not exist, as far as they are to be written."""
        inside, kept = self._inside
        if inside is not None:
            whole = np.zeros((self._count, self._write.size), np.uint8)
            whole[inside] = contents
            if defined is not None:
                is_defined = np.ones(whole.shape, bool)
                is_defined[inside] = defined
                defined = is_defined
            contents = whole
        if kept is not None:
            contents, defined = contents[kept], None if defined is None else defined[kept]
        return contents, defined

    def _reduced(self, contents: np.ndarray, defined: np.ndarray | None) -> np.ndarray:
        old, old_defined = self._write.contents()
        for span, flags in ((self._read, defined), (self._write, old_defined)):
            if span is not None and flags is not None:
                raise span.undefined(int(np.argwhere(~flags)[0][0]), self._thread)
        assert self._update is not None
        return self._update(old, contents) if len(old) else contents


def _existing(pieces: Pieces) -> np.ndarray:
    return pieces.starts if pieces.inside is None else pieces.starts[pieces.inside]


class PendingTransfers:
    """The transfers in flight for one block, in the order in which they began."""

    def __init__(self) -> None:
        self._pending: dict[BlockTransfer, None] = {}

    def begin(self, transfer: BlockTransfer) -> None:
        """A transfer begins."""
        self._pending[transfer] = None

    def end(self, transfer: BlockTransfer) -> None:
        """It has completed."""
        self._pending.pop(transfer, None)

    def end_of_block(self, threads: slice) -> None:
        """All threads of the block have exited: transfers of other blocks to its memory must be complete.

        Raises:
            SimulationError: One is not.
        """
        for transfer in self._pending:
            transfer.check_remote_target(threads)

    def finish(self) -> None:
        """The block, or the cluster that it belongs to, is over."""
        for transfer in tuple(self._pending):
            transfer.finish_at_exit()
