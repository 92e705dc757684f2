"""`T.copy` between regions of any two scopes, and `T.transpose` of a tile."""

from __future__ import annotations

from dataclasses import field

from tilelang.errors import ProgramError
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Expr, int_const
from tilelang.ir.stmt import TileMemory, TileOp
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
        coalesced_width: Elements per access that the user asks for.
        layout: Which thread copies which elements, if the user says so; over the extents without units.
        eviction: How long global memory should stay cached: "evict_normal", "evict_first" or "evict_last". A hint to
            the L2 cache, which a target may ignore; None leaves it to the compiler.
        cache_policy: The value in which the machine takes that hint, where the program has computed it before.
        allow_bulk: Whether a copy engine may do it, which moves whole boxes.
        is_async: Whether a store may still be under way behind its statement: the program itself waits for its end.
        barrier: A barrier that counts the bytes of an asynchronous load: the tile is there once the phase is complete.
            None where the copy is complete when the statement is done. If the user has asked for the copy engine by
            name, the statement announces the bytes to the barrier; otherwise the program does.
        multicast_mask: The blocks of the cluster that a load comes to, one bit each: to the same place, and counted on
            the same barrier, of each. None for the block itself. If the user has asked for the copy engine by name, it
            is a constant: the lowest of these blocks starts the engine for all of them, and the others for themselves.
        leaders: Of how many threads one starts the copy engine, if the user says so; None is all that come here.
        part: Which of `parts` equal parts of the tile is loaded, where other blocks load the others for all; the parts
            lie along whatever dimension suits the copy engine. None for all of it.
        parts: How many there are.
    """

    src: Region
    dst: Region
    coalesced_width: int | None = field(default=None, kw_only=True)
    layout: Fragment | None = field(default=None, kw_only=True)
    eviction: str | None = field(default=None, kw_only=True)
    cache_policy: Expr | None = field(default=None, kw_only=True)
    allow_bulk: bool = field(default=True, kw_only=True)
    is_async: bool = field(default=False, kw_only=True)
    barrier: Region | None = field(default=None, kw_only=True)
    multicast_mask: Expr | None = field(default=None, kw_only=True)
    leaders: int | None = field(default=None, kw_only=True)
    part: Expr | None = field(default=None, kw_only=True)
    parts: int = field(default=1, kw_only=True)

    @property
    def name(self) -> str:
        """The user's name for it."""
        return "T.copy" if self.request is None else self.request.name

    @property
    def source_indices(self) -> tuple[Expr, ...]:
        """What decides which elements of the source are read."""
        return (*self.src.start, *self.src.extent)

    def reads(self) -> tuple[Region, ...]:
        """The source."""
        return (self.src,)

    def writes(self) -> tuple[Region, ...]:
        """The destination. A barrier only counts: its contents are nobody's business."""
        return (self.dst,)

    def check(self) -> None:
        """Extents agree, lanes agree, neither side is a barrier; what counts the bytes is one."""
        check_memory(self.name, self.src, self.dst)
        check_extents(self.name, self.src, self.dst)
        check_lanes(self.name, self.src, self.dst)
        if self.barrier is not None:
            _check_counted(self.name, self.src, self.dst, self.barrier)

    def reference(self, memory: TileMemory) -> None:
        """Elements in row-major order, at once whatever counts them; contents that are undefined stay so."""
        memory.move(self.src, self.dst)


def _check_counted(name: str, src: Region, dst: Region, barrier: Region) -> None:
    """Checks a copy whose bytes a barrier counts."""
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
    """`dst[..., j, i] = src[..., i, j]` on regions of equal rank; else on matrices, without their further unit extents.

    The source is read as a whole before the destination is written, so both may be one buffer.
    """

    src: Region
    dst: Region

    @property
    def name(self) -> str:
        """The user's name for it."""
        return "T.transpose"

    @property
    def source_indices(self) -> tuple[Expr, ...]:
        """What decides which elements of the source are read."""
        return (*self.src.start, *self.src.extent)

    def reads(self) -> tuple[Region, ...]:
        """The source."""
        return (self.src,)

    def writes(self) -> tuple[Region, ...]:
        """The destination."""
        return (self.dst,)

    @property
    def axes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The dimensions of the source and of the destination that belong together, but for the order of the last two.

        The other dimensions have extent 1.
        """
        if self._is_stack():
            every = tuple(range(len(self.src.extent)))
            return every, every
        return matrix_axes(self.src), matrix_axes(self.dst)

    def _is_stack(self) -> bool:
        """Whether both are as many matrices."""
        a, b = self.src.extent, self.dst.extent
        return len(a) >= 2 and same_extents((*a[:-2], a[-1], a[-2]), b)

    def check(self) -> None:
        """Both sides are matrices, one with the extents of the other turned round."""
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
        """The tile turned round."""
        axes, _ = self.axes
        units = (axis for axis in range(len(self.src.extent)) if axis not in axes)
        memory.move(self.src, self.dst, order=(*units, *axes[:-2], axes[-1], axes[-2]))
