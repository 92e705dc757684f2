"""The `T` namespace: `import tilelang.language as T`.

Gathers what kernels are written with: each module of the language lists its public names in `__all__`. Names that come
in families (dtypes, intrinsics, thread primitives) are added from their tables; a name that does not exist is an error
with the nearest one that does (`tilelang.finder`).
"""

from __future__ import annotations

import sys

from tilelang.language.alloc import *
from tilelang.language.allreduce import *
from tilelang.language.annotate import *
from tilelang.language.annotate_layout import *
from tilelang.language.arithmetic import *
from tilelang.language.assumptions import *
from tilelang.language.atomic import *
from tilelang.language.blocks import *
from tilelang.language.casts import *
from tilelang.language.classes import *
from tilelang.language.copies import *
from tilelang.language.debug import *
from tilelang.language.derived import *
from tilelang.language.dtypes import DTYPES, DataType, dtype
from tilelang.language.eager import *
from tilelang.language.extern import *
from tilelang.language.groups import *
from tilelang.language.ieee import *
from tilelang.language.kernel import *
from tilelang.language.legacy_blocks import *
from tilelang.language.legacy_calls import *
from tilelang.language.level3 import PRIMITIVES
from tilelang.language.loops import *
from tilelang.language.macro import *
from tilelang.language.math import *
from tilelang.language.math import FUNCTIONS
from tilelang.language.meta import *
from tilelang.language.nodes import *
from tilelang.language.normalization import *
from tilelang.language.operator_classes import *
from tilelang.language.parameters import *
from tilelang.language.pointers import *
from tilelang.language.prim_func import *
from tilelang.language.products import *
from tilelang.language.random_numbers import *
from tilelang.language.reducers import *
from tilelang.language.reductions import *
from tilelang.language.scans import *
from tilelang.language.selection import *
from tilelang.language.tensors import *
from tilelang.language.thread_return import *
from tilelang.language.threads import *
from tilelang.language.tile import *
from tilelang.language.tile_scheduler import *
from tilelang.language.types import *
from tilelang.language.vectors import *
from tilelang.layout import (
    Fragment,
    Layout,
    PartialFragment,
    make_linear_layout,
    make_mma_swizzle_layout,
    make_swizzled_layout,
)
from tilelang.ops.gemm import GemmWarpPolicy
from tilelang.targets.gpu.language.functions import FUNCTIONS as GPU_FUNCTIONS
from tilelang.targets.gpu.language.warp import *
from tilelang.targets.nvidia.language.async_copies import *
from tilelang.targets.nvidia.language.barriers import *
from tilelang.targets.nvidia.language.blackwell import *
from tilelang.targets.nvidia.language.blackwell import INSTRUCTIONS
from tilelang.targets.nvidia.language.clusters import *
from tilelang.targets.nvidia.language.copy_engine import *
from tilelang.targets.nvidia.language.functions import FUNCTIONS as NVIDIA_FUNCTIONS
from tilelang.targets.nvidia.language.hinted_access import *
from tilelang.targets.nvidia.language.inline_ptx import *
from tilelang.targets.nvidia.language.matrix_instructions import *
from tilelang.targets.nvidia.language.mma_emitter import *
from tilelang.targets.nvidia.language.mma_index import *
from tilelang.targets.nvidia.language.multicast import *
from tilelang.targets.nvidia.language.source_kernel import *
from tilelang.targets.nvidia.language.sparse_gemm import *
from tilelang.targets.nvidia.language.sync import *
from tilelang.targets.nvidia.language.warpgroups import *
from tilelang.targets.nvidia.language.wide_access import FUNCTIONS as WIDE_ACCESSES

# the modules above whose names are part of the language
_MODULES = (
    *(
        f"tilelang.language.{name}"
        for name in """
        alloc allreduce annotate annotate_layout arithmetic assumptions atomic blocks casts classes copies debug
        derived eager extern groups ieee kernel legacy_blocks legacy_calls loops macro math meta nodes
        normalization operator_classes parameters pointers prim_func products random_numbers reducers reductions scans
        selection tensors thread_return threads tile tile_scheduler types vectors
        """.split()
    ),
    *(f"tilelang.targets.gpu.language.{name}" for name in ("warp",)),
    *(
        f"tilelang.targets.nvidia.language.{name}"
        for name in """
        async_copies barriers blackwell clusters copy_engine hinted_access inline_ptx matrix_instructions mma_emitter
        mma_index multicast source_kernel sparse_gemm sync warpgroups
        """.split()
    ),
)

globals().update(DTYPES)  # float16, int8x4, half, ...
globals().update(FUNCTIONS)  # exp, sqrt, __exp, ...
globals().update(PRIMITIVES)  # names that only raise: ptx_cp_async_bulk, tvm_call_packed, ...
globals().update(INSTRUCTIONS)  # tcgen05_mma, tma_load_2sm, ...
globals().update(GPU_FUNCTIONS)  # sync_warp, shfl_sync, ...
globals().update(NVIDIA_FUNCTIONS)  # barrier_wait, cluster_arrive, ...
globals().update(WIDE_ACCESSES)  # ldg32, sts128, ...

__all__ = [
    "DataType",
    "Fragment",
    "GemmWarpPolicy",
    "Layout",
    "PartialFragment",
    "dtype",
    "make_linear_layout",
    "make_mma_swizzle_layout",
    "make_swizzled_layout",
    *(name for module in _MODULES for name in sys.modules[module].__all__),
    *DTYPES,
    *FUNCTIONS,
    *PRIMITIVES,
    *INSTRUCTIONS,
    *GPU_FUNCTIONS,
    *NVIDIA_FUNCTIONS,
    *WIDE_ACCESSES,
]
