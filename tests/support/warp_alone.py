"""One warp without a block, for tests of the meanings of instructions; records what they request of the block."""

import copy
import itertools

import numpy as np

from tilelang.dtypes import INT32, as_dtype
from tilelang.errors import NOWHERE
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import const
from tilelang.isa.simulated import Moment, Pointer

FULL = 0xFFFFFFFF


class WarpAlone:
    """Has memory in buffers, a queue of asynchronous work, and a record of what it was asked for.

    Attributes:
        asked: (name, arguments) of barriers, fences and the like, in order.
        lines: What was printed.
    """

    def __init__(self, active=None, size=32):
        self.size, self.lane = size, np.arange(size)
        self.active = np.ones(size, bool) if active is None else np.asarray(active, bool)
        self.index = 0
        self.asked, self.lines = [], []
        self._memory, self._states = {}, {}
        self._open, self._groups = [], []

    def buffer(self, dtype, values, scope=Scope.GLOBAL):
        """A pointer to the beginning of a new buffer, for all lanes."""
        dtype = as_dtype(dtype)
        values = np.asarray(values).astype(dtype.numpy)
        buffer = Buffer("m", (const(values.size, INT32),), dtype, scope)
        self._memory[buffer] = values.copy()
        return Pointer(buffer, np.zeros(self.size, np.int64))

    def values(self, pointer):
        return self._memory[pointer.buffer]

    def _where(self, where):
        return self.active if where is None else where

    def read(self, pointer, count=1, *, where=None):
        memory, where = self._memory[pointer.buffer], self._where(where)
        assert (pointer.offset[where] % count == 0).all(), "misaligned"
        out = np.zeros((self.size, count), memory.dtype)
        out[where] = memory[pointer.offset[where][:, None] + np.arange(count)]
        return out

    def read_raw(self, pointer, count=1, *, where=None):
        """Everything is defined."""
        values = self.read(pointer, count, where=where)
        return values, np.ones(values.shape, bool)

    def write(self, pointer, values, *, where=None, defined=None):
        memory, where = self._memory[pointer.buffer], self._where(where)
        assert values.dtype == memory.dtype
        assert (pointer.offset[where] % values.shape[1] == 0).all(), "misaligned"
        memory[pointer.offset[where][:, None] + np.arange(values.shape[1])] = values[where]

    def update(self, pointer, change, *, where=None):
        memory = self._memory[pointer.buffer]
        old = np.zeros(self.size, memory.dtype)
        for lane in np.flatnonzero(self._where(where)):
            place = pointer.offset[lane]
            old[lane] = memory[place]
            memory[place] = change(memory[place], int(lane))
        return old

    def defer(self, unit, work):
        self._open.append(work)

    def commit(self, unit):
        self._groups.append(self._open)
        self._open = []

    def wait(self, unit, pending):
        while len(self._groups) > pending:
            for work in self._groups.pop(0):
                work()

    def completion(self, unit, where):
        work = [*itertools.chain(*self._groups), *self._open]
        self._groups, self._open = [], []
        return (lambda: [w() for w in work]) if work else None

    def shared_address(self, pointer):
        """Every buffer lies at address 0."""
        return pointer.offset * pointer.buffer.dtype.storage_bytes

    def transfer(self, lane, source, target, *, agent, update=None):
        self.asked.append(("transfer", lane))
        return _Transfer(self._memory, source, target, update)

    def fence_proxy(self, what):
        self.asked.append(("fence_proxy", what))

    def need_fence(self, pointer, where, what):
        self.asked.append(("need_fence", what))

    rank, cluster = 1, (4, 1, 1)

    def cluster_arrive(self, *, release):
        self.asked.append(("cluster_arrive", release))

    def cluster_wait(self):
        self.asked.append(("cluster_wait",))
        return iter(())

    def in_block(self, rank, where=None, *, until_barrier=True):
        """All blocks have the same memory."""
        self.asked.append(("in_block", rank))
        there = copy.copy(self)
        there.active = self._where(where)
        return there

    def release(self, where, *, accesses=True):
        self.asked.append(("release", where))
        return np.zeros(32, np.int64)

    def moment(self, where):
        return Moment(self.index, NOWHERE, lambda clock: True)

    def acquire(self, known, where):
        self.asked.append(("acquire", where))

    def has_observed(self, known, where):
        return True

    def barrier_sync(self, barrier=0, threads=None):
        self.asked.append(("barrier_sync", barrier, threads))
        return iter(())

    def grid_sync(self):
        self.asked.append(("grid_sync",))
        return iter(())

    def join_launches(self):
        self.asked.append(("join_launches",))

    def arrive(self, barrier, threads):
        self.asked.append(("arrive", barrier, threads))

    def converge(self, mask, what):
        self.asked.append(("converge", what))

    def warp_sync(self, mask):
        self.asked.append(("warp_sync",))
        return iter(())

    def fence(self):
        self.asked.append(("fence",))

    def report(self, text):
        self.lines.append(text)

    def state(self, name, make, *, read_only=False):
        return self._states.setdefault(name, make())


class _Transfer:
    """Lands when it is asked to."""

    def __init__(self, memory, source, target, update):
        self._memory, self._source, self._target, self._update = memory, source, target, update
        self._moved, self.completed = None, False

    def fetch(self):
        if self._moved is None:
            self._moved = self._contents(self._source)
        return np.zeros(32, np.int64)

    def complete(self):
        if not self.completed:
            self.fetch()
            target, moved = self._target, self._moved
            if self._update is not None:
                moved = self._update(self._contents(target), moved)
            bytes_ = self._memory[target.buffer].view(np.uint8)
            for i, start in enumerate(target.starts):
                if target.inside is None or target.inside[i]:
                    bytes_[start : start + target.size] = moved[i]
            self.completed = True
        return np.zeros(32, np.int64)

    def _contents(self, pieces):
        if isinstance(pieces, np.ndarray):
            return pieces
        bytes_, out = self._memory[pieces.buffer].view(np.uint8), np.zeros((len(pieces.starts), pieces.size), np.uint8)
        for i, start in enumerate(pieces.starts):
            if pieces.inside is None or pieces.inside[i]:
                out[i] = bytes_[start : start + pieces.size]
        return out


def run(instruction, warp, *arguments):
    """The instruction's value, with whatever it waits for taken as having come."""
    value = instruction.simulate(warp, *arguments)
    if hasattr(value, "__next__"):
        try:
            for _ in itertools.count():
                assert next(value).ready()
        except StopIteration as stop:
            return stop.value
    return value
