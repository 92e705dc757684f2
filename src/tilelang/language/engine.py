"""The copy engine as a program uses it itself: loads that barriers count, stores that it awaits (level 3).

Takes tiles of global and shared memory, emits a `Copy` that nothing else may do, and calls of the instructions around
it. Invariant: what the engine does is over when the program has waited for it, and not before.
"""

from __future__ import annotations

import math

from tilelang.dtypes import INT32
from tilelang.errors import ProgramError
from tilelang.ir.expr import Expr, ExprLike, as_expr, cast, int_const
from tilelang.isa.nvidia.cache_policy import EVICTIONS, NORMAL
from tilelang.isa.nvidia.fence import FENCE_PROXY_ASYNC, FENCE_PROXY_ASYNC_GLOBAL
from tilelang.isa.nvidia.tma import TMA_STORE_COMMIT
from tilelang.isa.nvidia.tma import tma_store_wait as store_wait
from tilelang.language.api import api
from tilelang.language.barriers import Barrier, barrier_region
from tilelang.language.calls import emit_call, inside_kernel
from tilelang.language.operators import plain_int
from tilelang.language.regions import Operand, align
from tilelang.ops.copy import Copy

__all__ = [
    "fence_proxy_async",
    "tma_copy",
    "tma_store_arrive",
    "tma_store_wait",
]

_FENCES = {"shared": FENCE_PROXY_ASYNC, "global": FENCE_PROXY_ASYNC_GLOBAL}


@api
def tma_copy(
    src: Operand,
    dst: Operand,
    barrier: Barrier | None = None,
    eviction_policy: str | None = None,
    cluster_mask: ExprLike | None = None,
) -> None:
    """Lets the copy engine move a tile between global and shared memory, while the threads go on. Needs sm_90.

    The threads of the block, or of the group around, do it together: one of them starts the engine. Where only some
    threads of a warp come, as in `if thread == 0:` or `if T.shuffle_elect(128):`, each that does starts it.

    A load, from global to shared memory, needs a barrier. The statement announces its bytes there, and nobody arrives:
    the phase is complete when all arrivals have come, among them one of those who started the load behind it, and all
    bytes. Out of bounds it gives 0.

    A store, from shared to global memory, is a group of its own. `T.tma_store_wait` waits for it; until then the tile
    must not be written. Out of bounds nothing is written.

    Shapes: as of `T.copy`, whole tiles of at least two dimensions or rows, of equal dtypes. Rows are multiples of 16
    bytes, in shared memory and from row to row of the tensor. A tile begins at a multiple of 16 bytes of a row of the
    tensor, and one that is stored not before the tensor: elsewhere the GPU stops, as the simulator says.

    Args:
        src: What is read.
        dst: What is written.
        barrier: `bar[i]` of `T.alloc_barrier`, for loads.
        eviction_policy: "evict_normal", "evict_first" or "evict_last": how long the L2 cache should keep what is read.
        cluster_mask: For loads in clusters: the blocks that the tile is brought to, one bit for each rank. It comes to
            the same place of each of them, and the same barrier of each counts its bytes. What comes then is announced
            by each block itself, with `T.mbarrier_arrive_expect_tx`.

    Raises:
        ProgramError: A load has no barrier or a store has one, the tiles are not such as `T.copy` takes, or the cluster
            has no such blocks.
        NoLowering: The GPU has no such engine, or the engine cannot move this tile; says why.

    Example:
        `T.tma_copy(A[by * 128, k * 64], A_s[k % 4, :, :], barrier=full[k % 4])`
    """
    what = "T.tma_copy"
    stager, _ = inside_kernel(what)
    if eviction_policy not in (None, *EVICTIONS):
        known = ", ".join(EVICTIONS)
        raise ProgramError(f"{what}: eviction_policy is {eviction_policy!r:.40}", hint=f"one of {known}")
    counted = None if barrier is None else barrier_region(what, barrier)
    if counted is None and cluster_mask is not None:
        raise ProgramError(f"{what}: only loads come to several blocks", hint="leave cluster_mask out")
    stored = counted is None
    receivers = None if cluster_mask is None else _receivers(what, cluster_mask)
    op = Copy(
        *align(src, dst, what),
        eviction=eviction_policy or NORMAL,
        pending=stored,
        barrier=counted,
        explicit=True,
        receivers=receivers,
    )
    op.check()
    stager.emit(op)


def _receivers(what: str, cluster_mask: ExprLike) -> Expr:
    """The blocks that a tile is brought to, one bit for each."""
    blocks = math.prod(inside_kernel(what)[1].cluster)
    mask = int_const(as_expr(cluster_mask))
    if mask is not None and not 0 < mask < 1 << blocks:
        raise ProgramError(
            f"{what}: cluster_mask is {mask:#b}, but the bits of a cluster of {blocks} are 1 to {(1 << blocks) - 1:#b}",
            hint="name the blocks that shall have the tile" if blocks > 1 else "write T.Kernel(..., cluster_dims=2)",
        )
    return cast(as_expr(cluster_mask), INT32)


@api
def tma_store_arrive() -> None:
    """Closes a group of the stores that the thread has started since the last one.

    `T.tma_copy` has closed its own already, so that this one is empty: `T.tma_store_wait` counts it, too.
    """
    emit_call("T.tma_store_arrive", TMA_STORE_COMMIT)


@api
def tma_store_wait(count: int = 0, read: bool = True) -> None:
    """Waits until all stores of `T.tma_copy` but the newest ones have been read, so that their tiles may be written.

    It is for the thread that started them to wait: the first one of the block, or of the group around. The compiler
    keeps the others from writing the tile before.

    Args:
        count: How many of the newest groups of stores may be under way.
        read: False waits until they have been written to global memory as well.

    Raises:
        ProgramError: The count is no plain number, or negative.
    """
    what = "T.tma_store_wait"
    number = plain_int(what, "count", count)
    if number < 0:
        raise ProgramError(f"{what}: {number} groups cannot be under way", hint="write 0, or a small number")
    emit_call(what, store_wait(number, read=bool(read)))


@api
def fence_proxy_async(space: str = "shared") -> None:
    """Makes what the thread has written visible to engines that are told of it later.

    The copy engine and the matrix instructions of warpgroups read memory by a way of their own. Between tile operators
    the compiler puts this fence where it is needed. It does not for `T.tma_copy` of global memory that threads have
    written in the same launch: there, execute it with "global" behind what tells of the writes, such as an atomic that
    acquires, in the thread that starts the engine.

    Args:
        space: "shared" or "global": the memory that the thread has written.

    Raises:
        ProgramError: There is no such memory.
    """
    what = "T.fence_proxy_async"
    if space not in _FENCES:
        raise ProgramError(f"{what}: {space!r:.40} is no memory", hint="write 'shared' or 'global'")
    emit_call(what, _FENCES[space])
