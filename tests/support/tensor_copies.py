"""Thread-level programs with TMA copies, and their expected results by an independent formula."""

from collections.abc import Sequence
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np

from tilelang.dtypes import SCALARS
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Var, as_expr
from tilelang.ir.launch import LaunchPlan, TensorMap
from tilelang.targets.nvidia.isa.fence import FENCE_PROXY_ASYNC
from tilelang.targets.nvidia.isa.mbarrier import (
    FENCE_MBARRIER_INIT,
    MBARRIER_ARRIVE,
    MBARRIER_ARRIVE_EXPECT_TX,
    MBARRIER_INIT,
    MBARRIER_WAIT,
)
from tilelang.targets.nvidia.isa.tensor_box import map_fault

HOPPER = "sm_90a"


def halves(*shape: int) -> np.ndarray:
    """Numbers from 1 on."""
    return np.arange(1, 1 + np.prod(shape)).reshape(shape).astype(np.float16)


def tensor_map(
    tensor: Buffer, box: Sequence[int], swizzle: int = 0, dims=None, strides=None, rounds: bool = False
) -> TensorMap:
    """A map of a whole dense tensor, unless told its dims and strides, innermost first."""
    size = tensor.dtype.storage_bytes
    if dims is None:
        dims = tuple(reversed(tensor.shape))
    if strides is None:
        strides, step = [], as_expr(size)
        for extent in dims[:-1]:
            step = step * extent
            strides.append(step)
    var = Var(f"{tensor.name}_map", SCALARS["uint64"])
    dims, strides = (tuple(map(as_expr, each)) for each in (dims, strides))
    return TensorMap(var, tensor, dims, strides, tuple(box), swizzle, map_fault, rounds=rounds)


def plan_of(*maps: TensorMap, **places) -> LaunchPlan:
    return LaunchPlan(tensor_maps=maps, **places)


class Engine:
    """Says in few words what programs with barriers do, on top of a `ThreadProgram`."""

    def __init__(self, program) -> None:
        self.program = program

    def barriers(self, name: str, count: int) -> Buffer:
        return self.program.alloc(name, (count,), "uint64", Scope.BARRIER)

    def init(self, *pairs: tuple[Buffer, int], fence: bool = True) -> None:
        """Thread 0 initializes all of these with so many arrivals, and all threads meet."""
        p = self.program
        with p.branch(p.thread == 0):
            for bar, arrivals in pairs:
                for i in range(bar.static_shape[0]):
                    p.call(MBARRIER_INIT, p.at(bar, i), arrivals)
            if fence:
                p.call(FENCE_MBARRIER_INIT)
                p.call(FENCE_PROXY_ASYNC)
        p.sync()

    @contextmanager
    def one(self, thread: int = 0):
        p = self.program
        with p.branch(p.thread == thread):
            yield

    def announce(self, bar, i, size) -> None:
        self.program.call(MBARRIER_ARRIVE_EXPECT_TX, self.program.at(bar, i), size)

    def arrive(self, bar, i) -> None:
        self.program.call(MBARRIER_ARRIVE, self.program.at(bar, i))

    def wait(self, bar, i, parity) -> None:
        self.program.call(MBARRIER_WAIT, self.program.at(bar, i), parity)

    def fence(self) -> None:
        self.program.call(FENCE_PROXY_ASYNC)


def image_of_box(tensor: np.ndarray, at: Sequence[int], box: Sequence[int], swizzle: int, begin: int) -> np.ndarray:
    """The bytes of shared memory from `begin` on after a load, element by element: an independent formula.

    Args:
        tensor: The outermost dimension first.
        at: Coordinates, the innermost first.
        box: The same.
        swizzle: In bytes.
        begin: Where in shared memory the box begins.
    """
    size = tensor.dtype.itemsize
    pitch = max(box[0] * size, swizzle)  # a row takes all of the span
    image = np.zeros(pitch * int(np.prod(box[1:])), np.uint8)
    for number, index in enumerate(np.ndindex(*reversed(box))):
        where = tuple(i + a for i, a in zip(index, reversed(at), strict=True))
        if all(0 <= w < extent for w, extent in zip(where, tensor.shape, strict=True)):
            value = tensor[where].tobytes()
        else:
            value = bytes(size)
        address = begin + number // box[0] * pitch + number % box[0] * size
        line, chunk, byte = address // 128, address % 128 // 16, address % 16
        lines = {0: 1, 32: 2, 64: 4, 128: 8}[swizzle]  # over which the pattern of chunks repeats
        chunk = chunk ^ (line % lines)
        place = line * 128 + chunk * 16 + byte - begin
        image[place : place + size] = np.frombuffer(value, np.uint8)
    return image


def first_stored(at):
    """Where a box that begins here is stored: the engine stores nothing that begins before a tensor."""
    return tuple(max(0, place) for place in at)


def box_again(array, at, box):
    """What a box brings from an array, stored in one of the same shape: its values, and where they are."""
    loaded = np.zeros(box[::-1], array.dtype)
    of_array, of_box = _common(array.shape, at, box)
    loaded[of_box] = array[of_array]
    of_array, of_box = _common(array.shape, first_stored(at), box)
    values, covered = np.zeros_like(array), np.zeros(array.shape, bool)
    values[of_array], covered[of_array] = loaded[of_box], True
    return SimpleNamespace(values=values, covered=covered)


def _common(shape, at, box):
    """What a box covers of an array, as indices of the array and of the box."""
    places = list(zip(shape, at[::-1], box[::-1], strict=True))
    ends = [(max(0, place), max(0, place, min(size, place + side))) for size, place, side in places]
    within = [(first - place, last - place) for (first, last), (_, place, _) in zip(ends, places, strict=True)]
    return tuple(slice(*end) for end in ends), tuple(slice(*end) for end in within)
