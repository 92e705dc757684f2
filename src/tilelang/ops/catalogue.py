"""Every tile operator."""

from __future__ import annotations

from tilelang.ir.stmt import TileOp
from tilelang.ops.any_exceeds import AnyExceeds
from tilelang.ops.arg_reduce import ArgReduce
from tilelang.ops.atomic import AtomicTile
from tilelang.ops.cluster_sum import ClusterSum
from tilelang.ops.combine import CombineReduce
from tilelang.ops.copy import Copy, Transpose
from tilelang.ops.fill import Fill
from tilelang.ops.gather_scatter import GatherRows, ScatterRows
from tilelang.ops.gemm import Gemm
from tilelang.ops.gemm_wait import GemmWait
from tilelang.ops.im2col import Im2Col
from tilelang.ops.online_softmax import OnlineSoftmax
from tilelang.ops.reduce import Reduce
from tilelang.ops.scan import Scan
from tilelang.ops.sort import Sort, TopK

TILE_OPS: tuple[type[TileOp], ...] = (
    Copy,
    Transpose,
    Fill,
    Gemm,
    GemmWait,
    Im2Col,
    CombineReduce,
    Reduce,
    Scan,
    OnlineSoftmax,
    ArgReduce,
    Sort,
    TopK,
    GatherRows,
    ScatterRows,
    AtomicTile,
    ClusterSum,
    AnyExceeds,
)
