"""What is set and fits the machine passes; what does not is refused with the nearest that does."""

import pytest
from specialized import TABLE, context, gemm_kernel, launch_of

from tilelang.errors import ProgramError, ResourceError
from tilelang.saved_schedule import ScheduleOverrides
from tilelang.schedule.load_groups import flatten_sequences
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import target_capabilities
from tilelang.targets.nvidia.passes.warp_specialization.check_overrides import check_consumers, check_overrides
from tilelang.targets.nvidia.schedule import Schedule

FUNC = gemm_kernel(512, 512, 512)
LAUNCH = flatten_sequences(launch_of(FUNC))
GROUPS = target_capabilities(FUNC, TABLE, context()).load_groups(LAUNCH).found


def checked(schedule, **overrides):
    check_overrides(LAUNCH, ScheduleOverrides(**overrides), schedule, GROUPS, (), 200_000)


def test_what_fits_passes():
    checked(Schedule(2, 4))
    checked(Schedule(2, 4), stages=4, registers=(240, 24))
    check_consumers(LAUNCH, 2, lambda count: "")
    check_consumers(LAUNCH, 2, lambda count: "none can")  # the launch is not specialized then


def test_results_that_cannot_be_stored_through_shared_memory():
    reason = "no results can be stored through shared memory while the next tile is computed"
    with pytest.raises(ProgramError, match=f"'tl.staged' cannot be True: {reason}") as caught:
        checked(Schedule(2, 4), epilogue_parts=True)
    assert "'tl.staged': 0 fits" == caught.value.hint


def test_more_stages_than_there_are_are_refused():
    with pytest.raises(ResourceError, match="5 stages of 32768 bytes take 163840 bytes .* a block has 200000 for them") as caught:
        checked(Schedule(2, 4), stages=5)
    assert "'tl.stages': 4 fits" == caught.value.hint


@pytest.mark.parametrize("consumers,registers,fitting", [(1, (256, 256), None), (2, (240, 40), [240, 24]), (3, (168, 32), [160, 32])])
def test_more_registers_than_there_are_are_refused(consumers, registers, fitting):
    if fitting is None:
        checked(Schedule(consumers, 4), registers=registers)
        return
    with pytest.raises(ResourceError, match="and a multiprocessor has 65536") as caught:
        checked(Schedule(consumers, 4), registers=registers)
    assert f"'registers': {fitting} fits" == caught.value.hint


def test_two_blocks_at_once_share_the_registers():
    checked(Schedule(1, 1, blocks_per_sm=2), registers=(232, 24))
    with pytest.raises(ResourceError, match="take 35840, and a multiprocessor has 65536 for 2 blocks at once") as caught:
        checked(Schedule(1, 1, blocks_per_sm=2), registers=(240, 40))
    assert "'registers': [232, 24] fits" == caught.value.hint


def test_the_nearest_number_of_warpgroups_that_can_share_the_work_is_named():
    with pytest.raises(ProgramError, match="4 consumer warp groups cannot share the work: not 4") as caught:
        check_consumers(LAUNCH, 4, lambda count: "" if count in (1, 2) else f"not {count}")
    assert "'tl.consumers': 2 fits" == caught.value.hint
