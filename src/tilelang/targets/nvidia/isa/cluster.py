"""Clusters: blocks that are scheduled together, have a common barrier and access each other's shared memory.

Gives `CLUSTER_RANK`, `CLUSTER_SIZE`, `CLUSTER_ARRIVE`, `CLUSTER_ARRIVE_RELAXED`, `CLUSTER_WAIT`,
`mbarrier_arrive_remote`, `cluster_load`, `cluster_store` and `cluster_store_async`. An address in the memory of
another block is given as the same address in one's own and the rank of that block. Invariant: a block's memory may be
accessed by others only after the cluster has synchronized, and until the block ends; so a cluster synchronizes before
the first such access, and once more before a block ends whose memory others may still access.

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
from tilelang.isa.function import Function, Parameter, ParameterKind
from tilelang.isa.instruction import Effect, ExecutionScope, Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import Pieces, Pointer, Wait, Warp
from tilelang.targets.gpu.isa.lanes import integers, spread
from tilelang.targets.nvidia.isa.access import SAMPLES, access, as_bits, as_value
from tilelang.targets.nvidia.isa.async_units import TMA_LOAD
from tilelang.targets.nvidia.isa.mbarrier import MBARRIER_ARRIVE, named
from tilelang.targets.nvidia.isa.ptx_statement import ptx_statement, register, shared_address, shared_operand
from tilelang.targets.nvidia.machines import Feature

_INSTEAD = "let blocks meet in global memory: T.sync_grid() waits for all of them"
_SOURCE = "PTX ISA, '{}'"


# -- meanings ------------------------------------------------------------------------------------------------------
def _rank(warp: Warp) -> np.ndarray:
    return np.full(warp.size, warp.rank, np.int32)


def _size(warp: Warp) -> np.ndarray:
    return np.full(warp.size, np.prod(warp.cluster), np.int32)


def _arrive(release: bool) -> Callable[[Warp], None]:
    return lambda warp: warp.cluster_arrive(release=release)


def _wait(warp: Warp) -> Iterator[Wait]:
    yield from warp.cluster_wait()


def _peers(warp: Warp, rank: Any, *, until_barrier: bool = True) -> Iterator[tuple[Warp, np.ndarray]]:
    """The active lanes by the block whose memory they name."""
    ranks = integers(warp, rank)
    for one in np.unique(ranks[warp.active]).tolist():
        lanes = warp.active & (ranks == one)
        yield warp.in_block(one, lanes, until_barrier=until_barrier), lanes


def _arrive_remote(warp: Warp, barrier: Pointer, rank: Any) -> None:
    for there, _ in _peers(warp, rank):
        MBARRIER_ARRIVE.simulate(there, barrier)


def _load(dtype: DType) -> Callable[[Warp, Pointer, Any], np.ndarray]:
    def simulate(warp: Warp, src: Pointer, rank: Any) -> np.ndarray:
        values = np.zeros((warp.size, dtype.lanes), dtype.numpy)
        for there, lanes in _peers(warp, rank):
            values[lanes] = there.read(src, dtype.lanes, where=lanes)[lanes]
        return values if dtype.lanes > 1 else values[:, 0]

    return simulate


def _store(dtype: DType) -> Callable[[Warp, Pointer, Any, Any], None]:
    def simulate(warp: Warp, dst: Pointer, rank: Any, value: Any) -> None:
        for there, lanes in _peers(warp, rank):
            there.write(dst, _columns(warp, dtype, value), where=lanes)

    return simulate


def _store_async(dtype: DType) -> Callable[[Warp, Pointer, Any, Any, Pointer], None]:
    size = dtype.storage_bytes

    def simulate(warp: Warp, dst: Pointer, rank: Any, value: Any, barrier: Pointer) -> None:
        contents = np.ascontiguousarray(_columns(warp, dtype, value)).view(np.uint8).reshape(warp.size, size)
        for there, _ in _peers(warp, rank, until_barrier=False):
            starts = there.shared_address(dst)
            for counted, lanes in named(there, barrier, "st.async"):
                for lane in np.flatnonzero(lanes).tolist():
                    target = Pieces(dst.buffer, starts[lane : lane + 1], size)
                    counted.add_transfer(size, there.transfer(lane, contents[lane : lane + 1], target, agent=counted))

    return simulate


def _columns(warp: Warp, dtype: DType, value: Any) -> np.ndarray:
    values = np.asarray(value)
    values = np.broadcast_to(values, (warp.size, dtype.lanes)) if dtype.lanes > 1 else spread(warp, values)[:, None]
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
        instead=_INSTEAD,
        source=_SOURCE.format("Special Registers: %" + register),
    )


def _barrier(name: str, operation: str, simulate: Callable[[Warp], Any], comment: str) -> Instruction:
    return ptx_statement(
        name,
        f"barrier.cluster.{operation}.aligned;",
        (),
        simulate,
        comment,
        execution_scope=ExecutionScope.CLUSTER,
        effect=Effect.SYNC_SOME,
        needs=Feature.CLUSTER,
        instead=_INSTEAD,
        source=_SOURCE.format("Parallel Synchronization and Communication Instructions: barrier.cluster"),
    )


CLUSTER_RANK = _register("cluster_rank", "cluster_ctarank", _rank)
"""The number of the block in its cluster; called with nothing."""

CLUSTER_SIZE = _register("cluster_size", "cluster_nctarank", _size)
"""The number of blocks of the cluster; an intrinsic without arguments."""

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
"""As `CLUSTER_ARRIVE`, without the cost of making writes visible: after `FENCE_MBARRIER_INIT`, or at the end."""

CLUSTER_WAIT = _barrier(
    "cluster_wait", "wait.acquire", _wait, "Waits until all threads of the cluster have arrived that have not ended."
)
"""All threads of a warp wait for the others of the cluster to arrive, after they have; called with nothing."""


_MAPA = "{ .reg .b32 at; mapa.shared::cluster.u32 at, "
"""PTX that maps an address of the block's own shared memory to another block; the result is `at`."""


