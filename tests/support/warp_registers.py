"""A warp without a block around it: arrays per lane, for the meanings of instructions on registers."""

import numpy as np

from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import const
from tilelang.isa.simulated import Pointer


class WarpOfRegisters:
    """Reads and writes arrays of shape (lanes, n), one row per lane, and arrays that all lanes share."""

    def __init__(self, size=32):
        self.size, self.lane = size, np.arange(size)
        self._memory = {}
        self._known = {}

    def registers(self, dtype, values):
        """A pointer to the lanes' own arrays."""
        buffer = Buffer("r", (const(values.shape[1], INT32),), dtype, Scope.LOCAL)
        self._memory[buffer] = values.copy()
        return Pointer(buffer, np.zeros(self.size, np.int64))

    def shared(self, dtype, values):
        """A buffer that all lanes share."""
        buffer = Buffer("s", (const(values.size, INT32),), dtype, Scope.SHARED)
        self._memory[buffer] = values.reshape(-1).copy()
        return buffer

    def values(self, pointer):
        return self._memory[pointer.buffer if isinstance(pointer, Pointer) else pointer]

    def converge(self, mask, what):
        assert mask == (1 << self.size) - 1

    def _at(self, pointer, count):
        memory = self._memory[pointer.buffer]
        offsets = pointer.offset[:, None] + np.arange(count)
        assert (pointer.offset % count == 0).all(), "misaligned"
        return memory, ((self.lane[:, None], offsets) if memory.ndim == 2 else (offsets,))

    def read(self, pointer, count=1, *, where=None):
        memory, index = self._at(pointer, count)
        if where is None:
            return memory[index]
        out = np.zeros((self.size, count), memory.dtype)
        out[where] = memory[tuple(i[where] for i in index)]
        return out

    def read_raw(self, pointer, count=1, *, where=None):
        known = self._known.get(pointer.buffer)
        values = self.read(pointer, count, where=where)
        return values, np.ones(values.shape, bool) if known is None else known[self._at(pointer, count)[1]]

    def write(self, pointer, values, *, where=None, defined=None):
        memory, index = self._at(pointer, values.shape[1])
        where = np.ones(self.size, bool) if where is None else where
        memory[tuple(i[where] for i in index)] = values[where]
        if defined is not None:
            known = self._known.setdefault(pointer.buffer, np.ones(memory.shape, bool))
            known[tuple(i[where] for i in index)] = defined[where]

    def forget(self, pointer, known):
        """Makes a lane's values undefined where `known` says so."""
        self._known[pointer.buffer] = known

    def known(self, pointer):
        """Which values are defined."""
        return self._known[pointer.buffer]


def gather(matrix, layout):
    """The elements that each lane holds of a matrix. Shape (lanes, values)."""
    return matrix[tuple(np.moveaxis(layout.table, -1, 0))]


def scatter(values, layout):
    """The matrix whose elements the lanes hold."""
    matrix = np.zeros(layout.shape, values.dtype)
    matrix[tuple(np.moveaxis(layout.table, -1, 0))] = values
    return matrix
