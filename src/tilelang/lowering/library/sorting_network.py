"""A bitonic sorting network over rows in shared memory.

Takes tiles of keys and indices, emits parallel loops within loops over stages. Invariant: with indices, no two elements
are equal, so the sort is stable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tilelang.dtypes import INT32
from tilelang.ir.buffer import Buffer
from tilelang.ir.builder import Builder, as_body
from tilelang.ir.expr import Expr, Load, Var, as_expr, binary, const, int_const, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Bind, If, Store
from tilelang.lowering.library.sort_order import both, comes_after
from tilelang.lowering.loops import parallel, serial
from tilelang.lowering.regions import ZERO

# Groups have 2^3 elements, 16 registers with their indices. With 2^4 elements there would be a fourth fewer passes
# through shared memory, but twice the code, and short rows would have work for half as many threads.
_GROUP_BITS = 3

_Group = list[list[Expr]]
"""Elements of a row in registers: key, and index if there are indices."""


def sort_lines(build: Builder, keys: Buffer, positions: Buffer | None, *, descending: bool) -> None:
    """Sorts the last dimension of tiles by key, and equal keys by index.

    This is a bitonic sorting network (Batcher, Sorting networks and their applications, 1968). Stage s merges runs of
    2^s elements, alternately ascending and descending, by comparing elements whose positions differ in bit s, then s -
    1 down to 0. An iteration holds a group of elements that differ in consecutive bits and performs all comparisons of
    these bits, so that several bits need one pass through shared memory. Stages, and the groups of a stage, are loops
    of the kernel, so that its code size does not depend on the length.

    Args:
        build: Takes the statements.
        keys: Shared memory of constant extents, the last of which is a power of two.
        positions: A tile of the same shape with the index of each key, unique within a row.
        descending: Whether the largest key comes first.
    """
    _Network(build, keys, positions, descending=descending).run()


class _Network:
    """The loops of `sort_lines`."""

    def __init__(self, build: Builder, keys: Buffer, positions: Buffer | None, *, descending: bool) -> None:
        self._build, self._descending = build, descending
        self._tiles = [keys] if positions is None else [keys, positions]
        *self._lines, length = keys.shape
        self._stages = (int_const(length) or 1).bit_length() - 1
        self._bits = min(_GROUP_BITS, self._stages)

    def run(self) -> None:
        """Emits all stages: the first ones within groups of adjacent elements."""
        self._groups(0, self._first_stages)
        if self._bits < self._stages:
            serial(self._build, "stage", const(self._bits, INT32), const(self._stages, INT32), self._stage)

    def _stage(self, stage: Expr) -> None:
        """Emits one stage: groups of high bits first."""
        for base in reversed(range(0, self._stages, self._bits)):
            # The highest group may overlap the one below. Comparing these bits twice changes nothing: by then the
            # halves are ordered.
            base = min(base, self._stages - self._bits)
            merge = partial(self._merge, stage=stage, base=base)
            if base == 0:
                self._groups(base, merge)
                continue
            with self._build.block() as statements:
                self._groups(base, merge)
            self._build.emit(If(binary(BinaryOp.LE, as_expr(base), stage), as_body(statements, self._build.loc)))

    def _groups(self, base: int, order: Callable[[_Group, Expr], None]) -> None:
        """Loads all groups of elements that differ in the bits from `base` on, sorts each and stores it.

        Args:
            base: The lowest of these bits.
            order: Sorts a group, given the position of its first element.
        """
        size = 1 << self._bits

        def group(at: tuple[Var, ...]) -> None:
            *line, number = at
            start = number  # the highest groups start at consecutive positions
            if base + self._bits < self._stages:
                start = self._bind("start", number // (1 << base) * (size << base) + number % (1 << base))
            where = [(*line, start + (i << base)) for i in range(size)]
            elements: _Group = [[self._bind(t.name, Load(t, here, t.dtype)) for t in self._tiles] for here in where]
            order(elements, start)
            for here, element in zip(where, elements, strict=True):
                for tile, value in zip(self._tiles, element, strict=True):
                    self._build.emit(Store(tile, here, value))

        parallel(self._build, [*self._lines, const(1 << self._stages - self._bits, INT32)], group)

    def _first_stages(self, elements: _Group, start: Expr) -> None:
        """Sorts groups, alternately ascending and descending."""
        for stage in range(self._bits):
            is_last = stage == self._bits - 1 < self._stages - 1
            descending = [self._is_descending(start, const(stage, INT32))] if is_last else []
            for bit in reversed(range(stage + 1)):
                self._compare(elements, bit, descending, opposite=1 << stage + 1)

    def _merge(self, elements: _Group, start: Expr, *, stage: Expr, base: int) -> None:
        """Compares the bits of a group that belong to the stage."""
        positions = [start + (i << base) for i in range(len(elements))] if base else [start]
        descending = [self._is_descending(position, stage) for position in positions]
        for bit in reversed(range(self._bits)):
            counts = binary(BinaryOp.LE, as_expr(base + bit), stage) if base and bit else None
            self._compare(elements, bit, descending, counts)

    def _is_descending(self, position: Expr, stage: Expr) -> Expr:
        """Whether a stage sorts the run around a position in descending order."""
        return self._bind("falls", binary(BinaryOp.NE, (position >> (stage + 1)) & 1, ZERO))

    def _compare(
        self, elements: _Group, bit: int, descending: Sequence[Expr], counts: Expr | None = None, *, opposite: int = 0
    ) -> None:
        """Sorts the pairs of elements that differ in one bit.

        Args:
            elements: The group.
            bit: The bit of the position in the group.
            descending: Whether to sort in descending order, for each element or for all; ascending if empty.
            counts: The predicate of the comparison.
            opposite: Bit mask of positions to sort in the opposite order.
        """
        for i in range(len(elements)):
            if i >> bit & 1:
                continue
            one, other = elements[i], elements[i | 1 << bit]
            if i & opposite:
                one, other = other, one
            positions = (one[1], other[1]) if len(self._tiles) > 1 else None
            wrong = comes_after(one[0], other[0], positions, descending=self._descending)
            if descending:
                wrong = binary(BinaryOp.NE, wrong, descending[i % len(descending)])
            if counts is not None:
                wrong = both(counts, wrong)
            wrong = self._bind("wrong", wrong)
            for n, tile in enumerate(self._tiles):
                a, b = one[n], other[n]
                one[n] = self._bind(tile.name, select(wrong, b, a))
                other[n] = self._bind(tile.name, select(wrong, a, b))

    def _bind(self, name: str, value: Expr) -> Var:
        var = Var(name, value.dtype, index=value.is_index)
        self._build.emit(Bind(var, value))
        return var
