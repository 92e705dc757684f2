"""The backend for NVIDIA GPUs: lowerings of each tile operator, passes, code generator."""

from __future__ import annotations

from types import MappingProxyType

from tilelang.lowering import by_loop
from tilelang.lowering.lowering import Lowerings
from tilelang.ops.any_exceeds import AnyExceeds
from tilelang.ops.atomic import AtomicTile
from tilelang.ops.cluster_sum import ClusterSum
from tilelang.ops.combine import CombineReduce
from tilelang.ops.copy import Copy, Transpose
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm
from tilelang.ops.gemm_wait import GemmWait
from tilelang.ops.im2col import Im2Col
from tilelang.ops.reduce import Reduce
from tilelang.ops.scan import Scan
from tilelang.targets.backend import Backend
from tilelang.targets.gpu.lowerings.combine_reduce import SimtCombineReduce
from tilelang.targets.gpu.lowerings.gemm_fma import GemmFma
from tilelang.targets.gpu.lowerings.scan import SimtScan
from tilelang.targets.nvidia import pipelines
from tilelang.targets.nvidia.codegen.cuda import emit
from tilelang.targets.nvidia.lowerings.any_exceeds import VoteOfWarpgroup
from tilelang.targets.nvidia.lowerings.atomic_tma import TmaReduce
from tilelang.targets.nvidia.lowerings.cluster_sum import PushSums
from tilelang.targets.nvidia.lowerings.copy_async import AsyncCopy
from tilelang.targets.nvidia.lowerings.copy_im2col import TmaIm2Col
from tilelang.targets.nvidia.lowerings.copy_tma import TmaLoad
from tilelang.targets.nvidia.lowerings.copy_tma_store import TmaStore
from tilelang.targets.nvidia.lowerings.gemm_mma import GemmMma
from tilelang.targets.nvidia.lowerings.gemm_wait import WgmmaWait
from tilelang.targets.nvidia.lowerings.gemm_wgmma import GemmWgmma
from tilelang.targets.nvidia.lowerings.operand_load import OperandLoad

# By operator, its lowerings in order of preference: `choose_lowerings` takes the first that accepts. Loops are divided
# among threads by `targets.gpu.lowerings.parallel`, reductions across threads by `thread_all_reduce` beside it
LOWERINGS: Lowerings = MappingProxyType(
    {
        AnyExceeds: (VoteOfWarpgroup(),),
        AtomicTile: (TmaReduce(), by_loop.ATOMIC),
        ClusterSum: (PushSums(),),
        Copy: (TmaLoad(), TmaStore(), AsyncCopy(), OperandLoad(), by_loop.COPY),
        Fill: (by_loop.FILL,),
        Gemm: (GemmWgmma(), GemmMma(), GemmFma(), by_loop.GEMM),
        GemmWait: (WgmmaWait(),),
        Im2Col: (TmaIm2Col(), by_loop.IM2COL),
        CombineReduce: (SimtCombineReduce(),),
        Reduce: (by_loop.REDUCE,),
        Scan: (SimtScan(),),
        Transpose: (by_loop.TRANSPOSE,),
    }
)

BACKEND = Backend(kind="cuda", passes=pipelines.passes(LOWERINGS), emit=emit)
