"""`T.copy` between regions of any two scopes, and `T.transpose` of a tile."""

from __future__ import annotations

from dataclasses import field
from typing import TypeGuard

from tilelang.errors import ProgramError
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Expr, int_const
from tilelang.ir.stmt import Stmt, TileMemory, TileOp
from tilelang.layout.thread_values import Fragment
from tilelang.ops.describe import (
    check_extents,
    check_lanes,
    check_memory,
    drop_units,
    matrix_axes,
    operand_text,
    same_extents,
)
from tilelang.records import record


@record(eq=False)
class Copy(TileOp):
    """`dst[...] = src[...]`, converting the dtype.

    Both regions have the same extents once unit extents are dropped; the front end has resolved element positions
    and the alignment of ranks. A global source reads 0 (or its safe value) out of bounds; a global destination drops
    what is out of bounds.

    Attributes:
        src: What is read.
        dst: What is written.
        coalesced_width: Elements per access, if the user sets it.
        layout: Which thread copies which elements, if the user sets it; over the extents without units.
        eviction: Eviction priority of the global side in the L2 cache: "evict_normal", "evict_first" or "evict_last". A
            hint that a target may ignore; None leaves the choice to the compiler.
        cache_policy: The cache policy operand of the machine, if the program has computed it.
        allow_bulk: Whether the copy engine may be used.
        rounds: Whether elements of tfloat32 may arrive rounded, since only gemms read them, which round them anyway.
        is_async: Whether a store may still be in flight after the statement; the program waits explicitly.
        barrier: A transaction barrier that counts the bytes of an asynchronous load; the tile is valid when the phase
            completes. None if the copy is synchronous. If `request` names the copy engine, the statement also announces
            the bytes (expect-tx) to the barrier; otherwise the program does.
        multicast_mask: Bit mask of the blocks of the cluster that receive the load, at the same offset and counted on
            the same barrier in each. None for the executing block only. If `request` names the copy engine, the mask is
            constant: the lowest block of the mask issues the load for all of them, any other block for itself.
        leaders: One of how many threads issues the copy, if the user sets it; None for all that execute the statement.
        part: Which of `parts` equal parts of the tile this block loads when the blocks of a cluster share a multicast
            load; the copy engine's lowering chooses the dimension. None for all of it.
        parts: Number of parts.
    """

    src: Region
    dst: Region
    coalesced_width: int | None = field(default=None, kw_only=True)
    layout: Fragment | None = field(default=None, kw_only=True)
    eviction: str | None = field(default=None, kw_only=True)
    cache_policy: Expr | None = field(default=None, kw_only=True)
    allow_bulk: bool = field(default=True, kw_only=True)
    rounds: bool = field(default=False, kw_only=True)
    is_async: bool = field(default=False, kw_only=True)
    barrier: Region | None = field(default=None, kw_only=True)
    multicast_mask: Expr | None = field(default=None, kw_only=True)
    leaders: int | None = field(default=None, kw_only=True)
    part: Expr | None = field(default=None, kw_only=True)
    parts: int = field(default=1, kw_only=True)

    @property
    def name(self) -> str:
        """Name in messages."""
        return "T.copy" if self.request is None else self.request.name

    @property
    def source_indices(self) -> tuple[Expr, ...]:
        """Expressions that select the elements of the source."""
        return (*self.src.start, *self.src.extent)

    def reads(self) -> tuple[Region, ...]:
        """The source."""
        return (self.src,)

    def writes(self) -> tuple[Region, ...]:
        """The destination. The barrier is not data."""
        return (self.dst,)

    def check(self) -> None:
        """Extents and lanes agree, neither side is a barrier, and `barrier` is one."""
        check_memory(self.name, self.src, self.dst)
        check_extents(self.name, self.src, self.dst)
        check_lanes(self.name, self.src, self.dst)
        if self.barrier is not None:
            _check_counted(self.name, self.src, self.dst, self.barrier)

    def reference(self, memory: TileMemory) -> None:
        """Copies in row-major order and synchronously; undefined elements stay undefined."""
        memory.move(self.src, self.dst)


def is_load(stmt: Stmt) -> TypeGuard[Copy]:
    """Whether a statement copies from global to shared memory."""
    return isinstance(stmt, Copy) and (stmt.src.buffer.scope, stmt.dst.buffer.scope) == (Scope.GLOBAL, Scope.SHARED)


def _check_counted(name: str, src: Region, dst: Region, barrier: Region) -> None:
    """Checks the barrier of an asynchronous load."""
    if barrier.buffer.scope is not Scope.BARRIER or any(int_const(extent) != 1 for extent in barrier.extent):
        raise ProgramError(
            f"{name}: {operand_text(barrier)} and is no single barrier to count the bytes of a copy",
            hint="allocate it with T.alloc_barrier, and select one with an index",
        )
    if src.buffer.scope is not Scope.GLOBAL or dst.buffer.scope is not Scope.SHARED:
        raise ProgramError(
            f"{name}: a barrier counts the bytes of copies from global to shared memory, but this one is from "
            f"'{src.buffer.name}' ({src.buffer.scope.value}) to '{dst.buffer.name}' ({dst.buffer.scope.value})",
            hint="leave the barrier out",
        )


@record(eq=False)
class Transpose(TileOp):
    """`dst[..., j, i] = src[..., i, j]` on regions of equal rank; otherwise on matrices, without further unit extents.

    The whole source is read before the destination is written, so both may be one buffer.
    """

    src: Region
    dst: Region

    @property
    def name(self) -> str:
        """Name in messages."""
        return "T.transpose"

    @property
    def source_indices(self) -> tuple[Expr, ...]:
        """Expressions that select the elements of the source."""
        return (*self.src.start, *self.src.extent)

    def reads(self) -> tuple[Region, ...]:
        """The source."""
        return (self.src,)

    def writes(self) -> tuple[Region, ...]:
        """The destination."""
        return (self.dst,)

    @property
    def axes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The corresponding dimensions of source and destination, before the last two are swapped.

        All other dimensions have extent 1.
        """
        if self._is_stack():
            every = tuple(range(len(self.src.extent)))
            return every, every
        return matrix_axes(self.src), matrix_axes(self.dst)

    def _is_stack(self) -> bool:
        """Whether both regions are batches of matrices of equal rank."""
        a, b = self.src.extent, self.dst.extent
        return len(a) >= 2 and same_extents((*a[:-2], a[-1], a[-2]), b)

    def check(self) -> None:
        """Both sides are matrices, and the extents of one are those of the other swapped."""
        check_memory(self.name, self.src, self.dst)
        check_lanes(self.name, self.src, self.dst)
        if self._is_stack():
            return
        for region in (self.src, self.dst):
            if len(region.extent) < 2 or len(drop_units(region.extent)) > 2:
                raise ProgramError(
                    f"{self.name}: {operand_text(region)}, but a tile of two dimensions is needed",
                    hint="select one with an index: A[i, :, :], or give the destination the shape (..., n, m)",
                )
        # dropping units is the same on both sides: a row (1, n) becomes a column (n, 1)
        if not same_extents(drop_units(self.src.extent)[::-1], drop_units(self.dst.extent)):
            raise ProgramError(
                f"{self.name}: {operand_text(self.src)} but {operand_text(self.dst)}",
                hint="the destination of an (m, n) tile is an (n, m) tile",
            )

    def reference(self, memory: TileMemory) -> None:
        """Moves the elements in transposed order."""
        axes, _ = self.axes
        units = (axis for axis in range(len(self.src.extent)) if axis not in axes)
        memory.move(self.src, self.dst, order=(*units, *axes[:-2], axes[-1], axes[-2]))
