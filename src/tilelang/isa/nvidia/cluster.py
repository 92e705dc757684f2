"""Clusters: blocks that run at the same time, meet at a barrier of their own, and reach each other's shared memory.

Gives `CLUSTER_RANK`, `CLUSTER_SIZE`, `CLUSTER_ARRIVE`, `CLUSTER_ARRIVE_RELAXED`, `CLUSTER_WAIT`,
`mbarrier_arrive_remote`, `cluster_load`, `cluster_store` and `cluster_store_async`. A place in the memory of another
block is named by the same place in one's own and the rank of the block. Invariant: a block's memory may be touched by
others from when they have met it until it ends; so the blocks of a cluster meet before they touch each other, and
before one of them ends that others may still touch.

Blocks are numbered with x running fastest: that of a block of `cluster_dims=(cx, cy, cz)` is
`bx % cx + cx * (by % cy + cy * (bz % cz))`.

Source: PTX ISA, "barrier.cluster", "mapa", "st.async", "Special Registers: %cluster_ctarank".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from tilelang.dtypes import INT32, DType
from tilelang.errors import NoLowering
from tilelang.isa.instruction import Effect, Group, Instruction, Timeline
from tilelang.isa.intrinsic import Helper
from tilelang.isa.machine import LANES, Pieces, Pointer, Wait, Warp
from tilelang.isa.nvidia.lanes import integers, spread
from tilelang.isa.nvidia.mbarrier import MBARRIER_ARRIVE, named
from tilelang.isa.nvidia.types import BITS, cuda_type, lane_type, words
from tilelang.target import Feature

_SOURCE = "PTX ISA, '{}'"
# per size in bytes: PTX type, registers of the type in `types.words`, constraint
_REGISTERS: dict[int, tuple[str, tuple[str, ...], str]] = {
    1: ("u8", ("value",), "h"),
    2: ("u16", ("value",), "h"),
    4: ("u32", ("value",), "r"),
    8: ("v2.u32", ("value.x", "value.y"), "r"),
    16: ("v4.u32", ("value.x", "value.y", "value.z", "value.w"), "r"),
}


# -- meanings ------------------------------------------------------------------------------------------------------
def _rank(warp: Warp) -> np.ndarray:
    return np.full(LANES, warp.rank, np.int32)


def _size(warp: Warp) -> np.ndarray:
    return np.full(LANES, np.prod(warp.cluster), np.int32)


def _arrive(release: bool) -> Callable[[Warp], None]:
    return lambda warp: warp.arrive_cluster(release=release)


def _wait(warp: Warp) -> Iterator[Wait]:
    yield from warp.wait_cluster()


def _peers(warp: Warp, rank: Any, *, lasting: bool = True) -> Iterator[tuple[Warp, np.ndarray]]:
    """The active lanes by the block whose memory they name."""
    ranks = integers(rank)
    for one in np.unique(ranks[warp.active]).tolist():
        lanes = warp.active & (ranks == one)
        yield warp.in_block(one, lanes, lasting=lasting), lanes


def _arrive_remote(warp: Warp, barrier: Pointer, rank: Any) -> None:
    for there, _ in _peers(warp, rank):
        MBARRIER_ARRIVE.simulate(there, barrier)


def _load(dtype: DType) -> Callable[[Warp, Pointer, Any], np.ndarray]:
    def simulate(warp: Warp, src: Pointer, rank: Any) -> np.ndarray:
        values = np.zeros((LANES, dtype.lanes), dtype.numpy)
        for there, lanes in _peers(warp, rank):
            values[lanes] = there.read(src, dtype.lanes, where=lanes)[lanes]
        return values if dtype.lanes > 1 else values[:, 0]

    return simulate


def _store(dtype: DType) -> Callable[[Warp, Pointer, Any, Any], None]:
    def simulate(warp: Warp, dst: Pointer, rank: Any, value: Any) -> None:
        for there, lanes in _peers(warp, rank):
            there.write(dst, _columns(dtype, value), where=lanes)

    return simulate


def _store_async(dtype: DType) -> Callable[[Warp, Pointer, Any, Any, Pointer], None]:
    size = dtype.storage_bytes

    def simulate(warp: Warp, dst: Pointer, rank: Any, value: Any, barrier: Pointer) -> None:
        contents = np.ascontiguousarray(_columns(dtype, value)).view(np.uint8).reshape(LANES, size)
        for there, lanes in _peers(warp, rank, lasting=False):
            starts = there.shared_address(dst)
            for lane in np.flatnonzero(lanes).tolist():
                counted = named(there, barrier, lane, "st.async")
                target = Pieces(dst.buffer, starts[lane : lane + 1], size)
                counted.bring(size, there.transfer(lane, contents[lane : lane + 1], target, agent=counted))

    return simulate


def _columns(dtype: DType, value: Any) -> np.ndarray:
    values = np.asarray(value)
    values = np.broadcast_to(values, (LANES, dtype.lanes)) if dtype.lanes > 1 else spread(values)[:, None]
    return values.astype(dtype.numpy)


# -- records -------------------------------------------------------------------------------------------------------
def _register(name: str, register: str, simulate: Callable[[Warp], np.ndarray]) -> Instruction:
    text = f"""\
