"""The CPU backend: a lowering of every tile operator, and passes from tile level to thread level."""

from tilelang.lowering.by_loop import LOOPS
from tilelang.ops.any_exceeds import AnyExceeds
from tilelang.ops.arg_reduce import ArgReduce
from tilelang.ops.atomic import AtomicTile
from tilelang.ops.catalogue import TILE_OPS
from tilelang.ops.cluster_sum import ClusterSum
from tilelang.ops.copy import Copy, Transpose
from tilelang.ops.fill import Fill
from tilelang.ops.gather_scatter import GatherRows, ScatterRows
from tilelang.ops.gemm import Gemm
from tilelang.ops.gemm_wait import GemmWait
from tilelang.ops.online_softmax import OnlineSoftmax
from tilelang.ops.sort import Sort, TopK
from tilelang.targets.cpu.backend import BACKEND, LOWERINGS

# written out as others before lowerings are chosen
EXPANDED = {ArgReduce, GatherRows, OnlineSoftmax, ScatterRows, Sort, TopK}


def test_every_tile_operator_but_those_that_passes_for_gpus_make_has_a_lowering():
    assert set(TILE_OPS) - {AnyExceeds, ClusterSum, GemmWait} - EXPANDED == set(LOWERINGS)


def test_other_operators_are_lowered_to_loops():
    by_loops = {kind for kind, rows in LOWERINGS.items() if rows == (LOOPS.get(kind),)}
    assert {AtomicTile, Copy, Fill, Transpose} == by_loops
    assert LOWERINGS[Gemm][-1] is LOOPS[Gemm]


def test_the_record_serves_cpu_targets():
    assert "cpu" == BACKEND.kind
    assert ["drop_optional_calls", "grow_fragments", "check_program"] == [p.name for p in BACKEND.passes[:3]]
