"""How programs are compiled for the host's processor: a lowering for each tile operator, passes, printer, compiler."""

from __future__ import annotations

from types import MappingProxyType

from tilelang.backends.backend import Backend
from tilelang.codegen.cpp import emit
from tilelang.lowering.cpu.copy import lower_atomic_tile, lower_copy, lower_fill, lower_transpose
from tilelang.lowering.cpu.gemm import lower_gemm
from tilelang.lowering.cpu.im2col import lower_im2col
from tilelang.lowering.cpu.lines import lower_line_fold, lower_scan
from tilelang.lowering.cpu.reduce import lower_reduce
from tilelang.ops.atomic import AtomicTile
from tilelang.ops.copy import Copy, Transpose
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm
from tilelang.ops.im2col import Im2Col
from tilelang.ops.lines import LineFold
from tilelang.ops.reduce import Reduce
from tilelang.ops.scan import Scan
from tilelang.passes import pipelines
from tilelang.passes.tile.lower_tile_ops import Lowerings

LOWERINGS: Lowerings = MappingProxyType(
    {
        AtomicTile: lower_atomic_tile,
        Copy: lower_copy,
        Fill: lower_fill,
        Gemm: lower_gemm,
        Im2Col: lower_im2col,
        LineFold: lower_line_fold,
        Reduce: lower_reduce,
        Scan: lower_scan,
        Transpose: lower_transpose,
    }
)

BACKEND = Backend(kind="cpu", passes=pipelines.cpu(LOWERINGS), emit=emit)
