"""How programs are compiled for NVIDIA GPUs: ways to do each tile operator, passes, printer."""

from __future__ import annotations

from types import MappingProxyType

from tilelang.backends.backend import Backend
from tilelang.codegen.cuda import emit
from tilelang.lowering.by_loop import ByLoop
from tilelang.lowering.lowering import Lowerings
from tilelang.lowering.nvidia.cluster_sum import PushSums
from tilelang.lowering.nvidia.copy_async import AsyncCopy
from tilelang.lowering.nvidia.copy_im2col import TmaIm2Col
from tilelang.lowering.nvidia.copy_tma import TmaLoad, TmaStore
from tilelang.lowering.nvidia.gemm_mma import GemmMma
from tilelang.lowering.nvidia.gemm_wgmma import GemmWgmma
from tilelang.lowering.simt import gemm_loops
from tilelang.lowering.simt.gemm_fma import GemmFma
from tilelang.lowering.simt.line_fold import SimtLineFold
from tilelang.lowering.simt.scan import SimtScan
from tilelang.ops.cluster_sum import ClusterSum
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.ops.im2col import Im2Col
from tilelang.ops.lines import LineFold
from tilelang.ops.scan import Scan
from tilelang.passes import pipelines

# The first row that does not refuse does the operator; operators without rows become parallel loops
LOWERINGS: Lowerings = MappingProxyType(
    {
        Copy: (TmaLoad(), TmaStore(), AsyncCopy(), ByLoop("copy.loop")),
        Gemm: (GemmWgmma(), GemmMma(), GemmFma(), ByLoop(gemm_loops.NAME)),
        Im2Col: (TmaIm2Col(), ByLoop("copy.loop")),
        LineFold: (SimtLineFold(),),
        Scan: (SimtScan(),),
        ClusterSum: (PushSums(),),
    }
)

BACKEND = Backend(kind="cuda", passes=pipelines.gpu(LOWERINGS), emit=emit)
