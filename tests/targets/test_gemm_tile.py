"""Tiles of gemms say how many blocks share one."""

from tilelang.targets.gemm_tile import GemmTile


def test_the_split_is_read_from_the_switches() -> None:
    assert 1 == GemmTile(64, 64, 32).cluster_splits
    assert 4 == GemmTile(64, 64, 32, pass_configs={"tl.split": 4}).cluster_splits
    assert 1 == GemmTile(64, 64, 32).workspace_splits
    assert 8 == GemmTile(64, 64, 32, pass_configs={"tl.workspace_split": 8}).workspace_splits


def test_clusters_are_read_from_the_switches() -> None:
    assert (1, 1) == GemmTile(64, 64, 32).multicast
    assert (1, 2) == GemmTile(64, 64, 32, pass_configs={"tl.cluster": (1, 2)}).multicast
