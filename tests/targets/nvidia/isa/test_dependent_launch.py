import pytest
from warp_alone import WarpAlone, run

from tilelang.targets.nvidia.isa.dependent_launch import GRID_DEPENDENCY_LAUNCH, GRID_DEPENDENCY_WAIT
from tilelang.targets.target import Target


@pytest.mark.parametrize(("instruction", "asked"), [(GRID_DEPENDENCY_WAIT, [("join_launches",)]), (GRID_DEPENDENCY_LAUNCH, [])])
def test_only_the_wait_is_seen_where_launches_run_one_after_the_other(instruction, asked):
    warp = WarpAlone()
    run(instruction, warp)
    assert asked == warp.asked


@pytest.mark.parametrize("instruction", [GRID_DEPENDENCY_WAIT, GRID_DEPENDENCY_LAUNCH])
def test_hopper_is_the_first_to_have_them(instruction):
    assert Target("cuda", "sm_90a").has(instruction.needs)
    assert not Target("cuda", "sm_89").has(instruction.needs)
