"""Loads operands of matrix instructions from shared memory and fragments to registers.

An operand is loaded one step along K at a time. Invariant: elements beyond K are loaded as zero; elements beyond M or N
are arbitrary, since they only contribute to elements of C that do not exist.
"""

from __future__ import annotations

from copy import copy
from typing import Protocol

from tilelang.dtypes import FLOAT32, DType
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Cast, Expr, ExprLike, Load, Reinterpret, Select, binary, conjunction, const
from tilelang.ir.scalar import BinaryOp
from tilelang.layout.layout import Layout
from tilelang.layout.shared_memory import MAX_VECTOR_BYTES
from tilelang.layout.thread_values import Fragment, digit, fragment
from tilelang.lowering.operand_layout import WarpAccess, choose_layout, is_contiguous_in_runs
from tilelang.lowering.regions import ZERO, indices
from tilelang.lowering.registers import Emitter, vector
from tilelang.lowering.value_permutation import ValuePermutation
from tilelang.records import record
from tilelang.targets.machine import Machine


@record
class Share:
    """The part of an operand that a warp needs, as a matrix of rows (along M or N) by K.

    Attributes:
        region: The operand.
        row_axis: The buffer's dimension along M or N.
        k_axis: The buffer's dimension along K.
        rows: Extent of the operand along M or N.
        depth: Its extent along K.
        atom: The fragment of one instruction. Shapes: (its rows, its depth).
        atoms: Instructions of a warp along the rows.
        cover: Rows of all warps together; at least `rows`.
        by_columns: Whether each thread stores columns of several rows, which it has loaded, of a tile in shared memory.
    """

    region: Region
    row_axis: int
    k_axis: int
    rows: int
    depth: int
    atom: Fragment
    atoms: int
    cover: int
    by_columns: bool = False

    @property
    def dtype(self) -> DType:
        """The element dtype."""
        return self.region.dtype

    @property
    def step(self) -> int:
        """Elements along K of one instruction."""
        return self.atom.shape[1]

    @property
    def tile(self) -> Fragment:
        """The layout of one step of a warp: its instructions in sequence."""
        height, step = self.atom.shape
        value = [*self.atom.value, digit(self.atoms, height, 0)]
        return fragment((self.atoms * height, step), self.atom.thread, value)

    @property
    def _last(self) -> int:
        return self.region.buffer.rank - 1

    @property
    def transposes(self) -> bool:
        """Whether rows, not K, are contiguous in memory."""
        return self._last == self.row_axis

    @property
    def width(self) -> int:
        """Elements per lane that are contiguous in registers and in memory."""
        if self._last not in (self.row_axis, self.k_axis) or not self.atom.value:
            return 1
        first = self.atom.value[0]
        run = first.size if first.stride == ((1, 0) if self.transposes else (0, 1)) else 1
        return min(run, MAX_VECTOR_BYTES // self.dtype.numpy.itemsize)

    def at(self, row: Expr, k: Expr) -> tuple[Expr, ...]:
        """The indices of an element in the buffer."""
        return indices(self.region, (row, k), (self.row_axis, self.k_axis))

    def layout(self, machine: Machine) -> Layout | None:
        """A layout of the operand in shared memory without bank conflicts; None for row-major, or if it is fixed."""
        shape = self.region.buffer.static_shape
        if shape is None or {self.row_axis, self.k_axis} != {self._last - 1, self._last}:
            return None
        height, length = shape[-2:]
        return choose_layout((height, length), self.dtype, self.accesses(height, length), machine)

    def accesses(self, height: int, length: int) -> list[WarpAccess]:
        """The shared memory access of a warp, given rows of memory and elements per row."""
        table = self.tile.table[:, :: self.width]
        row, column = (1, 0) if self.transposes else (0, 1)
        size = self.width * self.dtype.numpy.itemsize
        lanes = (table[:, v] for v in range(table.shape[1]))
        return [WarpAccess(places[:, row] % height, places[:, column] % length, size) for places in lanes]


class Operand(Protocol):
    """An operand whose registers are loaded step by step.

    With two sets of registers, a step can be loaded while the instructions of the previous one read theirs.
    """

    def fetch(self, step: Expr, *, tail: bool) -> None:
        """Loads a step to registers; `tail`: K ends within the step."""

    def registers(self, atom: Expr, step: Expr) -> Region:
        """The registers of one instruction, after `fetch`."""


class ElementOperand:
    """An operand in shared memory, loaded by each lane with ordinary loads."""

    def __init__(
        self, emit: Emitter, share: Share, lane: Expr, origin: ExprLike, layout: Layout | None, sets: int
    ) -> None:
        """Allocates registers and computes what does not change from step to step.

        Args:
            emit: Receives statements.
            share: The part that the warp needs.
            lane: The executing lane.
            origin: The warp's first row.
            layout: The layout of the buffer in shared memory.
            sets: Sets of registers.
        """
        self._emit, self._share, self._lane, self._origin = emit, share, lane, origin
        self._name = share.region.buffer.name
        self._count, self._sets = share.tile.values, sets
        self._registers = emit.registers(f"{self._name}_r", sets * self._count, share.dtype)
        self._is_exact = False
        whole = not share.transposes or share.rows % share.width == 0
        self._width = share.width if whole and is_contiguous_in_runs(share.region, layout, share.width) else 1
        self._start = self._begin(layout)

    def _begin(self, layout: Layout | None) -> tuple[Expr, Expr] | None:
        """Row and k of the lane's first element, computed before the first step if all steps use them."""
        return self._lane_start()

    def _lane_start(self) -> tuple[Expr, Expr]:
        """Row and k of the lane's first element."""
        return self._bind(self._name, *self._share.tile.coordinates(self._lane, 0))

    def _bind(self, name: str, row: ExprLike, k: ExprLike) -> tuple[Expr, Expr]:
        share, emit = self._share, self._emit
        return (
            emit.bind(f"{name}_row", self._origin + row, share.cover),
            emit.bind(f"{name}_k", k, share.step),
        )

    def loading_to(self, registers: Buffer) -> ElementOperand:
        """The operand with other registers, of one step, to which elements are loaded as they are."""
        other = copy(self)
        other._registers, other._sets, other._is_exact = registers, 1, True
        return other

    def fetch(self, step: Expr, *, tail: bool) -> None:
        """Loads the registers of all instructions of a step."""
        self._load_elements(step, tail=tail)

    def _rounded(self, value: Expr) -> Expr:
        return value if self._is_exact else rounded(value)

    def _first(self, step: Expr) -> Expr:
        """The first register of a step."""
        return step % self._sets * self._count

    def _inside(self, row: Expr, last: int) -> Expr:
        """The row, clamped to the operand."""
        short = self._emit.short(row)
        if self._share.cover == self._share.rows:
            return short
        return self._emit.short(binary(BinaryOp.MIN, short, last))

    def fetch_atom(self, atom: Expr, step: Expr) -> None:
        """Loads the registers of one instruction of a whole step."""
        values = self._share.atom.values
        self._load_elements(step, first=atom * values, count=values)

    def _load_elements(
        self, step: Expr, *, tail: bool = False, first: Expr = ZERO, count: int | None = None
    ) -> None:
        """Loads values of a step from one on, all by default; `tail`: K ends within the step."""
        share, emit = self._share, self._emit
        row, k = self._start or self._lane_start()
        width = 1 if tail else self._width
        dtype = vector(share.dtype, width)

        def load(group: Expr) -> None:
            value_of_lane = first + group * width
            row_of_value, k_of_value = share.tile.coordinates(0, value_of_lane)
            along_k = emit.short(k + k_of_value + step * share.step)
            last = share.rows - (width if share.transposes else 1)
            at = share.at(self._inside(row + row_of_value, last), along_k)
            value = self._rounded(Load(share.region.buffer, at, dtype))
            if tail:
                value = Select(along_k < share.depth, value, const(0, dtype), dtype)
            emit.store(self._registers, self._first(step) + value_of_lane, value)

        emit.loop("v", (count or self._count) // width, load)

    def registers(self, atom: Expr, step: Expr) -> Region:
        """The registers of one instruction."""
        values = self._share.atom.values
        return self._emit.part(self._registers, self._first(step) + atom * values, values)


class FragmentOperand:
    """An operand in a fragment; used in place if its registers are in the order of the instruction."""

    def __init__(
        self, emit: Emitter, share: Share, lane: Expr, origin: Expr, order: ValuePermutation, held: Buffer, sets: int
    ) -> None:
        """Determines whether values must be moved.

        Args:
            emit: Receives statements.
            share: The part that the warp needs.
            lane: The executing lane.
            origin: The warp's first row.
            order: The layout of the fragment.
            held: The registers of the fragment.
            sets: Sets of registers for moved values.
        """
        self._emit, self._share, self._order, self._held, self._sets = emit, share, order, held, sets
        row, self._k = share.tile.coordinates(lane, 0)
        self._row = origin + row
        direct = order.keeps_runs(share.atom.values) and share.depth % share.step == 0 and share.dtype != "tfloat32"
        count = share.tile.values
        self._moved = None if direct else emit.registers(f"{share.region.buffer.name}_r", sets * count, share.dtype)

    @property
    def moves(self) -> bool:
        """Whether instructions read other registers than those of the fragment."""
        return self._moved is not None

    @property
    def array(self) -> Region:
        """All registers of the operand."""
        held = self._held if self._moved is None else self._moved
        return Region(held, (ZERO,), held.shape)

    def _place(self, row: ExprLike, k: ExprLike) -> Expr:
        coordinate: list[ExprLike] = [0] * self._share.region.buffer.rank
        coordinate[self._share.row_axis], coordinate[self._share.k_axis] = row, k
        return self._emit.short(self._order.index(*coordinate))

    def fetch(self, step: Expr, *, tail: bool) -> None:
        """Moves the values of a step to the order of the instruction, if needed."""
        share, emit, moved = self._share, self._emit, self._moved
        if moved is None:
            return

        def move(v: Expr) -> None:
            row, k = share.tile.coordinates(0, v)
            along_k = k + step * share.step
            value = rounded(emit.load(self._held, self._place(row, along_k)))
            inside = [self._k + along_k < share.depth] if tail else []
            # moved values may be undefined beyond the rows, except copies of a single row, as C has copies of its sums
            if share.cover > share.rows > 1 and share.dtype == "tfloat32":
                inside.append(self._row + row < share.rows)
            if inside:
                value = Select(emit.short(conjunction(inside)), value, const(0, share.dtype), share.dtype)
            emit.store(moved, self._first(step) + v, value)

        emit.loop("v", share.tile.values, move)

    def _first(self, step: Expr) -> Expr:
        """The first register of a step."""
        return step % self._sets * self._share.tile.values

    def registers(self, atom: Expr, step: Expr) -> Region:
        """The registers of one instruction."""
        share = self._share
        if self._moved is not None:
            return self._emit.part(self._moved, self._first(step) + atom * share.atom.values, share.atom.values)
        first = self._place(atom * share.atom.shape[0], step * share.step)
        return self._emit.part(self._held, first, share.atom.values)


def rounded(value: Expr) -> Expr:
    """Elements rounded to tf32 if they are of it: matrix instructions truncate them, others multiply all their bits."""
    dtype = value.dtype
    return Cast(Reinterpret(value, vector(FLOAT32, dtype.lanes)), dtype) if dtype.is_tf32 else value
