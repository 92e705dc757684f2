import pytest

from tilelang.targets.amd.gemm_tiles import gemm_tiles
from tilelang.targets.amd.machines import MACHINES

BYTES = 2  # of an element


@pytest.mark.parametrize("rows", [None, 4096, 16, 7])
@pytest.mark.parametrize("arch", MACHINES)
def test_tiles_fit_the_machine(arch: str, rows: int | None) -> None:
    machine = MACHINES[arch]
    tiles = gemm_tiles(machine, rows)
    assert tiles
    for tile in tiles:
        assert tile.threads % machine.warp_size == 0 and tile.threads <= machine.max_threads
        assert (tile.block_M + tile.block_N) * tile.block_K * BYTES <= machine.shared_bytes
    assert rows is None or rows > 32 or all(tile.block_M >= rows for tile in tiles)


def test_more_shared_memory_takes_larger_tiles() -> None:
    assert set(map(str, gemm_tiles(MACHINES["gfx950"], None))) > set(map(str, gemm_tiles(MACHINES["gfx942"], None)))
