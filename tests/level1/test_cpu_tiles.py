"""Tests for tilelang.level1.cpu_tiles."""

from tilelang.level1.cpu_tiles import CpuTile, cpu_tiles

LARGEST = [(32, 64, 32), (64, 128, 128), (128, 128, 128), (256, 256, 256)]


def best(m: int, n: int, k: int) -> CpuTile:
    return cpu_tiles(m, n, k, LARGEST)[0]


def test_little_of_a_tile_is_padding() -> None:
    assert CpuTile(96, 96, 96) == best(96, 96, 96)
    assert CpuTile(200, 208, 208) == best(200, 200, 200)
    assert CpuTile(132, 144, 144) == best(130, 130, 130)
    assert CpuTile(4, 16, 16) == best(1, 1, 1)


def test_tiles_are_not_larger_than_the_largest_candidate() -> None:
    tile = best(5000, 5000, 5000)
    assert (True, True, True) == (tile.rows <= 256, tile.columns <= 256, tile.depth <= 256)


def test_of_tiles_that_cost_the_same_those_with_more_blocks_come_first() -> None:
    assert CpuTile(64, 128, 128) == best(128, 128, 128)


def test_tiles_for_unknown_sizes_stay_in_order_and_are_distinct() -> None:
    unknown = 1 << 30
    expected = [CpuTile(32, 64, 128), CpuTile(64, 128, 128), CpuTile(128, 128, 128), CpuTile(256, 256, 256)]
    assert expected == cpu_tiles(unknown, unknown, unknown, [*LARGEST, LARGEST[0]], known=False)