__device__ __forceinline__ int tl_{name}() {{
    int value;
    asm("mov.u32 %0, %%{register};" : "=r"(value));
    return value;
}}
"""
    return Instruction(
        name,
        {"cuda": f"tl_{name}()"},
        {"cuda": Helper(f"tl_{name}", text)},
        simulate,
        result=INT32,
        needs=Feature.CLUSTER,
        source=_SOURCE.format("Special Registers: %" + register),
    )


def _barrier(name: str, operation: str, simulate: Callable[[Warp], Any], comment: str) -> Instruction:
    text = f"""\
// {comment}
__device__ __forceinline__ void tl_{name}() {{
    asm volatile("barrier.cluster.{operation}.aligned;" ::: "memory");
}}
"""
    return Instruction(
        name,
        {"cuda": f"tl_{name}()"},
        {"cuda": Helper(f"tl_{name}", text)},
        simulate,
        group=Group.CLUSTER,
        effect=Effect.SYNC_SOME,
        needs=Feature.CLUSTER,
        source=_SOURCE.format("Parallel Synchronization and Communication Instructions: barrier.cluster"),
    )


CLUSTER_RANK = _register("cluster_rank", "cluster_ctarank", _rank)
"""The number of the block in its cluster; called with nothing."""

CLUSTER_SIZE = _register("cluster_size", "cluster_nctarank", _size)
"""How many blocks the cluster has; called with nothing."""

CLUSTER_ARRIVE = _barrier(
    "cluster_arrive",
    "arrive.release",
    _arrive(release=True),
    "Arrives at the cluster's barrier; what the thread did before is seen by those that wait.",
)
"""All threads of a warp arrive at the barrier of the cluster, and go on; called with nothing."""

CLUSTER_ARRIVE_RELAXED = _barrier(
    "cluster_arrive_relaxed",
    "arrive.relaxed",
    _arrive(release=False),
    "Arrives at the cluster's barrier; those that wait see no more than what a fence stands behind.",
)
"""As `CLUSTER_ARRIVE`, without the cost of making writes visible: behind `FENCE_MBARRIER_INIT`, or at the end."""

CLUSTER_WAIT = _barrier(
    "cluster_wait", "wait.acquire", _wait, "Waits until all threads of the cluster have arrived that have not ended."
)
"""All threads of a warp wait for the others of the cluster to arrive, after they have; called with nothing."""


def _remote(place: str) -> str:
    """PTX that turns an address of one's own shared memory into that of another block; declares `remote`."""
    return f"{{ .reg .b32 {place}; mapa.shared::cluster.u32 {place}, "


_OWN = '"r"((unsigned)__cvta_generic_to_shared({}))'


@cache
def mbarrier_arrive_remote(*, release: bool = False) -> Instruction:
    """Every executing thread arrives once at a barrier of another block; called with the barrier and the block's rank.

    Args:
        release: Whether those that wait see what the thread wrote outside of its own block. Reads are over in any case,
            and this costs much: it waits for all that the thread wrote.
    """
    name = "mbarrier_arrive_remote" + "_release" * release
    operation = "mbarrier.arrive" + ".release.cluster" * release + ".shared::cluster.b64"
    text = f"""\
// Counts this thread as arrived at the barrier at the same place in another block of the cluster.
__device__ __forceinline__ void tl_{name}(void* barrier, int block) {{
    asm volatile("{_remote("at")}%0, %1; {operation} _, [at]; }}"
                 :
                 : {_OWN.format("barrier")}, "r"(block)
                 : "memory");
}}
"""
    return Instruction(
        name,
        {"cuda": f"tl_{name}({{0}}, {{1}})"},
        {"cuda": Helper(f"tl_{name}", text)},
        _arrive_remote,
        effect=Effect.SYNC_SOME,
        needs=Feature.CLUSTER,
        source=_SOURCE.format("Parallel Synchronization and Communication Instructions: mbarrier.arrive"),
    )


def _numbered(first: int, count: int) -> str:
    names = ", ".join(f"%{first + i}" for i in range(count))
    return names if count == 1 else f"{{{names}}}"


def _size_of(dtype: DType, sizes: tuple[int, ...], what: str) -> int:
    if dtype.storage_bytes not in sizes:
        raise NoLowering(f"{what}: no access of {dtype.storage_bytes} bytes, which {dtype!s} has")
    return dtype.storage_bytes


def _needed(*helpers: Helper | None) -> tuple[Helper, ...]:
    return tuple(helper for helper in helpers if helper is not None)


