"""Barriers in shared memory that count arrivals (level 3): rings of producers and consumers are made of them.

Takes counts of arrivals, emits the allocation and initialization of barriers, and calls of their instructions.
Invariant: all threads of the block find a barrier initialized, since it is allocated where all of them pass.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.dtypes import as_dtype
from tilelang.errors import ProgramError, ProgramValueError
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.builder import as_body
from tilelang.ir.expr import Expr, ExprLike, as_expr, int_const
from tilelang.ir.stmt import Alloc, CallStmt, If, Stmt
from tilelang.isa.instruction import Instruction
from tilelang.language.api import api
from tilelang.language.barriers import Barrier, barrier_region, numbered_barrier
from tilelang.language.calls import emit_call, rank_in_cluster
from tilelang.language.proxy import BufferProxy
from tilelang.language.stage import current
from tilelang.language.threads import linear_thread
from tilelang.targets.gpu.isa.sync import SYNC_THREADS
from tilelang.targets.nvidia.isa.cluster import CLUSTER_ARRIVE, CLUSTER_WAIT, mbarrier_arrive_remote
from tilelang.targets.nvidia.isa.mbarrier import (
    FENCE_MBARRIER_INIT,
    MBARRIER_ARRIVE,
    MBARRIER_INIT,
)
from tilelang.targets.nvidia.isa.mbarrier_state import MAX_ARRIVALS

__all__ = [
    "alloc_barrier",
    "alloc_cluster_barrier",
    "barrier_arrive",
    "create_barriers",
    "create_list_of_mbarrier",
    "get_mbarrier",
    "mbarrier_arrive",
    "ptx_init_barrier_thread_count",
]

_KIND = as_dtype("uint64")  # an opaque object of 64 bits. Source: PTX ISA, "mbarrier", "Contents"
_ONE = as_expr(1)
_KERNEL_DEPTH = 2  # open blocks directly inside of a kernel: the function's and its own

@api
def alloc_barrier(arrive_count: int | Sequence[int]) -> BufferProxy:
    """Barriers in shared memory that count arrivals; `bar[i]` is one of them.

    A phase of a barrier is complete when it has counted as many arrivals as it was allocated with, and the next one
    begins then. The barriers are ready for all threads after the statement. Needs sm_80.

    Args:
        arrive_count: How many arrivals complete a phase; a list makes as many barriers.

    Raises:
        ProgramError: A count is not positive, or the statement stands in a loop or branch.

    Example:
        `full = T.alloc_barrier([32, 32])`
    """
    return _alloc("T.alloc_barrier", "barrier", arrive_count)


@api
def create_list_of_mbarrier(*arrive_counts: int | Sequence[int]) -> BufferProxy:
    """The barriers that `T.get_mbarrier` and numbers in place of barriers mean. As `T.alloc_barrier` otherwise.

    Raises:
        ProgramError: The kernel has such barriers already.
    """
    what = "T.create_list_of_mbarrier"
    hints = current(what).hints
    if hints is not None and hints.barriers is not None:
        raise ProgramError(f"{what}: the kernel has one already", hint="give it all counts at once")
    counts: list[int] = []
    for count in arrive_counts:
        counts += [count] if isinstance(count, int) else count
    barriers = _alloc(what, "mbarriers", counts)
    assert hints is not None
    hints.barriers = barriers.buffer
    return barriers


@api
def get_mbarrier(index: ExprLike) -> Expr:
    """A barrier of `T.create_list_of_mbarrier`, by its number."""
    return numbered_barrier("T.get_mbarrier", index)


@api
def alloc_cluster_barrier(arrive_count: int | Sequence[int]) -> BufferProxy:
    """As `T.alloc_barrier`, ready for all threads of the cluster after the statement. Needs sm_90."""
    return _alloc("T.alloc_cluster_barrier", "barrier", arrive_count, of_cluster=True)


@api
def barrier_arrive(mbarrier: Barrier, cta_id: ExprLike | None = None) -> None:
    """Every thread that gets here counts once as arrived, and goes on.

    What it did before is seen by those that wait for the phase.

    Args:
        mbarrier: `bar[i]`.
        cta_id: The number in the cluster of the block whose barrier at the same place is meant. Then what was read
            before has been read, but what was written is not certain to be seen.
    """
    _arrive("T.barrier_arrive", mbarrier, cta_id)


@api
def mbarrier_arrive(mbarrier: Barrier, cta_id: ExprLike | None = None) -> None:
    """The same as `T.barrier_arrive`."""
    _arrive("T.mbarrier_arrive", mbarrier, cta_id)


# -- raw forms ---------------------------------------------------------------------------------------------------
@api
def create_barriers(barrier_count: int) -> BufferProxy:
    """Makes `barrier_count` barriers of one arrival each, to which numbers in place of barriers then refer.

    `T.ptx_init_barrier_thread_count` gives each its count. As `T.create_list_of_mbarrier` otherwise.
    """
    return create_list_of_mbarrier(*[1] * barrier_count)


@api
def ptx_init_barrier_thread_count(mbarrier: Barrier, thread_count: int) -> None:
    """Every executing thread initializes the barrier, for `thread_count` arrivals per phase; let one thread do so.

    Other threads may use it after a barrier of the block.

    Raises:
        ProgramError: The number of arrivals is no plain number, or none that a barrier counts.
    """
    what = "T.ptx_init_barrier_thread_count"
    (count,) = _arrival_counts(what, thread_count)
    _emit(what, MBARRIER_INIT, mbarrier, as_expr(count))


def _alloc(
    what: str, name: str, arrive_count: int | Sequence[int], *, of_cluster: bool = False
) -> BufferProxy:
    stager = current(what)
    thread = linear_thread(what)
    if stager.depth != _KERNEL_DEPTH:
        raise ProgramError(
            f"{what}: stands in a loop or branch", hint="allocate barriers at the beginning of the kernel, once"
        )
    counts = _arrival_counts(what, arrive_count)
    buffer = Buffer(stager.suggest(name), (as_expr(len(counts)),), _KIND, Scope.BARRIER, loc=stager.loc)
    stager.emit(Alloc(buffer))
    inits: list[Stmt] = [
        CallStmt(MBARRIER_INIT, (Region(buffer, (as_expr(i),), (_ONE,)), as_expr(n)), written=what, loc=stager.loc)
        for i, n in enumerate(counts)
    ]
    if of_cluster:
        inits.append(CallStmt(FENCE_MBARRIER_INIT, (), written=what, loc=stager.loc))
    stager.emit(If(thread == 0, as_body(inits, stager.loc)))
    for instruction in (CLUSTER_ARRIVE, CLUSTER_WAIT) if of_cluster else (SYNC_THREADS,):
        stager.emit(CallStmt(instruction, (), written=what))
    return BufferProxy(buffer)


def _arrival_counts(what: str, arrive_count: int | Sequence[int]) -> list[int]:
    given = list(arrive_count) if isinstance(arrive_count, list | tuple) else [arrive_count]
    counts = [int_const(as_expr(count)) if isinstance(count, int | Expr) else None for count in given]
    found = [count for count in counts if count is not None and 1 <= count <= MAX_ARRIVALS]
    if not found or len(found) < len(counts):
        raise ProgramValueError(
            f"{what}: expected counts of arrivals from 1 to {MAX_ARRIVALS}, got {arrive_count!r:.40}",
            hint="count the arrivals that complete a phase: 128 where each of 128 threads arrives, 1 where one thread "
            "does or copies alone complete it; [128, 1] makes two barriers",
        )
    return found


def _arrive(what: str, barrier: Barrier, cta_id: ExprLike | None) -> None:
    if cta_id is None:
        _emit(what, MBARRIER_ARRIVE, barrier)
    else:
        _emit(what, mbarrier_arrive_remote(), barrier, rank_in_cluster(what, cta_id))


def _emit(what: str, instruction: Instruction, barrier: Barrier, *operands: Expr) -> Expr | None:
    return emit_call(what, instruction, barrier_region(what, barrier), *operands)
