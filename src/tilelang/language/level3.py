"""Thread primitives: the names of level 3, which say what single threads do.

Gives one function per name. Invariant: on targets without threads of their own these names have no meaning, so that
staging one is an error that says what to write instead; nothing is ever silently dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NoReturn

from tilelang.errors import NoLowering
from tilelang.language.stage import current

_LOOP = "write a T.Parallel loop: the compiler shares its iterations among the threads"
_ORDER = "leave it out: a block's statements run in order, and the compiler keeps threads in step by itself"
_COPY = "write T.copy: the compiler chooses how data moves, in the background where the loop is T.Pipelined"
_GEMM = "write T.gemm: the compiler chooses the matrix instruction"
_REDUCE = "write T.reduce_sum, T.reduce_max or T.reduce_min, or update a scalar in a T.Parallel loop"
_ROLES = "leave it out: T.Pipelined overlaps loads and arithmetic without roles for warps"
_MEMORY = "index the buffer: A[i, j]"
_CALL = "write it with the operators of the language, or mark a Python function @T.macro"

_GROUPS: tuple[tuple[str, str], ...] = (
    (_LOOP, "get_warp_idx_sync"),
    (_ORDER, "sync_threads sync_warp sync_grid sync_cluster alloc_barrier alloc_cluster_barrier "
             "create_list_of_mbarrier get_mbarrier barrier_arrive barrier_wait mbarrier_arrive "
             "mbarrier_wait_parity mbarrier_expect_tx fence_proxy_async attr"),
    (_REDUCE, "shfl_sync shfl_xor shfl_up shfl_down any_sync all_sync ballot_sync match_any_sync match_all_sync "
              "warp_reduce_sum warp_reduce_max warp_reduce_min warp_reduce_bitand warp_reduce_bitor comm_reducer "
              "tvm_thread_allreduce"),
    (_COPY, "tma_copy ptx_cp_async ptx_cp_async_bulk ptx_commit_group ptx_wait_group ptx_ldmatrix ptx_stmatrix "
            "tma_store_arrive tma_store_wait ldg stg ldg32 ldg64 ldg128 stg32 stg64 stg128"),
    (_GEMM, "ptx_mma ptx_mma_sp wgmma_gemm wait_wgmma warpgroup_arrive warpgroup_commit_batch warpgroup_wait "
            "warpgroup_fence_operand gemm_sp tcgen05_gemm"),
    (_ROLES, "ws set_max_nreg inc_max_nreg dec_max_nreg no_set_max_nreg disable_warp_group_reg_alloc "
             "annotate_producer_reg_dealloc annotate_consumer_reg_alloc"),
    (_MEMORY, "access_ptr address_of tvm_access_ptr"),
    (_CALL, "inline_ptx call_extern call_intrin call_pure_extern import_source"),
)  # fmt: skip

HINTS: Mapping[str, str] = MappingProxyType({name: hint for hint, names in _GROUPS for name in names.split()})


def refuse(name: str) -> NoReturn:
    """Says that a name of level 3 has no meaning without GPU threads.

    Raises:
        NoLowering: Always.
    """
    raise NoLowering(
        f"T.{name}: says what single GPU threads do, which has no meaning on target cpu; "
        "this version has no GPU target yet",
        hint=HINTS[name],
    )


def _primitive(name: str) -> Callable[..., NoReturn]:
    def primitive(*args: object, **kwargs: object) -> NoReturn:
        current(f"T.{name}")
        refuse(name)

    primitive.__name__ = primitive.__qualname__ = name
    primitive.__doc__ = f"A thread primitive of GPUs (level 3); on target cpu an error. Instead, {HINTS[name]}."
    return primitive


PRIMITIVES: Mapping[str, Callable[..., NoReturn]] = MappingProxyType({name: _primitive(name) for name in HINTS})
