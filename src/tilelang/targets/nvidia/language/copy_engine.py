"""Explicit copies by TMA: loads that complete on mbarriers, stores that the program waits for (level 3).

Takes tiles of global and shared memory, emits a `Copy` with a request that no other lowering accepts. Invariant: the
copy is asynchronous; its effects are visible only after a wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from tilelang.dtypes import INT32
from tilelang.errors import ProgramError, ProgramValueError
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import const
from tilelang.language.api import api
from tilelang.language.barriers import Barrier, barrier_region
from tilelang.language.calls import inside_kernel
from tilelang.language.copies import steering
from tilelang.language.operators import plain_int
from tilelang.language.regions import Operand, align
from tilelang.language.types import DTypeLike, plain_dtype
from tilelang.ops.copy import Copy
from tilelang.targets.nvidia.isa.cache_policy import NORMAL
from tilelang.targets.nvidia.language.multicast import multicast_mask, source_of_lowest_rank
from tilelang.targets.nvidia.machines import WARP_SIZE
from tilelang.targets.nvidia.requests import request_tma

__all__ = [
    "tma_copy",
    "tma_gather4_bytes",
]



@api
def tma_copy(
    src: Operand,
    dst: Operand,
    *,
    barrier: Barrier | None = None,
    cluster_mask: int | None = None,
    leader_scope_threads: int | None = None,
    eviction_policy: str | None = None,
    annotations: Mapping[str, object] | None = None,
) -> None:
    """Copies a tile between global and shared memory asynchronously by TMA. Needs sm_90.

    All threads of the block, or of the enclosing group, execute it, and one of them issues it. Where only some threads
    of a warp execute it, as in `if thread == 0:` or `if T.shuffle_elect(128):`, each of these issues it.

    A load, from global to shared memory, needs a barrier. The statement expects its bytes there but does not arrive:
    the phase completes when all bytes and all arrivals are counted, one of which must follow the load in the issuing
    thread. Elements out of bounds are 0.

    A store, from shared to global memory, is a bulk group of its own. `T.tma_store_wait` waits for it; until then the
    tile must not be written. Elements out of bounds are not written.

    Shapes: as of `T.copy`, whole tiles of at least two dimensions or rows, of equal dtypes. Rows are multiples of 16
    bytes, in shared memory and from row to row of the tensor. A tile begins at a multiple of 16 bytes of a row of the
    tensor, and a store not before the first element of the tensor; otherwise the GPU traps and the simulator raises.

    Args:
        src: What is read.
        dst: What is written.
        barrier: `bar[i]` of `T.alloc_barrier`, for loads.
        cluster_mask: For loads in clusters: the blocks that receive one tile by multicast, one bit for each rank. The
            one of lowest rank issues the load of its tile for all; it is written at the same offset in each, and each
            expects the bytes at its own barrier. All of them execute the statement, after a cluster barrier that
            publishes their mbarriers. Blocks outside of the mask load their own tile.
        leader_scope_threads: One of this many threads issues the copy, a multiple of 32; by default one of all that
            execute it. Each of several issuing threads expects its bytes.
        eviction_policy: "evict_normal", "evict_first" or "evict_last": how long the L2 cache should keep what is read.
        annotations: A dict of the same options, which win over the keywords.

    Raises:
        ProgramValueError: The extents do not fit, or an option has no such value.
        ProgramError: A load has no barrier or a store has one, or the cluster has no such blocks.
        NoLowering: The GPU has no TMA, or TMA cannot copy this tile, with the reason.

    Example:
        `T.tma_copy(A[by * 128, k * 64], A_s[k % 4, :, :], barrier=full[k % 4])`
    """
    what = "T.tma_copy"
    stager, _ = inside_kernel(what)
    given = steering(
        what,
        annotations,
        barrier=barrier,
        cluster_mask=cluster_mask,
        leader_scope_threads=leader_scope_threads,
        eviction_policy=eviction_policy,
    )
    counted = None if given["barrier"] is None else barrier_region(what, given["barrier"])  # type: ignore[arg-type]
    mask = None if given["cluster_mask"] is None else multicast_mask(what, given["cluster_mask"])
    if counted is None and mask is not None:
        raise ProgramError(f"{what}: only loads are multicast", hint="leave cluster_mask out")
    source, target = align(src, dst, what)
    op = Copy(
        source if mask is None else source_of_lowest_rank(source, mask),
        target,
        eviction=given["eviction_policy"] or NORMAL,  # type: ignore[arg-type]
        is_async=counted is None,
        barrier=counted,
        request=request_tma(what, load=counted is not None, multicast=mask is not None),
        multicast_mask=None if mask is None else const(mask, INT32),
        leaders=_leaders(what, given["leader_scope_threads"]),
    )
    op.check()
    if counted is None and (source.buffer.scope, target.buffer.scope) != (Scope.SHARED, Scope.GLOBAL):
        _refuse_uncounted(what, source.buffer, target.buffer)
    stager.emit(op)


def _refuse_uncounted(what: str, src: Buffer, dst: Buffer) -> NoReturn:
    """Refuses a copy without a barrier that is no store."""
    if (src.scope, dst.scope) == (Scope.GLOBAL, Scope.SHARED):
        raise ProgramError(
            f"{what}: there is no barrier to count the bytes that come to '{dst.name}'",
            hint=f"allocate full = T.alloc_barrier(1), write {what}(..., barrier=full), let one thread arrive there, "
            "and wait for it before the tile is read",
        )
    raise ProgramError(
        f"{what}: TMA copies tiles between global and shared memory, but this copy is from "
        f"'{src.name}' ({src.scope.value}) to '{dst.name}' ({dst.scope.value})",
        hint="write T.copy",
    )


def _leaders(what: str, value: object) -> int | None:
    """The checked option `leader_scope_threads`."""
    if value is None:
        return None
    number = plain_int(what, "leader_scope_threads", value)
    if number < 1 or number % WARP_SIZE:
        raise ProgramValueError(
            f"{what}: leader_scope_threads is {number}, no positive multiple of the {WARP_SIZE} threads of a warp",
            hint="leave it out: one of all threads that execute it issues the copy",
        )
    return number


@api
def tma_gather4_bytes(K_box: int, dtype: DTypeLike) -> int:
    """The bytes of four rows of `K_box` elements, as a barrier counts them."""
    what = "T.tma_gather4_bytes"
    return 4 * plain_int(what, "K_box", K_box) * plain_dtype(dtype, what).storage_bytes
