"""The names of level 3 that no target of this version gives a meaning.

Gives one function per name. Invariant: staging one is an error that says what to write instead; nothing is ever
silently dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NoReturn

from tilelang.errors import NoLowering
from tilelang.language.stage import current

_ROLES = "leave it out: T.Pipelined overlaps loads and arithmetic without roles for warps"
_BARRIER = "leave it out: the compiler waits for data where it is used; T.sync_threads brings all threads together"
_COPY = "write T.copy: the compiler chooses how data moves, in the background where the loop is T.Pipelined"
_GEMM = "write T.gemm: the compiler chooses the matrix instruction"
_REDUCE = "write T.reduce_sum and its kin, update a scalar in a T.Parallel loop, or use T.warp_reduce_sum"
_GRID = "end the kernel and begin another one: kernels of one function run in order"
_CALL = "write T.call_extern with a function of T.import_source"

_GROUPS: tuple[tuple[str, str], ...] = (
    (_GRID, "sync_cluster"),
    (_BARRIER, "alloc_cluster_barrier mbarrier_expect_tx fence_proxy_async"),
    (_REDUCE, "comm_reducer tvm_thread_allreduce"),
    (_COPY, "tma_copy ptx_cp_async_bulk tma_store_arrive tma_store_wait"),
    (_GEMM, "ptx_mma_sp wgmma_gemm wait_wgmma warpgroup_arrive warpgroup_commit_batch warpgroup_wait "
            "warpgroup_fence_operand gemm_sp tcgen05_gemm"),
    (_ROLES, "set_max_nreg inc_max_nreg dec_max_nreg no_set_max_nreg disable_warp_group_reg_alloc "
             "annotate_producer_reg_dealloc annotate_consumer_reg_alloc"),
    (_CALL, "call_intrin call_pure_extern"),
)  # fmt: skip

HINTS: Mapping[str, str] = MappingProxyType({name: hint for hint, names in _GROUPS for name in names.split()})


def refuse(name: str) -> NoReturn:
    """Says that a name of level 3 has no meaning on any target of this version.

    Raises:
        NoLowering: Always.
    """
    raise NoLowering(
        f"T.{name}: no target of this version has it",
        hint=HINTS[name],
    )


def _primitive(name: str) -> Callable[..., NoReturn]:
    def primitive(*args: object, **kwargs: object) -> NoReturn:
        current(f"T.{name}")
        refuse(name)

    primitive.__name__ = primitive.__qualname__ = name
    primitive.__doc__ = f"A name of level 3 that no target of this version has. Instead, {HINTS[name]}."
    return primitive


PRIMITIVES: Mapping[str, Callable[..., NoReturn]] = MappingProxyType({name: _primitive(name) for name in HINTS})
