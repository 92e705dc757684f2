"""Clusters: blocks that are scheduled together, have a common barrier and access each other's shared memory (level 3).

Takes places in the executing block's own shared memory and ranks of blocks, emits calls of instructions. Invariant: a
address in another block is the same offset as in one's own. A cluster barrier is needed before the first access to
another block's memory, and before a block exits whose memory others may still access.
"""

from __future__ import annotations

import math

from tilelang.errors import ProgramError
from tilelang.ir.buffer import Region, Scope
from tilelang.ir.expr import Expr, ExprLike, as_expr, cast
from tilelang.language.address import Pointer
from tilelang.language.api import api
from tilelang.language.barriers import Barrier, barrier_region
from tilelang.language.calls import emit_call, inside_kernel, rank_in_cluster
from tilelang.language.pointers import Place, address_of
from tilelang.language.threads import get_block_binding, get_block_extent
from tilelang.targets.nvidia.isa.cluster import (
    CLUSTER_ARRIVE,
    CLUSTER_WAIT,
)
from tilelang.targets.nvidia.isa.cluster import cluster_load as load_instruction
from tilelang.targets.nvidia.isa.cluster import cluster_store as store_instruction
from tilelang.targets.nvidia.isa.cluster import cluster_store_async as store_async_instruction

__all__ = [
    "cluster_load",
    "cluster_store",
    "cluster_store_async",
    "cluster_sync",
    "get_cluster_dims",
    "get_cluster_extent",
    "get_cluster_extents",
    "get_cluster_id",
    "get_cluster_ids",
    "get_cluster_size",
    "sync_cluster",
]


@api
def get_cluster_dims() -> list[int]:
    """The extents of a cluster in blocks along x, y and z, as given by `cluster_dims=` of the kernel; 1 without it."""
    return list(inside_kernel("T.get_cluster_dims")[1].cluster)


@api
def get_cluster_size() -> int:
    """The number of blocks of a cluster, the product of `cluster_dims=` of the kernel."""
    return math.prod(get_cluster_dims())


@api
def get_cluster_id(dim: int = 0) -> Expr:
    """The index of the executing block's cluster along dimension 0 (x), 1 (y) or 2 (z) of the grid.

    Example:
        `first_block = T.get_cluster_id() * T.get_cluster_dims()[0]`
    """
    return get_block_binding(dim) // inside_kernel("T.get_cluster_id")[1].cluster[dim]


@api
def get_cluster_ids() -> list[Expr]:
    """The index of the executing block's cluster along the three dimensions of the grid."""
    return [get_cluster_id(dim) for dim in range(3)]


@api
def get_cluster_extent(dim: int = 0) -> int | Expr:
    """The number of clusters along dimension 0, 1 or 2 of the grid."""
    blocks, size = get_block_extent(dim), get_cluster_dims()[dim]
    return (blocks + size - 1) // size


@api
def get_cluster_extents() -> list[int | Expr]:
    """The numbers of clusters along the three dimensions of the grid."""
    return [get_cluster_extent(dim) for dim in range(3)]


@api
def cluster_sync() -> None:
    """Every thread of every block of the cluster waits here for all others, and sees what they did before."""
    _barrier("T.cluster_sync")


@api
def sync_cluster() -> None:
    """The same as `T.cluster_sync`."""
    _barrier("T.sync_cluster")


@api
def cluster_load(element: Place, rank: ExprLike) -> Expr:
    """An element of another block's shared memory.

    Args:
        element: The same element of the executing block's memory, `S[i, j]`.
        rank: The block's number in the cluster.

    Raises:
        ProgramError: The element is not in shared memory, or the cluster has no such block.

    Example:
        `x = T.cluster_load(S[i], rank ^ 1)`
    """
    what = "T.cluster_load"
    region = _shared(what, element)
    result = emit_call(
        what, load_instruction(region.dtype), region, rank_in_cluster(what, rank), reads=(region,), name="remote"
    )
    assert result is not None
    return result


@api
def cluster_store(element: Place, rank: ExprLike, value: ExprLike) -> None:
    """Writes an element of another block's shared memory. As `T.cluster_load` otherwise.

    Args:
        element: The same element of the executing block's memory.
        rank: The block's number in the cluster.
        value: What is written, converted to the dtype of the element.
    """
    what = "T.cluster_store"
    region = _shared(what, element)
    converted = cast(as_expr(value), region.dtype)
    emit_call(what, store_instruction(region.dtype), region, rank_in_cluster(what, rank), converted, writes=(region,))


@api
def cluster_store_async(element: Place, rank: ExprLike, value: ExprLike, barrier: Barrier) -> None:
    """Writes an element of another block's shared memory, whose barrier counts the bytes when they are there.

    That block announces them with `T.mbarrier_arrive_expect_tx`.

    Args:
        element: The same element of the executing block's memory, of 4 or 8 bytes.
        rank: The block's number in the cluster.
        value: What is written, converted to the dtype of the element.
        barrier: The same barrier of the executing block.
    """
    what = "T.cluster_store_async"
    region, counted = _shared(what, element), barrier_region(what, barrier)
    converted = cast(as_expr(value), region.dtype)
    instruction = store_async_instruction(region.dtype)
    emit_call(what, instruction, region, rank_in_cluster(what, rank), converted, counted, writes=(region,))


def _barrier(what: str) -> None:
    emit_call(what, CLUSTER_ARRIVE)
    emit_call(what, CLUSTER_WAIT)


def _shared(what: str, element: Place) -> Region:
    pointer = element if isinstance(element, Pointer) else address_of(element)
    region = pointer.region
    if region.buffer.scope is not Scope.SHARED:
        raise ProgramError(
            f"{what}: '{region.buffer.name}' is in scope {region.buffer.scope.value!r}, but blocks reach each other's "
            "shared memory only",
            hint="allocate it with T.alloc_shared",
        )
    return Region(region.buffer, region.start, tuple(as_expr(1) for _ in region.start))
