"""The copy engine: boxes of tensors and runs of bytes between global and shared memory, started by single threads.

Gives `tma_load`, `tma_store`, `tma_reduce`, `bulk_load`, `bulk_store`, `TMA_STORE_COMMIT`, `tma_store_wait`,
`TMA_PREFETCH_MAP` and `l2_policy`. Every executing thread starts a copy of its own. Invariant: a load's bytes are there
once the phase of its barrier is complete, on which they are counted, those out of bounds too, which are zero; what a
store reads may change after a wait for its group by the thread that started it. Engines see memory through the
asynchronous proxy (`isa.nvidia.fence`).

A map is a parameter of the kernel, `const __grid_constant__ tl_tensor_map`; coordinates are in elements, the innermost
first, and may lie out of bounds.

Source: PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy: Bulk copy" and "Tensor copy".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from tilelang.dtypes import SCALARS, DType
from tilelang.errors import MisalignedAccess, NoLowering, SimulationError
from tilelang.isa.instruction import Effect, Instruction, Timeline
from tilelang.isa.intrinsic import Helper
from tilelang.isa.machine import LANES, Pieces, Pointer, TensorMapView, Transfer, Warp
from tilelang.isa.nvidia.lanes import integers
from tilelang.isa.nvidia.mbarrier import signaled
from tilelang.isa.nvidia.tensor_box import BOX_ALIGNMENT, CHUNK_BYTES, MAX_RANK, shared_pieces, tensor_pieces
from tilelang.target import Feature

_SOURCE = "PTX ISA, 'Data Movement and Conversion Instructions: {}'"
_SHARED = '"r"((unsigned)__cvta_generic_to_shared({}))'

TENSOR_MAP = Helper(
    "tl_tensor_map",
    """\
