"""The CPU's record: a way to do every tile operator, and passes from tile level to thread level."""

from tilelang.backends.cpu import BACKEND, LOWERINGS
from tilelang.ops.catalogue import TILE_OPS
from tilelang.ops.cluster_sum import ClusterSum


def test_every_tile_operator_but_that_of_clusters_has_a_lowering():
    assert set(TILE_OPS) - {ClusterSum} == set(LOWERINGS)


def test_the_record_serves_cpu_targets():
    assert "cpu" == BACKEND.kind
    assert "check_program" == BACKEND.passes[0].name
