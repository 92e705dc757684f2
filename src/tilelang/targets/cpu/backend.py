"""How programs are compiled for the host's processor: a lowering for each tile operator, passes, printer, compiler."""

from __future__ import annotations

from types import MappingProxyType

from tilelang.ops.atomic import AtomicTile
from tilelang.ops.combine import CombineReduce
from tilelang.ops.copy import Copy, Transpose
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm
from tilelang.ops.im2col import Im2Col
from tilelang.ops.reduce import Reduce
from tilelang.ops.scan import Scan
from tilelang.passes.tile.lower_tile_ops import Lowerings
from tilelang.targets.backend import Backend
from tilelang.targets.cpu import pipelines
from tilelang.targets.cpu.codegen.cpp import emit
from tilelang.targets.cpu.lowerings.combine import lower_combine_reduce, lower_scan
from tilelang.targets.cpu.lowerings.copy import lower_atomic_tile, lower_copy, lower_fill, lower_transpose
from tilelang.targets.cpu.lowerings.gemm import lower_gemm
from tilelang.targets.cpu.lowerings.im2col import lower_im2col
from tilelang.targets.cpu.lowerings.reduce import lower_reduce

LOWERINGS: Lowerings = MappingProxyType(
    {
        AtomicTile: lower_atomic_tile,
        Copy: lower_copy,
        Fill: lower_fill,
        Gemm: lower_gemm,
        Im2Col: lower_im2col,
        CombineReduce: lower_combine_reduce,
        Reduce: lower_reduce,
        Scan: lower_scan,
        Transpose: lower_transpose,
    }
)

BACKEND = Backend(kind="cpu", passes=pipelines.passes(LOWERINGS), emit=emit)
