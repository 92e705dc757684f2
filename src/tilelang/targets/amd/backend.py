"""The backend for AMD GPUs: lowerings of each tile operator, passes, code generator."""

from __future__ import annotations

from types import MappingProxyType

from tilelang.lowering import by_loop
from tilelang.lowering.lowering import Lowerings
from tilelang.ops.atomic import AtomicTile
from tilelang.ops.combine import CombineReduce
from tilelang.ops.copy import Copy, Transpose
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm
from tilelang.ops.im2col import Im2Col
from tilelang.ops.reduce import Reduce
from tilelang.ops.scan import Scan
from tilelang.targets.amd import pipelines
from tilelang.targets.amd.codegen.hip import emit
from tilelang.targets.amd.lowerings.copy_direct import DirectCopy
from tilelang.targets.amd.lowerings.gemm_mfma import GemmMatrix
from tilelang.targets.backend import Backend
from tilelang.targets.gpu.lowerings.combine_reduce import SimtCombineReduce
from tilelang.targets.gpu.lowerings.gemm_fma import GemmFma
from tilelang.targets.gpu.lowerings.scan import SimtScan

# By operator, its lowerings in order of preference: `choose_lowerings` takes the first that accepts
LOWERINGS: Lowerings = MappingProxyType(
    {
        AtomicTile: (by_loop.ATOMIC,),
        Copy: (DirectCopy(), by_loop.COPY),
        Fill: (by_loop.FILL,),
        Gemm: (GemmMatrix(), GemmFma(), by_loop.GEMM),
        Im2Col: (by_loop.IM2COL,),
        CombineReduce: (SimtCombineReduce(),),
        Reduce: (by_loop.REDUCE,),
        Scan: (SimtScan(),),
        Transpose: (by_loop.TRANSPOSE,),
    }
)

BACKEND = Backend(kind="hip", passes=pipelines.passes(LOWERINGS), emit=emit)
