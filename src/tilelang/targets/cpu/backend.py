"""The CPU backend: lowerings of each tile operator, passes, code generator."""

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
from tilelang.targets.backend import Backend
from tilelang.targets.cpu import pipelines
from tilelang.targets.cpu.codegen.cpp import emit
from tilelang.targets.cpu.lowerings.combine import SerialCombineReduce, SerialScan
from tilelang.targets.cpu.lowerings.gemm import MicroKernel
from tilelang.targets.cpu.lowerings.im2col import SerialIm2Col
from tilelang.targets.cpu.lowerings.reduce import SerialReduce

# By operator, its lowerings in order of preference: `choose_lowerings` takes the first that accepts
LOWERINGS: Lowerings = MappingProxyType(
    {
        AtomicTile: (by_loop.ATOMIC,),
        Copy: (by_loop.COPY,),
        Fill: (by_loop.FILL,),
        Gemm: (MicroKernel(), by_loop.GEMM),
        Im2Col: (SerialIm2Col(),),
        CombineReduce: (SerialCombineReduce(),),
        Reduce: (SerialReduce(),),
        Scan: (SerialScan(),),
        Transpose: (by_loop.TRANSPOSE,),
    }
)

BACKEND = Backend(kind="cpu", passes=pipelines.passes(LOWERINGS), emit=emit)