// What the copy engine knows of a tensor; the host writes it.
struct alignas(64) tl_tensor_map { unsigned long long words[16]; };
""",
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
_FOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "min": np.fmin,
    "max": np.fmax,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def reduces(op: str, dtype: DType) -> bool:
    """Whether the engine folds elements of a dtype into a tensor by an operation."""
    return str(dtype) in _REDUCED.get(op, ())


# -- stores: groups of each thread ---------------------------------------------------------------------------------
@dataclass
class _Groups:
    """The stores of one thread: those of no group yet, and the groups that have not all been written, oldest first."""

    open: list[Transfer] = field(default_factory=list)
    closed: list[list[Transfer]] = field(default_factory=list)


def _groups(warp: Warp, lane: int) -> _Groups:
    known: dict[tuple[int, int], _Groups] = warp.state("bulk groups", dict)
    return known.setdefault((warp.index, lane), _Groups())


def _commit(warp: Warp) -> None:
    for lane in _lanes(warp):
        groups = _groups(warp, lane)
        groups.closed.append(groups.open)
        groups.open = []


def _wait(pending: int, read: bool) -> Callable[[Warp], None]:
    def wait(warp: Warp) -> None:
        for lane in _lanes(warp):
            groups = _groups(warp, lane)
            done = groups.closed[: max(0, len(groups.closed) - pending)]
            for transfer in (t for group in done for t in group):
                warp.acquire(transfer.fetch() if read else transfer.land(), np.arange(LANES) == lane)
            if not read:
                del groups.closed[: len(done)]

    return wait


# -- meanings ------------------------------------------------------------------------------------------------------
def _lanes(warp: Warp) -> list[int]:
    lanes: list[int] = np.flatnonzero(warp.active).tolist()
    return lanes


def _at(coordinates: tuple[np.ndarray, ...], lane: int, what: str) -> tuple[int, ...]:
    found = tuple(int(c[lane]) for c in coordinates)
    for value in found:
        if not -(1 << 31) <= value < 1 << 31:
            raise SimulationError(f"{what}: coordinate {value} does not fit 32 bits")
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
    if len(view.box) != rank:
        raise SimulationError(f"{what}: the map of '{view.tensor.name}' has {len(view.box)} dimensions")


def _ranks(mask: int, what: str) -> Iterator[int]:
    if not 0 < mask < 1 << 16:
        raise SimulationError(f"{what}: the mask {mask:#x} names no blocks of a cluster")
    yield from (rank for rank in range(16) if mask >> rank & 1)


def _tensor_load(rank: int, multicast: bool) -> Callable[..., None]:
    what = f"cp.async.bulk.tensor.{rank}d"

    def simulate(warp: Warp, dst: Pointer, view: TensorMapView, barrier: Pointer, *operands: Any) -> None:
        _check_rank(view, rank, what)
        values = tuple(map(integers, operands))
        for lane in _lanes(warp):
            source = tensor_pieces(view, _at(values[:rank], lane, what))
            receivers = [warp]
            if multicast:
                ranks = _ranks(int(values[rank][lane]), what)
                receivers = [warp.in_block(r, np.arange(LANES) == lane, lasting=False) for r in ranks]
            for there in receivers:
                address = _begin(there, dst, lane, BOX_ALIGNMENT, what)
                target = Pieces(dst.buffer, shared_pieces(view, address, source.size), source.size)
                _load(there, lane, source, target, barrier, what)

    return simulate


def _load(warp: Warp, lane: int, source: Pieces, target: Pieces, barrier: Pointer, what: str) -> None:
    """Begins a copy to shared memory whose bytes a barrier counts."""
    counted = signaled(warp, barrier, lane, what)
    counted.bring(len(target.starts) * target.size, warp.transfer(lane, source, target, agent=counted))


def _tensor_store(rank: int, op: str | None) -> Callable[..., None]:
    what = f"cp.{'async' if op is None else 'reduce.async'}.bulk.tensor.{rank}d"

    def simulate(warp: Warp, view: TensorMapView, src: Pointer, *operands: Any) -> None:
        _check_rank(view, rank, what)
        values = tuple(map(integers, operands[:rank]))
        update = None if op is None else _update(op, view.tensor.dtype, what)
        for lane in _lanes(warp):
            target = tensor_pieces(view, _at(values, lane, what), elements=op is not None)
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
        folded = _FOLDS[op](old.view(dtype.numpy), moved.view(dtype.numpy)).astype(dtype.numpy)
        return np.ascontiguousarray(folded).view(np.uint8)

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


def _bulk_load(warp: Warp, dst: Pointer, src: Pointer, count: Any, barrier: Pointer, *policy: Any) -> None:
    what, counts = "cp.async.bulk", integers(count)
    for lane in _lanes(warp):
        size = int(counts[lane])
        source = Pieces(src.buffer, _run(_global_begin(src, lane, size, what), size), CHUNK_BYTES)
        target = Pieces(dst.buffer, _run(_begin(warp, dst, lane, CHUNK_BYTES, what), size), CHUNK_BYTES)
        _load(warp, lane, source, target, barrier, what)


def _bulk_store(warp: Warp, dst: Pointer, src: Pointer, count: Any, *policy: Any) -> None:
    what, counts = "cp.async.bulk", integers(count)
    for lane in _lanes(warp):
        size = int(counts[lane])
        target = Pieces(dst.buffer, _run(_global_begin(dst, lane, size, what), size), CHUNK_BYTES)
        source = Pieces(src.buffer, _run(_begin(warp, src, lane, CHUNK_BYTES, what), size), CHUNK_BYTES)
        _store(warp, lane, source, target)


# -- records -------------------------------------------------------------------------------------------------------
def _helper(name: str, comment: str, parameters: list[str], ptx: str, operands: list[str]) -> Helper:
    """A function around one instruction, whose operands are numbered in `ptx`."""
    text = f"""\
