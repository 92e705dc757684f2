import pytest
from warp_alone import WarpAlone, run

from tilelang.targets.nvidia.isa.dependent_launch import GRID_DEPENDENCY_LAUNCH, GRID_DEPENDENCY_WAIT
from tilelang.targets.target import Target


@pytest.mark.parametrize("instruction", [GRID_DEPENDENCY_WAIT, GRID_DEPENDENCY_LAUNCH])
def test_launches_that_run_one_after_the_other_need_nothing(instruction):
    warp = WarpAlone()
    run(instruction, warp)
    assert [] == warp.asked


@pytest.mark.parametrize("instruction", [GRID_DEPENDENCY_WAIT, GRID_DEPENDENCY_LAUNCH])
def test_hopper_is_the_first_to_have_them(instruction):
    assert Target("cuda", "sm_90a").has(instruction.needs)
    assert not Target("cuda", "sm_89").has(instruction.needs)
