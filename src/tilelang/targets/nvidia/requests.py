"""The ways to do tile operators that functions of level 3 ask for by name: by the copy engine, by warpgroups.

Gives the names of these lowerings, and the `Request` of an operator that nothing else may do.
"""

from __future__ import annotations

from tilelang.ir.request import Request
from tilelang.targets.nvidia.machines import Feature

COPY_TMA_LOAD, COPY_TMA_STORE = "copy.tma", "copy.tma_store"
GEMM_WGMMA = "gemm.wgmma"


def by_copy_engine(what: str, *, load: bool, multicast: bool = False) -> Request:
    """For a copy that the user asks of the copy engine by a name; `multicast` is to several blocks of a cluster."""
    needs = Feature.TMA | Feature.CLUSTER if multicast else Feature.TMA
    return Request(what, COPY_TMA_LOAD if load else COPY_TMA_STORE, needs, "T.copy")


def by_warpgroups(what: str, instead: str) -> Request:
    """For a gemm that the user asks of the instructions of warpgroups by a name; `instead` does without."""
    return Request(what, GEMM_WGMMA, Feature.WGMMA, instead, requires=f"{what} requires Hopper WGMMA lowering")