@cache
def mbarrier_arrive_remote(*, release: bool = False) -> Instruction:
    """Every executing thread arrives once at a barrier of another block; called with the barrier and the block's rank.

    Args:
        release: Whether those that wait see what the thread wrote outside of its own block. Reads are over in any case,
            and this costs much: it waits for all that the thread wrote.
    """
    operation = "mbarrier.arrive" + ".release.cluster" * release + ".shared::cluster.b64"
    return ptx_statement(
        "mbarrier_arrive_remote" + "_release" * release,
        f"{_MAPA}%0, %1; {operation} _, [at]; }}",
        (shared_address("barrier"), register("int", "block")),
        _arrive_remote,
        "Counts this thread as arrived at the barrier at the same place in another block of the cluster.",
        effect=Effect.SYNC_SOME,
        needs=Feature.CLUSTER,
        instead=_INSTEAD,
        source=_SOURCE.format("Parallel Synchronization and Communication Instructions: mbarrier.arrive"),
    )


@cache
def cluster_load(dtype: DType) -> Instruction:
    """A load of an element or a short vector from shared memory of a block of the cluster.

    It is called with the place in one's own shared memory and the rank of the block.

    Raises:
        NoLowering: The value is no access of 1, 2, 4, 8 or 16 bytes.
    """
    how = access(dtype, "ld.shared::cluster")
    name, count = f"tl_cluster_load_{how.size}", len(how.registers)
    text = f"""\
__device__ __forceinline__ {how.word.name} {name}(const void* shared, int block) {{
    {how.variable} value;
    asm volatile("{_MAPA}%{count}, %{count + 1}; ld.shared::cluster.{how.kind} {how.operands(0)}, [at]; }}"
                 : {how.outputs}
                 : {shared_operand("shared")}, "r"(block)
                 : "memory");
    return {how.result};
}}
"""
    call, helper = as_value(dtype, f"{name}({{0}}, {{1}})", Helper(name, text, needs=how.needs))
    return Instruction(
        f"cluster_load_{dtype!s}",
        {"cuda": call},
        {"cuda": helper},
        _load(dtype),
        result=dtype,
        needs=Feature.CLUSTER,
        instead=_INSTEAD,
        source=_SOURCE.format("Data Movement and Conversion Instructions: ld"),
    )


