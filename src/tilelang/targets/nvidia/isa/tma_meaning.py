"""The meaning of TMA copies for the simulator, in terms of `isa.simulated.Warp`; the instructions are in `isa.tma`.

Takes the operands of an instruction, begins a transfer for every executing lane. Invariant: a transfer to shared memory
completes at the barrier that counts its bytes, one from there in the open group of its thread, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any

import numpy as np

from tilelang.dtypes import DType
from tilelang.errors import MisalignedAccess, OutOfBounds, SimulationError
from tilelang.isa.simulated import Pieces, Pointer, TensorMapView, Transfer, Warp
from tilelang.records import record
from tilelang.targets.gpu.isa.lanes import integers
from tilelang.targets.nvidia.isa.mbarrier import signaled
from tilelang.targets.nvidia.isa.tensor_box import (
    BOX_ALIGNMENT,
    CHUNK_BYTES,
    MAX_OFFSET,
    pixel_pieces,
    shared_pieces,
    tensor_pieces,
)

_INTEGERS = ("int32", "uint32", "int64", "uint64")
# Source: PTX ISA, "cp.reduce.async.bulk", table of operations and types
_REDUCED: dict[str, tuple[str, ...]] = {
    "add": (*_INTEGERS, "float32", "float64", "float16", "bfloat16"),
    "min": (*_INTEGERS, "float16", "bfloat16"),
    "max": (*_INTEGERS, "float16", "bfloat16"),
    "and": _INTEGERS,
    "or": _INTEGERS,
    "xor": _INTEGERS,
}
REDUCTIONS = tuple(_REDUCED)
_REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "min": np.fmin,
    "max": np.fmax,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def reduces(op: str, dtype: DType) -> bool:
    """Whether TMA reduces elements of a dtype into a tensor by an operation."""
    return str(dtype) in _REDUCED.get(op, ())


# -- stores: groups of each thread ---------------------------------------------------------------------------------
@record(frozen=False)
class _Groups:
    """The stores of one thread.

    Attributes:
        open: Those of no group yet.
        closed: The committed groups for whose completion the thread has not waited yet, oldest first.
        read: For how many of these, the oldest, the thread has waited until their sources were read.
    """

    open: list[Transfer] = field(default_factory=list)
    closed: list[list[Transfer]] = field(default_factory=list)
    read: int = 0


def _groups(warp: Warp, lane: int) -> _Groups:
    groups: dict[tuple[int, int], _Groups] = warp.state("bulk groups", dict)
    return groups.setdefault((warp.index, lane), _Groups())


def commit(warp: Warp) -> None:
    """Closes the open group of each thread."""
    for lane in _lanes(warp):
        groups = _groups(warp, lane)
        groups.closed.append(groups.open)
        groups.open = []


def wait(pending: int, read: bool) -> Callable[[Warp], None]:
    """The wait for all groups of each thread but the newest: until they were read, or until they have ended."""
    def wait(warp: Warp) -> None:
        for lane in _lanes(warp):
            groups = _groups(warp, lane)
            done = max(0, len(groups.closed) - pending)
            for transfer in (t for group in groups.closed[groups.read if read else 0 : done] for t in group):
                warp.acquire(transfer.fetch() if read else transfer.complete(), warp.lane == lane)
            if read:
                groups.read = max(groups.read, done)
            else:
                del groups.closed[:done]
                groups.read = max(0, groups.read - done)

    return wait


# -- meanings ------------------------------------------------------------------------------------------------------
def _lanes(warp: Warp) -> list[int]:
    lanes: list[int] = np.flatnonzero(warp.active).tolist()
    return lanes


def _at(view: TensorMapView, coordinates: tuple[np.ndarray, ...], lane: int, what: str) -> tuple[int, ...]:
    """Where a lane's box begins, the innermost coordinate first."""
    found = tuple(int(c[lane]) for c in coordinates)
    for value in found:
        if not -(1 << 31) <= value < 1 << 31:
            raise SimulationError(f"{what}: coordinate {value} does not fit 32 bits")
    if found[0] * view.itemsize % CHUNK_BYTES:  # an H200 traps, with every swizzle
        raise MisalignedAccess(
            f"{what}: a box of '{view.tensor.name}' begins at element {found[0]} of a row, which is byte "
            f"{found[0] * view.itemsize} and no multiple of {CHUNK_BYTES}",
            hint=f"let boxes begin at multiples of {CHUNK_BYTES} bytes of a row, or copy with T.copy",
        )
    return found


