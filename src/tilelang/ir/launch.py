"""What passes decide about a launch on a GPU and hand on: where tiles live, and what the host needs to start it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tilelang.errors import CompilerBug, Note
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Expr, Var
from tilelang.layout.layout import Layout
from tilelang.layout.thread_values import Fragment
from tilelang.records import record

Pixels = Sequence[tuple[int, int, int]]
MapRules = Callable[[Sequence[int], Sequence[int], Sequence[int], int, int, int, Pixels], str]


@record(slots=True, eq=False)
class TensorMap:
    """How the copy engine of a GPU sees a tensor: as a grid of elements out of which it moves boxes.

    The host encodes it before the launch, and the kernel takes it as a parameter.

    Attributes:
        var: Its name in the program, of dtype uint64; instructions take it as an argument, nothing computes with it.
        tensor: A parameter of the function; the map begins at its data.
        dims: Extents in elements, innermost first; expressions of symbols, scalar parameters and constants.
        strides: Bytes from one element to the next, in dimensions 1 and on; one fewer than `dims`.
        box: Elements that one copy moves, per dimension.
        swizzle: Bytes within which 16-byte chunks are permuted in shared memory: 0 (not at all), 32, 64 or 128.
        rules: What the machine demands of maps: `rules(dims, strides, box, swizzle, itemsize, base, pixels)` says in a
            few words why there is no such map of a tensor at address `base`; nothing if there is.
        pixels: For maps that move pixels of an image (im2col mode), per spatial dimension, innermost first: by how much
            the first and the last base pixel differ from the dimension's first and last element, and the step between
            base pixels. The box is then (channels, pixels). Empty for maps that move boxes.
    """

    var: Var
    tensor: Buffer
    dims: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    box: tuple[int, ...]
    swizzle: int
    rules: MapRules
    pixels: tuple[tuple[int, int, int], ...] = ()

    def fault(self, dims: Sequence[int], strides: Sequence[int], base: int) -> str:
        """Why there is no such map with these numbers, of a tensor at this address; empty if there is."""
        itemsize = self.tensor.dtype.storage_bytes
        return self.rules(dims, strides, self.box, self.swizzle, itemsize, base, self.pixels)


class WarpSchedule:
    """How warps of a block share its work, where their programs differ: targets have records of their own for it.

    Its text is what `kernel.explain()` shows.
    """

    __slots__ = ()


@record(slots=True)
class LaunchPlan:
    """The decisions about one launch; each field is written by one pass.

    Attributes:
        fragments: Which thread holds which elements of each fragment buffer.
        shared_layouts: Where elements of a shared buffer lie, for those that are not row-major. A layout of fewer
            dimensions than its buffer applies to the last ones, versions of a tile lying one after another.
        shared_offsets: Where each shared buffer begins in the block's shared memory, in bytes.
        shared_bytes: Shared memory of a block for buffers of constant shape, in bytes.
        shared_tail: Where shared buffers begin whose size is known at the launch, in bytes; behind all others.
        shared_end: Shared memory of a block, in bytes, if there are such buffers.
        versions: How many versions a pipeline keeps of each shared buffer that it fills ahead; they are the buffer's
            first dimension.
        loops_ahead: Whether pipelines run parallel loops that copy ahead; without, their tiles need one version each.
        uniform: Scalars and arrays of threads that belong to the block's own program: their contents are the same in
            all threads.
        tensor_maps: Those that instructions of the body name.
        schedule: How warps with different programs share the work; None where all have the same.
        notes: What passes want to tell whoever asks, such as why a loop is not pipelined.
    """

    fragments: tuple[tuple[Buffer, Fragment], ...] = ()
    shared_layouts: tuple[tuple[Buffer, Layout], ...] = ()
    shared_offsets: tuple[tuple[Buffer, int], ...] = ()
    shared_bytes: int = 0
    shared_tail: tuple[tuple[Buffer, Expr], ...] = ()
    shared_end: Expr | None = None
    versions: tuple[tuple[Buffer, int], ...] = ()
    loops_ahead: bool = False
    uniform: tuple[Buffer, ...] = ()
    tensor_maps: tuple[TensorMap, ...] = ()
    schedule: WarpSchedule | None = None
    notes: tuple[Note, ...] = ()

    def shared_elements(self, buffer: Buffer) -> int:
        """How many elements of memory a shared buffer takes, gaps of its layout included."""
        shape = buffer.static_shape
        if shape is None:
            raise CompilerBug(f"shared buffer '{buffer.name}' has a symbolic shape")
        layout = next((layout for laid_out, layout in self.shared_layouts if laid_out is buffer), None)
        if layout is None:
            return math.prod(shape)
        return int(math.prod(shape[: len(shape) - len(layout.shape)]) * math.prod(layout.output_shape))