@cache
def cluster_store(dtype: DType) -> Instruction:
    """A store of an element or a short vector to shared memory of a block of the cluster.

    It is called with the place in one's own shared memory, the rank of the block, and the value.

    Raises:
        NoLowering: The value is no access of 1, 2, 4, 8 or 16 bytes.
    """
    how = access(dtype, "st.shared::cluster")
    name = f"tl_cluster_store_{how.size}"
    text = f"""\
__device__ __forceinline__ void {name}(void* shared, int block, {how.word.name} value) {{
    asm volatile("{_MAPA}%0, %1; st.shared::cluster.{how.kind} [at], {how.operands(2)}; }}"
                 :
                 : {shared_operand("shared")}, "r"(block), {how.inputs}
                 : "memory");
}}
"""
    value, helper = as_bits(dtype, "{2}", Helper(name, text, needs=how.needs))
    return Instruction(
        f"cluster_store_{dtype!s}",
        {"cuda": f"{name}({{0}}, {{1}}, {value})"},
        {"cuda": helper},
        _store(dtype),
        needs=Feature.CLUSTER,
        instead=_INSTEAD,
        source=_SOURCE.format("Data Movement and Conversion Instructions: st"),
    )


@cache
def cluster_store_async(dtype: DType) -> Instruction:
    """A store to shared memory of a block of the cluster, complete when a barrier there has counted its bytes.

    It is called with the place in one's own shared memory, the rank of the block, the value, and the place of the
    barrier, which counts the bytes in that block.

    Raises:
        NoLowering: The value is no access of 4, 8 or 16 bytes.
    """
    how = access(dtype, "st.async", (4, 8, 16))
    name = f"tl_cluster_store_async_{how.size}"
    text = f"""\
// Stores into another block of the cluster, whose barrier counts the bytes once they are there.
__device__ __forceinline__ void {name}(void* shared, int block, {how.word.name} value, void* barrier) {{
    asm volatile("{_MAPA}%0, %2; .reg .b32 bar; mapa.shared::cluster.u32 bar, %1, %2; "
                 "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.{how.kind} [at], "
                 "{how.operands(3)}, [bar]; }}"
                 :
                 : {shared_operand("shared")}, {shared_operand("barrier")}, "r"(block), {how.inputs}
                 : "memory");
}}
"""
    value, helper = as_bits(dtype, "{2}", Helper(name, text, needs=how.needs))
    return Instruction(
        f"cluster_store_async_{dtype!s}",
        {"cuda": f"{name}({{0}}, {{1}}, {value}, {{3}})"},
        {"cuda": helper},
        _store_async(dtype),
        async_unit=TMA_LOAD,
        needs=Feature.CLUSTER,
        instead=_INSTEAD,
        source=_SOURCE.format("Data Movement and Conversion Instructions: st.async"),
    )


FUNCTIONS = (
    Function(
        "block_rank_in_cluster",
        CLUSTER_RANK,
        "The number of the executing block in its cluster, x running fastest.",
        value_name="cluster",
        example="rank = T.block_rank_in_cluster()",
    ),
    Function("get_cluster_block_nums", CLUSTER_SIZE, "The number of blocks of a cluster.", value_name="cluster"),
    Function(
        "cluster_arrive",
        CLUSTER_ARRIVE,
        "Every thread arrives at the barrier of the cluster and goes on; those that wait see what it did before.",
    ),
    Function(
        "cluster_arrive_relaxed",
        CLUSTER_ARRIVE_RELAXED,
        "As `T.cluster_arrive`, but what the thread wrote need not be seen by others: all are there, no more.",
    ),
    Function(
        "cluster_wait",
        CLUSTER_WAIT,
        "Every thread waits until all of the cluster have arrived, as it has itself.",
    ),
    Function(
        "ptx_arrive_cluster_barrier",
        mbarrier_arrive_remote(),
        "The same as `T.barrier_arrive` at the barrier of another block of the cluster.",
        (Parameter("mbarrier", ParameterKind.BARRIER), Parameter("cta_id", ParameterKind.BLOCK)),
    ),
)


def instructions() -> Iterator[Instruction]:
    """Those of this file, one of each form."""
    yield from (CLUSTER_RANK, CLUSTER_SIZE, CLUSTER_ARRIVE, CLUSTER_ARRIVE_RELAXED, CLUSTER_WAIT)
    yield from (mbarrier_arrive_remote(release=release) for release in (False, True))
    for dtype in SAMPLES:
        yield from (cluster_load(dtype), cluster_store(dtype))
        if dtype.storage_bytes >= 4:
            yield cluster_store_async(dtype)