@cache
def cluster_load(dtype: DType) -> Instruction:
    """A load of an element or a short vector from shared memory of a block of the cluster.

    It is called with the place in one's own shared memory and the rank of the block.

    Raises:
        NoLowering: The value is no access of 1, 2, 4, 8 or 16 bytes.
    """
    size = _size_of(dtype, tuple(_REGISTERS), "ld.shared::cluster")
    kind, registers, constraint = _REGISTERS[size]
    name, target = f"tl_cluster_load_{size}", words(size)
    value = "uint16_t value" if size == 1 else f"{target.name} value"
    outputs = ", ".join(f'"={constraint}"({register})' for register in registers)
    count = len(registers)
    text = f"""\
__device__ __forceinline__ {target.name} {name}(const void* shared, int block) {{
    {value};
    asm volatile("{_remote("at")}%{count}, %{count + 1}; ld.shared::cluster.{kind} {_numbered(0, count)}, [at]; }}"
                 : {outputs}
                 : {_OWN.format("shared")}, "r"(block)
                 : "memory");
    return {"(uint8_t)value" if size == 1 else "value"};
}}
"""
    helper, call = Helper(name, text, needs=_needed(target.helper)), f"{name}({{0}}, {{1}})"
    if dtype.lanes == 1:
        plain = cuda_type(dtype)
        call = f"({plain.value})tl_bits<{plain.name}>({call})"
        helper = Helper(f"{name} as {dtype!s}", "", needs=_needed(helper, BITS, plain.helper))
    return Instruction(
        f"cluster_load_{dtype!s}",
        {"cuda": call},
        {"cuda": helper},
        _load(dtype),
        result=dtype,
        needs=Feature.CLUSTER,
        source=_SOURCE.format("Data Movement and Conversion Instructions: ld"),
    )


def _stored(name: str, dtype: DType, places: str) -> tuple[str, tuple[Helper, ...]]:
    """The call of a helper that takes bits, with an element in the place of {2}; and what else it needs."""
    if dtype.lanes > 1:
        return f"{name}({places.format('{2}')})", ()
    plain, word = cuda_type(dtype), words(dtype.storage_bytes)
    value = f"tl_bits<{word.name}>({plain.name}({{2}}))"
    return f"{name}({places.format(value)})", _needed(BITS, lane_type(dtype).helper)


@cache
def cluster_store(dtype: DType) -> Instruction:
    """A store of an element or a short vector to shared memory of a block of the cluster.

    It is called with the place in one's own shared memory, the rank of the block, and the value.

    Raises:
        NoLowering: The value is no access of 1, 2, 4, 8 or 16 bytes.
    """
    size = _size_of(dtype, tuple(_REGISTERS), "st.shared::cluster")
    kind, registers, constraint = _REGISTERS[size]
    name, target = f"tl_cluster_store_{size}", words(size)
    inputs = ", ".join(f'"{constraint}"({"(uint16_t)value" if size == 1 else register})' for register in registers)
    text = f"""\
__device__ __forceinline__ void {name}(void* shared, int block, {target.name} value) {{
    asm volatile("{_remote("at")}%0, %1; st.shared::cluster.{kind} [at], {_numbered(2, len(registers))}; }}"
                 :
                 : {_OWN.format("shared")}, "r"(block), {inputs}
                 : "memory");
}}
"""
    call, more = _stored(name, dtype, "{{0}}, {{1}}, {}")
    return Instruction(
        f"cluster_store_{dtype!s}",
        {"cuda": call},
        {"cuda": Helper(f"{name} of {dtype!s}", "", needs=(Helper(name, text, needs=_needed(target.helper)), *more))},
        _store(dtype),
        needs=Feature.CLUSTER,
        source=_SOURCE.format("Data Movement and Conversion Instructions: st"),
    )


@cache
def cluster_store_async(dtype: DType) -> Instruction:
    """A store to shared memory of a block of the cluster that its barrier counts: the only way to learn of its end.

    It is called with the place in one's own shared memory, the rank of the block, the value, and the place of the
    barrier, which counts the bytes in that block.

    Raises:
        NoLowering: The value is no access of 4, 8 or 16 bytes.
    """
    size = _size_of(dtype, (4, 8, 16), "st.async")
    kind, registers, constraint = _REGISTERS[size]
    name, target = f"tl_cluster_store_async_{size}", words(size)
    inputs = ", ".join(f'"{constraint}"({register})' for register in registers)
    text = f"""\
// Stores into another block of the cluster, whose barrier counts the bytes once they are there.
__device__ __forceinline__ void {name}(void* shared, int block, {target.name} value, void* barrier) {{
    asm volatile("{_remote("at")}%0, %2; .reg .b32 bar; mapa.shared::cluster.u32 bar, %1, %2; "
                 "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.{kind} [at], "
                 "{_numbered(3, len(registers))}, [bar]; }}"
                 :
                 : {_OWN.format("shared")}, {_OWN.format("barrier")}, "r"(block), {inputs}
                 : "memory");
}}
"""
    call, more = _stored(name, dtype, "{{0}}, {{1}}, {}, {{3}}")
    return Instruction(
        f"cluster_store_async_{dtype!s}",
        {"cuda": call},
        {"cuda": Helper(f"{name} of {dtype!s}", "", needs=(Helper(name, text, needs=_needed(target.helper)), *more))},
        _store_async(dtype),
        timeline=Timeline.TMA_LOAD,
        needs=Feature.CLUSTER,
        source=_SOURCE.format("Data Movement and Conversion Instructions: st.async"),
    )
