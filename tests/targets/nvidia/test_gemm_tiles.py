"""Tiles for NVIDIA's GPUs are those of their instructions."""

import pytest

from tilelang.targets.nvidia.gemm_tiles import gemm_tiles
from tilelang.targets.nvidia.machines import MACHINES


@pytest.mark.parametrize(("arch", "stages", "scheduled"), [("sm_75", {1, 2}, False), ("sm_80", {2, 3, 4}, False), ("sm_90a", {4}, True)])
def test_stages_and_schedules_are_those_of_the_machine(arch: str, stages: set[int], scheduled: bool) -> None:
    tiles = gemm_tiles(MACHINES[arch], None)
    assert stages == {tile.num_stages for tile in tiles}
    assert scheduled == any(tile.pass_configs for tile in tiles)


def test_gemms_of_few_rows_have_one_row_of_tiles_on_hopper() -> None:
    for rows, height in ((1, 16), (16, 16), (17, 32)):
        assert {height} == {tile.block_M for tile in gemm_tiles(MACHINES["sm_90a"], rows)}
