"""Tiles of gemms say how many blocks share one."""

from tilelang.targets.gemm_tile import GemmTile


def test_the_split_is_read_from_the_switches() -> None:
    assert 1 == GemmTile(64, 64, 32).split
    assert 4 == GemmTile(64, 64, 32, switches={"tl.split": 4}).split
    assert (1, 8) == (GemmTile(64, 64, 32).parts, GemmTile(64, 64, 32, switches={"tl.workspace_split": 8}).parts)


def test_clusters_are_read_from_the_switches() -> None:
    assert (1, 1) == GemmTile(64, 64, 32).multicast
    assert (1, 2) == GemmTile(64, 64, 32, switches={"tl.cluster": (1, 2)}).multicast