def _offsets(values: tuple[np.ndarray, ...], lane: int, what: str) -> tuple[int, ...]:
    """By how much a lane's pixels lie after base pixels, along the innermost dimension first."""
    found = tuple(int(value[lane]) for value in values)
    for value in found:
        if not 0 <= value <= MAX_OFFSET:
            raise SimulationError(f"{what}: pixels lie 0 to {MAX_OFFSET} elements from base pixels, not {value}")
    return found


def _begin(warp: Warp, pointer: Pointer, lane: int, alignment: int, what: str) -> int:
    """The address in shared memory that a lane names."""
    address = int(warp.shared_address(pointer)[lane])
    if address % alignment:
        raise MisalignedAccess(
            f"{what}: '{pointer.buffer.name}' is accessed at byte {address} of shared memory, which is no multiple of "
            f"{alignment}",
            hint=f"let what is copied begin at multiples of {alignment} bytes",
        )
    return address


def _check_rank(view: TensorMapView, rank: int, what: str) -> None:
    if len(view.dims) != rank:
        raise SimulationError(f"{what}: the map of '{view.tensor.name}' has {len(view.dims)} dimensions")


def _ranks(mask: int, what: str) -> Iterator[int]:
    if not 0 < mask < 1 << 16:
        raise SimulationError(f"{what}: the mask {mask:#x} names no blocks of a cluster")
    yield from (rank for rank in range(16) if mask >> rank & 1)


def tensor_load(rank: int, multicast: bool, pixels: bool = False) -> Callable[..., None]:
    """The copy of a box, or of pixels, to shared memory, of one block or of several."""
    what = f"cp.async.bulk.tensor.{rank}d" + ".im2col" * pixels
    offsets = rank - 2 if pixels else 0

    def simulate(warp: Warp, dst: Pointer, view: TensorMapView, barrier: Pointer, *operands: Any) -> None:
        _check_rank(view, rank, what)
        if bool(view.pixels) != pixels:
            kinds = {False: "boxes", True: "pixels"}
            raise SimulationError(f"{what}: the map of '{view.tensor.name}' is one of {kinds[not pixels]}")
        values = tuple(integers(warp, operand) for operand in operands)
        for lane in _lanes(warp):
            at = _at(view, values[:rank], lane, what)
            if pixels:
                source = pixel_pieces(view, at, _offsets(values[rank : rank + offsets], lane, what))
            else:
                source = tensor_pieces(view, at)
            destinations = [warp]
            if multicast:
                ranks = _ranks(int(values[rank + offsets][lane]), what)
                destinations = [warp.in_block(r, warp.lane == lane, until_barrier=False) for r in ranks]
            for there in destinations:
                address = _begin(there, dst, lane, BOX_ALIGNMENT, what)
                target = Pieces(dst.buffer, shared_pieces(view, address, source.size), source.size)
                _load(there, lane, source, target, barrier, what)

    return simulate


def _load(warp: Warp, lane: int, source: Pieces, target: Pieces, barrier: Pointer, what: str) -> None:
    """Begins a copy to shared memory whose bytes a barrier counts."""
    counted = signaled(warp, barrier, lane, what)
    counted.add_transfer(len(target.starts) * target.size, warp.transfer(lane, source, target, agent=counted))


