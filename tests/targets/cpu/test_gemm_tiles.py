"""Tiles for a CPU need no schedule."""

from tilelang.targets.cpu.gemm_tiles import gemm_tiles
from tilelang.targets.machine import Machine


def test_tiles_have_one_version_and_no_switches() -> None:
    tiles = gemm_tiles(Machine("native"), None)
    assert {(1, 128, ())} == {(tile.num_stages, tile.threads, tuple(tile.pass_configs)) for tile in tiles}
