"""How programs are compiled for the invented machine: ways to do each tile operator, and passes."""

from __future__ import annotations

from types import MappingProxyType

from invented import pipelines
from invented.lowerings.gemm_matrix import GemmMatrix
from tilelang.codegen.source import Source
from tilelang.errors import NoLowering
from tilelang.ir.func import PrimFunc
from tilelang.lowering.by_loop import ByLoop
from tilelang.lowering.lowering import Lowerings
from tilelang.ops.combine import CombineReduce
from tilelang.ops.gemm import Gemm
from tilelang.ops.scan import Scan
from tilelang.targets.backend import Backend
from tilelang.targets.gpu.lowerings import gemm_loops
from tilelang.targets.gpu.lowerings.combine_reduce import SimtCombineReduce
from tilelang.targets.gpu.lowerings.gemm_fma import GemmFma
from tilelang.targets.gpu.lowerings.scan import SimtScan

LOWERINGS: Lowerings = MappingProxyType(
    {
        Gemm: (GemmMatrix(), GemmFma(), ByLoop(gemm_loops.NAME)),
        CombineReduce: (SimtCombineReduce(),),
        Scan: (SimtScan(),),
    }
)


def _emit(func: PrimFunc) -> Source:
    raise NoLowering(f"{func.name}: the invented machine has no language")


BACKEND = Backend(kind="invented", passes=pipelines.passes(LOWERINGS), emit=_emit)
