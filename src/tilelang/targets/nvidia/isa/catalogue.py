"""Every instruction of NVIDIA's GPUs that this version knows, by name.

Gives `INSTRUCTIONS`. Families that are made per dtype stand with each dtype they take, atomic operations of other than
relaxed order with int32 alone, products of warpgroups with 64 columns alone. Instructions made of the user's own text
are not among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from tilelang.dtypes import FLOAT32, SCALARS, DType, as_dtype
from tilelang.isa.instruction import Instruction
from tilelang.targets.gpu.isa.fence import FENCE_BLOCK, FENCE_DEVICE, FENCE_SYSTEM
from tilelang.targets.gpu.isa.sync import (
    SYNC_GRID,
    SYNC_THREADS,
    SYNC_THREADS_AND,
    SYNC_THREADS_COUNT,
    SYNC_THREADS_OR,
    SYNC_WARP,
)
from tilelang.targets.gpu.isa.warp import (
    ACTIVE_MASK,
    ALL,
    ANY,
    BALLOT,
    ELECT,
    MATCH_ALL,
    MATCH_ANY,
    redux,
    shuffle,
)
from tilelang.targets.nvidia.isa.atom import mma
from tilelang.targets.nvidia.isa.atomic import OPERATIONS, atomic, atomic_add_vector
from tilelang.targets.nvidia.isa.atomic_text import ORDERS, SCOPES
from tilelang.targets.nvidia.isa.cache_policy import l2_policy
from tilelang.targets.nvidia.isa.cluster import (
    CLUSTER_ARRIVE,
    CLUSTER_ARRIVE_RELAXED,
    CLUSTER_RANK,
    CLUSTER_SIZE,
    CLUSTER_WAIT,
    cluster_load,
    cluster_store,
    cluster_store_async,
    mbarrier_arrive_remote,
)
from tilelang.targets.nvidia.isa.cp_async import CP_ASYNC_COMMIT, CP_ASYNC_WAIT, SIZES, cp_async
from tilelang.targets.nvidia.isa.debug import CLOCK64, GLOBAL_TIMER, NANOSLEEP, TRAP
from tilelang.targets.nvidia.isa.dependent_launch import GRID_DEPENDENCY_LAUNCH, GRID_DEPENDENCY_WAIT
from tilelang.targets.nvidia.isa.dot import dp4a
from tilelang.targets.nvidia.isa.fence import FENCE_PROXY_ASYNC, FENCE_PROXY_ASYNC_GLOBAL
from tilelang.targets.nvidia.isa.ldmatrix import ldmatrix, stmatrix
from tilelang.targets.nvidia.isa.mbarrier import (
    FENCE_MBARRIER_INIT,
    MBARRIER_ARRIVE,
    MBARRIER_ARRIVE_EXPECT_TX,
    MBARRIER_CP_ASYNC_ARRIVE,
    MBARRIER_CP_ASYNC_ARRIVE_BESIDE,
    MBARRIER_EXPECT_TX,
    MBARRIER_INIT,
    MBARRIER_INVAL,
    MBARRIER_TEST_WAIT,
    MBARRIER_WAIT,
)
from tilelang.targets.nvidia.isa.memory import CacheHint, load, prefetch, store
from tilelang.targets.nvidia.isa.mma import ATOMS
from tilelang.targets.nvidia.isa.named_barrier import BAR_ARRIVE, BAR_SYNC
from tilelang.targets.nvidia.isa.registers import set_max_registers
from tilelang.targets.nvidia.isa.tensor_box import IMAGE_RANK, MAX_RANK
from tilelang.targets.nvidia.isa.tma import (
    TMA_PREFETCH_MAP,
    TMA_STORE_COMMIT,
    bulk_load,
    bulk_store,
    tma_load,
    tma_reduce,
    tma_store,
    tma_store_wait,
)
from tilelang.targets.nvidia.isa.tma_meaning import REDUCTIONS
from tilelang.targets.nvidia.isa.wgmma import (
    MATRIX_DESCRIPTOR,
    PAIRS,
    WGMMA_COMMIT,
    WGMMA_FENCE,
    atom_of,
    forms,
    settle_registers,
    wgmma_wait,
)

_ACCESSED = ("uint8", "float16", "float32", "float64", "float16x2", "float32x2", "float16x8", "float32x4")


def _instructions() -> Iterator[Instruction]:
    yield from (SYNC_THREADS, SYNC_GRID, BAR_SYNC, BAR_ARRIVE, SYNC_WARP, FENCE_BLOCK, FENCE_DEVICE, FENCE_SYSTEM)
    yield from (SYNC_THREADS_COUNT, SYNC_THREADS_AND, SYNC_THREADS_OR)
    yield from (GRID_DEPENDENCY_WAIT, GRID_DEPENDENCY_LAUNCH)
    yield from (CLUSTER_RANK, CLUSTER_SIZE, CLUSTER_ARRIVE, CLUSTER_ARRIVE_RELAXED, CLUSTER_WAIT)
    yield from (mbarrier_arrive_remote(release=release) for release in (False, True))
    for dtype in map(as_dtype, _ACCESSED):
        yield from (cluster_load(dtype), cluster_store(dtype))
        if dtype.storage_bytes >= 4:
            yield cluster_store_async(dtype)
    for dtype in (*SCALARS.values(), as_dtype("float16x2"), as_dtype("int8x4")):
        yield from (shuffle(mode, dtype) for mode in ("idx", "up", "down", "xor"))
    yield from (BALLOT, ANY, ALL, MATCH_ANY, MATCH_ALL, ACTIVE_MASK, ELECT)
    yield from (redux(op, FLOAT32) for op in ("min", "max"))
    for name in ("int32", "uint32"):
        yield from (redux(op, SCALARS[name]) for op in ("add", "min", "max", "and", "or", "xor"))
        yield from (dp4a(SCALARS[name], SCALARS[other]) for other in ("int32", "uint32"))
    yield from (*(cp_async(size) for size in SIZES), CP_ASYNC_COMMIT, CP_ASYNC_WAIT)
    yield from (MBARRIER_INIT, MBARRIER_INVAL, MBARRIER_ARRIVE, MBARRIER_WAIT, MBARRIER_TEST_WAIT)
    yield MBARRIER_CP_ASYNC_ARRIVE_BESIDE
    yield from (MBARRIER_CP_ASYNC_ARRIVE, MBARRIER_EXPECT_TX, MBARRIER_ARRIVE_EXPECT_TX, FENCE_MBARRIER_INIT)
    yield from (FENCE_PROXY_ASYNC, FENCE_PROXY_ASYNC_GLOBAL)
    yield from _bulk_copies()
    yield from _accesses()
    yield from _atomics()
    yield from (TRAP, CLOCK64, GLOBAL_TIMER, NANOSLEEP)
    yield from (mma(atom) for atom in ATOMS)
    yield from _products_of_warpgroups()
    for count in (1, 2, 4):
        yield from (make(count, trans) for make in (ldmatrix, stmatrix) for trans in (False, True))


def _bulk_copies() -> Iterator[Instruction]:
    for hint in (False, True):
        for rank in range(1, MAX_RANK + 1):
            yield from (tma_load(rank, multicast=multicast, hint=hint) for multicast in (False, True))
            if rank == IMAGE_RANK:
                yield tma_load(rank, pixels=True, hint=hint)
            yield tma_store(rank, hint=hint)
            yield from (tma_reduce(rank, op, hint=hint) for op in REDUCTIONS)
        yield from (bulk_load(hint=hint), bulk_store(hint=hint))
    yield from (TMA_STORE_COMMIT, tma_store_wait(0), tma_store_wait(0, read=False), TMA_PREFETCH_MAP)
    yield from map(l2_policy, ("evict_normal", "evict_first", "evict_last"))


def _products_of_warpgroups() -> Iterator[Instruction]:
    for a, b, c in PAIRS:
        atom = atom_of(a, b, c, 64)
        assert atom is not None
        yield from forms(atom)
    yield from (WGMMA_FENCE, WGMMA_COMMIT, *map(wgmma_wait, (0, 1)), MATRIX_DESCRIPTOR)
    yield from (settle_registers(as_dtype(name), 32) for name in ("float32", "float16", "int32"))
    yield from (set_max_registers(24, False), set_max_registers(240, True))


def _accesses() -> Iterator[Instruction]:
    for dtype in map(as_dtype, _ACCESSED):
        for hint in CacheHint:
            yield from (load(dtype, hint), store(dtype, hint), load(dtype, hint, read_only=True))
    yield from (prefetch("L1"), prefetch("L2"))


def _atomics() -> Iterator[Instruction]:
    for dtype in SCALARS.values():
        yield from (atomic(op, dtype) for op in OPERATIONS if dtype.is_int or op not in ("and", "or", "xor"))
    for order in ORDERS:
        for scope in SCOPES:
            if (order, scope) != ("relaxed", "gpu"):
                yield from (atomic(op, SCALARS["int32"], order, scope) for op in OPERATIONS)
    for name in ("float32", "float16", "bfloat16"):
        lanes = (2, 4) if name == "float32" else (2, 4, 8)
        yield from (atomic_add_vector(_vector(name, count)) for count in lanes)


def _vector(name: str, lanes: int) -> DType:
    return as_dtype(f"{name}x{lanes}")


INSTRUCTIONS: Mapping[str, Instruction] = MappingProxyType({record.name: record for record in _instructions()})
