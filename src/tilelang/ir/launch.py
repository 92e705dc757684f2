"""Decisions about a launch on a GPU: layouts, shared memory, and what the host needs to launch it."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from tilelang.errors import CompilerBug, Note
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, Var
from tilelang.ir.timeline import Timeline
from tilelang.layout.layout import Layout
from tilelang.layout.thread_values import Fragment
from tilelang.records import record
from tilelang.saved_schedule import Placement, ScheduleOverrides

Pixels = Sequence[tuple[int, int, int]]
MapRules = Callable[[Sequence[int], Sequence[int], Sequence[int], int, int, int, Pixels], str]


@record(slots=True)
class TensorLayout:
    """The layout of a global tensor within one kernel.

    Attributes:
        variables: One index variable per dimension of the tensor.
        coordinates: The coordinates of the element in memory, as functions of `variables`.
        shape: The extents of the memory, which is row-major; as many elements as the tensor has.
    """

    variables: tuple[Var, ...]
    coordinates: tuple[Expr, ...]
    shape: tuple[Expr, ...]


@record(slots=True, eq=False)
class TensorMap:
    """A tensor map of the copy engine: a tensor as a grid of elements, of which one copy moves a box.

    The host encodes it before the launch, and the kernel takes it as a parameter.

    Attributes:
        var: Its variable in the program, of dtype uint64; only an argument of instructions.
        tensor: A parameter of the function; the map begins at its data.
        dims: Extents in elements, innermost first; expressions of symbols, scalar parameters and constants.
        strides: Bytes from one element to the next, in dimensions 1 and on; one fewer than `dims`.
        box: Elements that one copy moves, per dimension.
        swizzle: Bytes within which 16-byte chunks are permuted in shared memory: 0 (not at all), 32, 64 or 128.
        rules: The machine's requirements: `rules(dims, strides, box, swizzle, itemsize, base, pixels)` returns why no
            such map of a tensor at address `base` exists, or an empty text if it does.
        pixels: For maps that move pixels of an image (im2col mode), per spatial dimension, innermost first: by how much
            the first and the last base pixel differ from the dimension's first and last element, and the step between
            base pixels. The box is then (channels, pixels). Empty for maps that move boxes.
        rounds: Whether elements of tfloat32 are rounded on their way to shared memory.
    """

    var: Var
    tensor: Buffer
    dims: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    box: tuple[int, ...]
    swizzle: int
    rules: MapRules
    pixels: tuple[tuple[int, int, int], ...] = ()
    rounds: bool = False

    def fault(self, dims: Sequence[int], strides: Sequence[int], base: int) -> str:
        """Why no such map of a tensor at this address exists; empty if it does."""
        itemsize = self.tensor.dtype.storage_bytes
        return self.rules(dims, strides, self.box, self.swizzle, itemsize, base, self.pixels)


class WarpSchedule(ABC):
    """A partition of the work of a block over warps with different programs; targets have subclasses.

    Its text is part of `kernel.explain()`.
    """

    __slots__ = ()

    @abstractmethod
    def overrides(self) -> ScheduleOverrides:
        """The overrides by which a user gets this schedule, without placements of loops."""


@record(slots=True)
class LaunchPlan:
    """Decisions about one launch; each field is written by one pass.

    Attributes:
        fragments: Which thread holds which elements of each fragment buffer.
        shared_layouts: Layouts of shared buffers that are not row-major. A layout of fewer dimensions than its buffer
            applies to the last ones; the versions of a tile are consecutive.
        shared_offsets: Offsets of the shared buffers in the block's shared memory, in bytes.
        shared_bytes: Shared memory of a block for buffers of constant shape, in bytes.
        dynamic_shared_offsets: Offsets of shared buffers whose size is only known at the launch, in bytes; after all
            others.
        dynamic_shared_bytes: Shared memory of a block in bytes if there are such buffers, else None.
        conversion_bytes: Shared memory of the tiles through which fragments get another layout, in bytes.
        versions: Number of versions of each shared buffer of a pipeline; the first dimension of the buffer.
        prefetch_loops: Whether pipelines also prefetch by parallel loops that copy; otherwise their tiles have one
            version.
        uniform: Scalars and per-thread arrays whose contents are the same in all threads of the block.
        tensor_maps: Tensor maps that instructions of the body refer to.
        schedule: The partition of the work over warps with different programs; None if all have the same.
        placements: When the statements of each pipelined loop run, in program order; None for one that runs as it is
            written.
        timelines: What the cost model says of software-pipelined loops.
        notes: Notes for `kernel.explain()`, such as why a loop is not pipelined.
        workspace_split: Blocks that split the reduction of a tile and store their sums, for the next launch.
        tiles: How many tiles of the grid the launch computes, row by row, whatever its blocks; the next launch computes
            the others. None: all of them.
        last_wave: Blocks of that launch that share each of them.
        generated: Whether the compiler made the launch, to prepare another one.
        waits_first: Whether the launch begins before those in front of it have ended, and waits for them before it
            accesses any global memory.
        blocks_per_sm: Blocks for which the schedule leaves room on a multiprocessor, unless the user sets how many.
        streamed: Tensors of which threads load each element once.
    """

    fragments: tuple[tuple[Buffer, Fragment], ...] = ()
    shared_layouts: tuple[tuple[Buffer, Layout], ...] = ()
    shared_offsets: tuple[tuple[Buffer, int], ...] = ()
    shared_bytes: int = 0
    dynamic_shared_offsets: tuple[tuple[Buffer, Expr], ...] = ()
    dynamic_shared_bytes: Expr | None = None
    conversion_bytes: int = 0
    versions: tuple[tuple[Buffer, int], ...] = ()
    prefetch_loops: bool = False
    uniform: tuple[Buffer, ...] = ()
    tensor_maps: tuple[TensorMap, ...] = ()
    schedule: WarpSchedule | None = None
    placements: tuple[Placement | None, ...] = ()
    timelines: tuple[Timeline, ...] = ()
    notes: tuple[Note, ...] = ()
    workspace_split: int = 1
    tiles: int | None = None
    last_wave: int = 1
    generated: bool = False
    waits_first: bool = False
    streamed: tuple[Buffer, ...] = ()
    blocks_per_sm: int = 1

    @property
    def overrides(self) -> ScheduleOverrides:
        """The overrides by which a user gets this schedule."""
        chosen = ScheduleOverrides(specialized=False) if self.schedule is None else self.schedule.overrides()
        split, last_wave = (parts if parts > 1 else None for parts in (self.workspace_split, self.last_wave))
        return dataclasses.replace(chosen, loops=self.placements, workspace_split=split, last_wave=last_wave)

    def shared_elements(self, buffer: Buffer) -> int:
        """Elements of memory that a shared buffer occupies, with the padding of its layout."""
        shape = buffer.static_shape
        if shape is None:
            raise CompilerBug(f"shared buffer '{buffer.name}' has a symbolic shape")
        layout = next((layout for laid_out, layout in self.shared_layouts if laid_out is buffer), None)
        if layout is None:
            return math.prod(shape)
        return int(math.prod(shape[: len(shape) - len(layout.shape)]) * math.prod(layout.output_shape))