def tensor_store(rank: int, op: str | None) -> Callable[..., None]:
    """The copy, or the reduction by an operation, of a box to a tensor."""
    what = f"cp.{'async' if op is None else 'reduce.async'}.bulk.tensor.{rank}d"

    def simulate(warp: Warp, view: TensorMapView, src: Pointer, *operands: Any) -> None:
        _check_rank(view, rank, what)
        values = tuple(integers(warp, operand) for operand in operands[:rank])
        update = None if op is None else _update(op, view.tensor.dtype, what)
        for lane in _lanes(warp):
            at = _at(view, values, lane, what)
            if min(at) < 0:  # Source: CUDA C++ Programming Guide, "Tensor Memory Access"; an H200 traps
                raise OutOfBounds(
                    f"{what}: a box that is stored in '{view.tensor.name}' begins at {at[::-1]}; it may end outside of "
                    "the tensor, but not begin before it",
                    hint="let boxes that are stored begin at 0 or later",
                )
            target = tensor_pieces(view, at, elements=op is not None)
            address = _begin(warp, src, lane, BOX_ALIGNMENT, what)
            source = Pieces(src.buffer, shared_pieces(view, address, target.size), target.size)
            _store(warp, lane, source, target, update)

    return simulate


def _store(
    warp: Warp,
    lane: int,
    source: Pieces,
    target: Pieces,
    update: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
) -> None:
    """Begins a copy from shared memory, in the open group of its thread."""
    agent = ("bulk groups", warp.index, lane)
    _groups(warp, lane).open.append(warp.transfer(lane, source, target, agent=agent, update=update))


def _update(op: str, dtype: DType, what: str) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    if not reduces(op, dtype):
        raise SimulationError(f"{what}: no reduction by '{op}' of {dtype!s}")

    def update(old: np.ndarray, moved: np.ndarray) -> np.ndarray:
        reduced = _REDUCTIONS[op](old.view(dtype.numpy), moved.view(dtype.numpy)).astype(dtype.numpy)
        return np.ascontiguousarray(reduced).view(np.uint8)

    return update


def _run(begin: int, count: int) -> np.ndarray:
    return begin + np.arange(0, count, CHUNK_BYTES)


def _global_begin(pointer: Pointer, lane: int, count: int, what: str) -> int:
    """Where a run of bytes begins in a global buffer."""
    begin = int(pointer.offset[lane]) * pointer.buffer.dtype.storage_bytes
    for value, name in ((begin, f"the place in '{pointer.buffer.name}'"), (count, "the number of bytes")):
        if value % CHUNK_BYTES:
            raise MisalignedAccess(f"{what}: {name} is {value}, which is no multiple of {CHUNK_BYTES}")
    if count < 0:
        raise SimulationError(f"{what}: {count} bytes")
    return begin


def bulk_load(warp: Warp, dst: Pointer, src: Pointer, count: Any, barrier: Pointer, *policy: Any) -> None:
    """The copy of a run of bytes to shared memory."""
    what, counts = "cp.async.bulk", integers(warp, count)
    for lane in _lanes(warp):
        size = int(counts[lane])
        source = Pieces(src.buffer, _run(_global_begin(src, lane, size, what), size), CHUNK_BYTES)
        target = Pieces(dst.buffer, _run(_begin(warp, dst, lane, CHUNK_BYTES, what), size), CHUNK_BYTES)
        _load(warp, lane, source, target, barrier, what)


def bulk_store(warp: Warp, dst: Pointer, src: Pointer, count: Any, *policy: Any) -> None:
    """The copy of a run of bytes from shared memory."""
    what, counts = "cp.async.bulk", integers(warp, count)
    for lane in _lanes(warp):
        size = int(counts[lane])
        target = Pieces(dst.buffer, _run(_global_begin(dst, lane, size, what), size), CHUNK_BYTES)
        source = Pieces(src.buffer, _run(_begin(warp, src, lane, CHUNK_BYTES, what), size), CHUNK_BYTES)
        _store(warp, lane, source, target)
