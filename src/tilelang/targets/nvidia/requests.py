"""The lowerings that level 3 functions request by name: TMA for `T.tma_copy`, wgmma for `T.wgmma_gemm`.

Gives the names of these lowerings, and the `Request` by which an operator accepts no other.
"""

from __future__ import annotations

from tilelang.ir.request import Request
from tilelang.targets.nvidia.machines import Feature

COPY_TMA_LOAD, COPY_TMA_STORE = "copy.tma", "copy.tma_store"
ATOMIC_TMA_REDUCE = "atomic.tma_reduce"
GEMM_WGMMA = "gemm.wgmma"


def request_tma(what: str, *, load: bool, multicast: bool = False) -> Request:
    """Requests TMA for the copy of function `what`; `multicast` is to several blocks of a cluster."""
    needs = Feature.TMA | Feature.CLUSTER if multicast else Feature.TMA
    return Request(what, COPY_TMA_LOAD if load else COPY_TMA_STORE, needs, "T.copy")


def request_wgmma(what: str, instead: str) -> Request:
    """Requests wgmma for the gemm of function `what`; the error on other GPUs suggests `instead`."""
    return Request(what, GEMM_WGMMA, Feature.WGMMA, instead, requires=f"{what} requires Hopper WGMMA lowering")
