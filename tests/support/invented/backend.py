"""How programs are compiled for the invented machine: the lowerings of each tile operator, and passes."""

from __future__ import annotations

from types import MappingProxyType

from invented import pipelines
from invented.lowerings.gemm_matrix import GemmMatrix
from tilelang.codegen.source import Source
from tilelang.errors import NoLowering
from tilelang.ir.func import PrimFunc
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
from tilelang.targets.backend import Backend
from tilelang.targets.gpu.lowerings.combine_reduce import SimtCombineReduce
from tilelang.targets.gpu.lowerings.gemm_fma import GemmFma
from tilelang.targets.gpu.lowerings.scan import SimtScan

LOWERINGS: Lowerings = MappingProxyType(
    {
        AtomicTile: (by_loop.ATOMIC,),
        Copy: (by_loop.COPY,),
        Fill: (by_loop.FILL,),
        Gemm: (GemmMatrix(), GemmFma(), by_loop.GEMM),
        Im2Col: (by_loop.IM2COL,),
        CombineReduce: (SimtCombineReduce(),),
        Reduce: (by_loop.REDUCE,),
        Scan: (SimtScan(),),
        Transpose: (by_loop.TRANSPOSE,),
    }
)


def _emit(func: PrimFunc) -> Source:
    raise NoLowering(f"{func.name}: the invented machine has no language")


BACKEND = Backend(kind="invented", passes=pipelines.passes(LOWERINGS), emit=_emit)
