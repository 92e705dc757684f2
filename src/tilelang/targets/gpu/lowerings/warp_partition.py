"""Partition of the tile of a gemm over the warps of a block.

Takes the tile's extents, the shape of the mma instruction and the user's policy; gives a `WarpPartition` and the
fragments of the operands under it. Invariant: every warp executes the same number of mma instructions; the tile is
padded to whole instructions, and warps without work of their own repeat that of others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from tilelang.errors import ResourceError
from tilelang.layout.digits import Mode
from tilelang.layout.thread_values import Fragment, digit, fragment
from tilelang.ops.gemm import GemmWarpPolicy
from tilelang.records import record


class MatrixAtom(Protocol):
    """An mma instruction, of a warp or of a warp group that is treated as one."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """M, N and K."""

    @property
    def a(self) -> Fragment:
        """The fragment of A. Shapes: (M, K)."""

    @property
    def c(self) -> Fragment:
        """The fragment of C. Shapes: (M, N)."""


class WarpAtom(MatrixAtom, Protocol):
    """A matrix instruction with both operands in registers."""

    @property
    def b(self) -> Fragment:
        """The fragment of B. Shapes: (K, N)."""


@record(slots=True)
class WarpPartition:
    """The numbers of warps along each dimension of the tile, and of instructions per warp.

    Warps are numbered along M first, then along N, then replicas.

    Attributes:
        rows: Warps along M.
        columns: Warps along N.
        copies: Replicas: warps that do the same work.
        row_atoms: Instructions of a warp along M.
        column_atoms: Instructions of a warp along N.
    """

    rows: int
    columns: int
    copies: int
    row_atoms: int
    column_atoms: int

    def accumulator(self, atom: MatrixAtom, m: int, n: int) -> Fragment:
        """The fragment of C. Shapes: (M, N)."""
        height, width, _ = atom.shape
        thread = [
            *atom.c.thread,
            digit(self.rows, self.row_atoms * height, 0),
            digit(self.columns, 0, self.column_atoms * width),
            digit(self.copies, 0, 0),
        ]
        value = [*atom.c.value, digit(self.column_atoms, 0, width), digit(self.row_atoms, height, 0)]
        return _with_copies(fragment((m, n), thread, value))

    def left(self, part: Fragment, m: int, k: int) -> Fragment:
        """The fragment of A, given that of one instruction: warps along N hold the same rows. Shapes: (M, K)."""
        height, depth = part.shape
        thread = [
            *part.thread,
            digit(self.rows, self.row_atoms * height, 0),
            digit(self.columns * self.copies, 0, 0),
        ]
        # in the order of an accumulator's values, of which A is often made
        value = [*part.value, digit(-(-k // depth), 0, depth), digit(self.row_atoms, height, 0)]
        return _with_copies(fragment((m, k), thread, value))

    def right(self, atom: WarpAtom, n: int, k: int) -> Fragment:
        """The fragment of B, transposed: warps along M hold the same columns. Shapes: (N, K)."""
        _, width, depth = atom.shape
        thread = [
            *atom.b.thread,
            digit(self.rows, 0, 0),
            digit(self.columns, self.column_atoms * width, 0),
            digit(self.copies, 0, 0),
        ]
        value = [*atom.b.value, digit(-(-k // depth), 0, depth), digit(self.column_atoms, width, 0)]
        return _with_copies(fragment((n, k), thread, value))


def _with_copies(tile: Fragment) -> Fragment:
    """A fragment in which the padding of a single row, or column, is a replica of it.

    Operands beyond the tile are loaded from inside of it.
    """
    idle = (0,) * len(tile.shape)

    def turned(modes: tuple[Mode, ...]) -> list[Mode]:
        moving = [any(s and extent > 1 for s, extent in zip(m.stride, tile.shape, strict=True)) for m in modes]
        return [m if moves else Mode(m.size, idle) for m, moves in zip(modes, moving, strict=True)]

    return fragment(tile.shape, turned(tile.thread), turned(tile.value))


def held(tile: Fragment) -> Fragment:
    """The fragment with every element once per thread."""
    return fragment(tile.shape, tile.thread, [mode for mode in tile.value if not mode.is_broadcast])


def partition(m: int, n: int, atom: WarpAtom, threads: int, policy: GemmWarpPolicy, warp_size: int) -> WarpPartition:
    """The partition of an (M, N) tile over warps.

    FullRow gives as many warps as possible rows of their own and splits columns over the rest; FullCol is the converse.
    Square minimizes the work per warp, then the operands to load.

    Raises:
        ResourceError: The threads are no whole number of warps.
    """
    if threads % warp_size or not threads:
        below = threads // warp_size * warp_size
        fitting = [count for count in (below, below + warp_size) if count]
        raise ResourceError(
            f"T.gemm: {threads} threads are no whole number of warps of {warp_size}, among which "
            f"GemmWarpPolicy.{policy.name} splits the tile",
            hint=f"in T.Kernel write {' or '.join(f'threads={count}' for count in fitting)}",
        )
    height, width, _ = atom.shape
    tall, wide = -(-m // height), -(-n // width)  # instructions along each side

    def cost(split: WarpPartition) -> tuple[int, ...]:
        work = split.row_atoms * split.column_atoms
        loads = split.row_atoms * height + split.column_atoms * width
        if policy is GemmWarpPolicy.FullRow:
            return (-split.rows, work, loads)
        if policy is GemmWarpPolicy.FullCol:
            return (-split.columns, work, loads)
        return (work, loads, -split.rows)

    return min(_splits(threads // warp_size, tall, wide), key=cost)


def _splits(warps: int, tall: int, wide: int) -> Iterator[WarpPartition]:
    """All partitions in which every warp along a dimension has own work."""
    for rows in range(1, min(warps, tall) + 1):
        for columns in range(1, min(warps // rows, wide) + 1):
            if warps % (rows * columns) == 0:
                copies = warps // (rows * columns)
                yield WarpPartition(rows, columns, copies, -(-tall // rows), -(-wide // columns))


def placed(tile: Fragment, axes: tuple[int, int], shape: tuple[int, ...]) -> Fragment:
    """A fragment of a matrix as one of its buffer: rows and columns along the given dimensions."""

    def turned(mode: Mode) -> Mode:
        stride = [0] * len(shape)
        for axis, step in zip(axes, mode.stride, strict=True):
            stride[axis] = step
        return Mode(mode.size, tuple(stride))

    return fragment(shape, [turned(mode) for mode in tile.thread], [turned(mode) for mode in tile.value])