// {comment}
__device__ __forceinline__ void {name}({", ".join(parameters)}) {{
    asm volatile("{ptx};"
                 :
                 : {", ".join(operands)}
                 : "memory");
}}
"""
    return Helper(name, text, needs=(TENSOR_MAP,))


def _places(count: int, *maps: int) -> str:
    """The arguments of a call; those that are maps by their address."""
    return ", ".join(f"&{{{i}}}" if i in maps else f"{{{i}}}" for i in range(count))


def _check(rank: int) -> None:
    if not 1 <= rank <= MAX_RANK:
        raise NoLowering(f"cp.async.bulk.tensor: boxes have 1 to {MAX_RANK} dimensions, not {rank}")


def _coordinates(rank: int, first: int) -> str:
    return ", ".join(f"%{first + i}" for i in range(rank))


@cache
def tma_load(rank: int, *, multicast: bool = False, hint: bool = False) -> Instruction:
    """The copy of a box of a tensor to shared memory.

    It is called with the destination, the map, the barrier that counts the bytes, and as many coordinates as the map
    has dimensions; then with the mask of the blocks of the cluster that receive the box at the same place, and count it
    on their own barriers, if it is `multicast`; then with a policy of `l2_policy`, if there is a `hint`.
    """
    _check(rank)
    name = f"tma_load_{rank}d" + "_multicast" * multicast + "_hint" * hint
    ptx = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes"
    ptx += ".multicast::cluster" * multicast + ".L2::cache_hint" * hint
    ptx += f" [%0], [%1, {{{_coordinates(rank, 3)}}}], [%2]" + "".join(
        f", %{3 + rank + i}" for i in range(multicast + hint)
    )
    parameters = ["void* dst", "const tl_tensor_map* map", "void* barrier", *(f"int c{i}" for i in range(rank))]
    parameters += ["unsigned short blocks"] * multicast + ["unsigned long long policy"] * hint
    operands = [_SHARED.format("dst"), '"l"(map)', _SHARED.format("barrier"), *(f'"r"(c{i})' for i in range(rank))]
    operands += ['"h"(blocks)'] * multicast + ['"l"(policy)'] * hint
    comment = "Copies a box of a tensor to shared memory; the barrier counts its bytes."
    return Instruction(
        name,
        {"cuda": f"tl_{name}({_places(len(parameters), 1)})"},
        {"cuda": _helper(f"tl_{name}", comment, parameters, ptx, operands)},
        _tensor_load(rank, multicast),
        timeline=Timeline.TMA_LOAD,
        needs=Feature.TMA | Feature.CLUSTER if multicast else Feature.TMA,
        source=_SOURCE.format("cp.async.bulk.tensor"),
    )


@cache
def tma_store(rank: int, *, hint: bool = False) -> Instruction:
    """The copy of a box from shared memory to a tensor; what lies out of bounds is left out.

    It is called with the map, the source, as many coordinates as the map has dimensions, and a policy if there is a
    `hint`. It belongs to the thread's group that `TMA_STORE_COMMIT` closes.
    """
    return _tensor_to_global(rank, None, hint)


@cache
def tma_reduce(rank: int, op: str, *, hint: bool = False) -> Instruction:
    """The fold of a box in shared memory into a tensor, element by element and indivisibly; called as `tma_store`.

    Raises:
        NoLowering: There is no such operation; `reduces` says for which dtypes there is.
    """
    if op not in REDUCTIONS:
        raise NoLowering(f"cp.reduce.async.bulk.tensor: folds by {', '.join(REDUCTIONS)}, not by {op!r}")
    return _tensor_to_global(rank, op, hint)


def _tensor_to_global(rank: int, op: str | None, hint: bool) -> Instruction:
    _check(rank)
    name = ("tma_store_" if op is None else f"tma_reduce_{op}_") + f"{rank}d" + "_hint" * hint
    instruction = "cp.async.bulk.tensor" if op is None else "cp.reduce.async.bulk.tensor"
    ptx = f"{instruction}.{rank}d.global.shared::cta" + ("" if op is None else f".{op}.tile") + ".bulk_group"
    ptx += ".L2::cache_hint" * hint + f" [%0, {{{_coordinates(rank, 2)}}}], [%1]" + f", %{2 + rank}" * hint
    parameters = ["const tl_tensor_map* map", "const void* src", *(f"int c{i}" for i in range(rank))]
    operands = ['"l"(map)', _SHARED.format("src"), *(f'"r"(c{i})' for i in range(rank))]
    parameters += ["unsigned long long policy"] * hint
    operands += ['"l"(policy)'] * hint
    comment = "Copies a box from shared memory to a tensor." if op is None else "Folds a box into a tensor."
    return Instruction(
        name,
        {"cuda": f"tl_{name}({_places(len(parameters), 0)})"},
        {"cuda": _helper(f"tl_{name}", comment, parameters, ptx, operands)},
        _tensor_store(rank, op),
        timeline=Timeline.TMA_STORE,
        needs=Feature.TMA,
        source=_SOURCE.format("cp.async.bulk.tensor" if op is None else "cp.reduce.async.bulk.tensor"),
    )


@cache
def bulk_load(*, hint: bool = False) -> Instruction:
    """The copy of a run of bytes to shared memory.

    It is called with the destination, the source in global memory, the number of bytes and the barrier that counts
    them; then with a policy if there is a `hint`. Both addresses and the number are multiples of 16.
    """
    name = "bulk_load" + "_hint" * hint
    ptx = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes" + ".L2::cache_hint" * hint
    ptx += " [%0], [%1], %2, [%3]" + ", %4" * hint
    parameters = ["void* dst", "const void* src", "unsigned bytes", "void* barrier"]
    operands = [_SHARED.format("dst"), '"l"(src)', '"r"(bytes)', _SHARED.format("barrier")]
    return _bulk(name, ptx, parameters, operands, hint, _bulk_load, Timeline.TMA_LOAD)


@cache
def bulk_store(*, hint: bool = False) -> Instruction:
    """The copy of a run of bytes from shared memory.

    It is called with the destination in global memory, the source and the number of bytes; then with a policy if there
    is a `hint`. Both addresses and the number are multiples of 16. Groups are as of `tma_store`.
    """
    name = "bulk_store" + "_hint" * hint
    ptx = "cp.async.bulk.global.shared::cta.bulk_group" + ".L2::cache_hint" * hint
    ptx += " [%0], [%1], %2" + ", %3" * hint
    parameters = ["void* dst", "const void* src", "unsigned bytes"]
    operands = ['"l"(dst)', _SHARED.format("src"), '"r"(bytes)']
    return _bulk(name, ptx, parameters, operands, hint, _bulk_store, Timeline.TMA_STORE)


def _bulk(
    name: str,
    ptx: str,
    parameters: list[str],
    operands: list[str],
    hint: bool,
    simulate: Callable[..., None],
    timeline: Timeline,
) -> Instruction:
    parameters = parameters + ["unsigned long long policy"] * hint
    operands = operands + ['"l"(policy)'] * hint
    comment = "Copies a run of bytes " + ("to" if timeline is Timeline.TMA_LOAD else "from") + " shared memory."
    return Instruction(
        name,
        {"cuda": f"tl_{name}({_places(len(parameters))})"},
        {"cuda": _helper(f"tl_{name}", comment, parameters, ptx, operands)},
        simulate,
        timeline=timeline,
        needs=Feature.TMA,
        source=_SOURCE.format("cp.async.bulk"),
    )


TMA_STORE_COMMIT = Instruction(
    "tma_store_commit",
    {"cuda": "tl_tma_store_commit()"},
    {
        "cuda": Helper(
            "tl_tma_store_commit",
            """\
__device__ __forceinline__ void tl_tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
""",
        )
    },
    _commit,
    timeline=Timeline.TMA_STORE,
    effect=Effect.COMMIT,
    needs=Feature.TMA,
    source=_SOURCE.format("cp.async.bulk.commit_group"),
)
"""Closes the group of all stores that the thread has started since the last commit; called with nothing."""


@cache
def tma_store_wait(pending: int, *, read: bool = True) -> Instruction:
    """The wait until at most so many of the thread's newest groups of stores are under way; called with nothing.

    With `read` it waits until the others have been read, so that the thread may let their shared memory be written
    again; otherwise until they have been written as well.
    """
    if pending < 0:
        raise NoLowering(f"cp.async.bulk.wait_group: {pending} groups")
    function = "tl_tma_store_wait" + "_read" * read
    done = "been read" if read else "ended"
    text = f"""\
// Waits until all but the newest N groups of this thread's stores have {done}.
template <int N> __device__ __forceinline__ void {function}() {{
    asm volatile("cp.async.bulk.wait_group{".read" * read} %0;" ::"n"(N) : "memory");
}}
"""
    return Instruction(
        "tma_store_wait" + "_read" * read + f"_{pending}",
        {"cuda": f"{function}<{pending}>()"},
        {"cuda": Helper(function, text)},
        _wait(pending, read),
        timeline=Timeline.TMA_STORE,
        effect=Effect.WAIT,
        needs=Feature.TMA,
        source=_SOURCE.format("cp.async.bulk.wait_group"),
    )


def _nothing(warp: Warp, view: TensorMapView) -> None:
    """Fetching a map early changes no results."""


TMA_PREFETCH_MAP = Instruction(
    "tma_prefetch_map",
    {"cuda": "tl_tma_prefetch_map(&{0})"},
    {
        "cuda": Helper(
            "tl_tma_prefetch_map",
            """\
// Fetches a map into the cache of the copy engine.
__device__ __forceinline__ void tl_tma_prefetch_map(const tl_tensor_map* map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
""",
            needs=(TENSOR_MAP,),
        )
    },
    _nothing,
    needs=Feature.TMA,
    source=_SOURCE.format("prefetch, prefetchu"),
)
"""Fetches a map before it is needed; called with it."""

POLICIES = ("evict_first", "evict_last", "evict_normal")


@cache
def l2_policy(eviction: str) -> Instruction:
    """The policy by which the L2 cache keeps what is copied with it; its value goes to instructions with a hint.

    Raises:
        NoLowering: There is no such policy.
    """
    if eviction not in POLICIES:
        raise NoLowering(f"createpolicy: knows {', '.join(POLICIES)}, not {eviction!r}")
    name = f"tl_l2_policy_{eviction}"
    text = f"""\
// How the L2 cache shall keep what is accessed with this.
__device__ __forceinline__ unsigned long long {name}() {{
    unsigned long long policy;
    asm("createpolicy.fractional.L2::{eviction}.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}}
"""

    def simulate(warp: Warp) -> np.ndarray:
        return np.full(LANES, POLICIES.index(eviction), np.uint64)

    return Instruction(
        f"l2_policy_{eviction}",
        {"cuda": f"{name}()"},
        {"cuda": Helper(name, text)},
        simulate,
        result=SCALARS["uint64"],
        needs=Feature.TMA,
        source=_SOURCE.format("createpolicy"),
    )
