"""What is set and fits the machine passes; what does not is refused with the nearest that does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from specialized import TABLE, context, gemm_kernel, launch_of, warp_specialize

from tilelang.errors import ProgramError, ResourceError
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.passes.tile import inline_bindings
from tilelang.saved_schedule import ScheduleOverrides
from tilelang.schedule.load_groups import flatten_sequences
from tilelang.targets.nvidia.passes.choose_schedule import choose_schedule
from tilelang.targets.nvidia.passes.warp_specialization.capabilities import target_capabilities
from tilelang.targets.nvidia.passes.warp_specialization.check_overrides import check_consumers, check_overrides
from tilelang.targets.nvidia.schedule import Schedule
from tilelang.targets.target import Target

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


def test_fewer_registers_than_the_accumulator_has_are_refused():
    with pytest.raises(ResourceError, match="40 registers of a consumer's thread .* which take 64 where most") as caught:
        checked(Schedule(2, 4), registers=(40, 24))
    assert "'registers': [240, 24] fits" == caught.value.hint
    checked(Schedule(2, 4), registers=(64, 24))


def test_two_blocks_at_once_share_the_registers():
    checked(Schedule(1, 1, blocks_per_sm=2), registers=(232, 24))
    with pytest.raises(ResourceError, match="take 35840, and a multiprocessor has 65536 for 2 blocks at once") as caught:
        checked(Schedule(1, 1, blocks_per_sm=2), registers=(240, 40))
    assert "'registers': [232, 24] fits" == caught.value.hint


def test_the_nearest_number_of_warpgroups_that_can_share_the_work_is_named():
    with pytest.raises(ProgramError, match="4 consumer warp groups cannot share the work: not 4") as caught:
        check_consumers(LAUNCH, 4, lambda count: "" if count in (1, 2) else f"not {count}")
    assert "'tl.consumers': 2 fits" == caught.value.hint


# -- whole kernels ---------------------------------------------------------------------------------------------------
PASSES = (inline_bindings.PASS, choose_schedule(TABLE))


def chosen(func, **pass_configs):
    return launch_of(warp_specialize(func, passes=PASSES, **pass_configs)).plan.schedule


def refused(func, **overrides):
    """The message and the hint of the error that a kernel gives."""
    with pytest.raises(ProgramError) as caught:
        chosen(func, **overrides)
    return caught.value.message.removeprefix("pass_configs: "), caught.value.hint


@pytest.mark.parametrize(
    ("overrides", "split", "reason", "fitting"),
    [
        ({"persistent": True}, 2, "'tl.persistent' lets blocks stay for several tiles", 1),
        ({"cluster": (2, 1)}, 2, "blocks run in clusters already", 1),
        ({"stages": 1}, 8, "8 blocks would share iterations of which there are 4", 4),
    ],
)
def test_a_split_that_cannot_be_is_refused(overrides, split, reason, fitting):
    message = f"'tl.split' cannot be {split}: {reason}"
    assert (message, f"'tl.split': {fitting} fits") == refused(gemm_kernel(128, 256, 256), split=split, **overrides)


def test_blocks_that_split_a_reduction_have_the_stages_that_are_set_or_it_is_refused():
    func = gemm_kernel(512, 512, 8192)
    assert 3 == chosen(func, split=4, stages=3).stages
    with pytest.raises(ResourceError, match="9 stages of 32768 bytes"):
        chosen(func, split=4, stages=9)


PLACED = '{"order": [0], "stage": [1]}'


@pytest.mark.parametrize(
    ("func", "rest", "reason"),
    [
        (gemm_kernel(8192, 8192, 1024), '"ping_pong": true', "two consumer warpgroups each compute every other tile"),
        (gemm_kernel(512, 512, 8192), '"split_k": 4', "4 blocks share its iterations"),
        (gemm_kernel(512, 512, 512), '"stages": 1', "its tiles have one version"),
    ],
)
def test_placements_that_schedules_do_not_have_are_refused(func, rest, reason):
    message, _ = refused(func, schedule=f'[{{"loops": [{PLACED}], {rest}}}]')
    assert f"'tl.schedule' gives this loop order=[0], stage=[1], but {reason}" == message


def test_overrides_with_which_warps_cannot_be_specialized_are_refused():
    message, hint = refused(gemm_kernel(4096, 4096, 4096, 256, 128, 128), staged=1)
    reason = "shared memory holds one version of 98304 bytes of tiles"
    assert f"warps cannot be specialized with 'tl.staged': 1: {reason}" == message
    assert "'tl.staged': 2 fits" == hint
    _, hint = refused(gemm_kernel(4096, 4096, 4096, 256, 128, 128), schedule='[{"epilogue_parts": 1, "loops": [null]}]')
    assert "'tl.staged': 2 and no 'loops' of 'tl.schedule' fit" == hint


WHY_NO_PING_PONG = (
    "two warpgroups alternate where blocks are persistent and their one loop is one gemm beside its loads; those that "
    "share tiles take turns where a software-pipelined loop issues several gemms at once"
)


@pytest.mark.parametrize(
    ("overrides", "message", "hint"),
    [
        (
            {"ping_pong": True, "persistent": False},
            f"'tl.ping_pong' cannot be True: {WHY_NO_PING_PONG}",
            "'tl.ping_pong': False fits",
        ),
        (
            {"ping_pong": True, "persistent": True, "consumers": 1},
            "1 consumer warp group cannot share the work: 2 alternate by 'tl.ping_pong'",
            "'tl.consumers': 2 fits",
        ),
        (
            {"stages": 1, "in_flight": 1},
            "'tl.in_flight' cannot be 1: no loop of at least two stages is one gemm beside its loads",
            "'tl.in_flight': 0 fits",
        ),
    ],
)
def test_what_contradicts_is_refused(overrides, message, hint):
    assert (message, hint) == refused(gemm_kernel(4096, 4096, 4096), **overrides)


def test_saved_schedules_of_other_machines_are_refused():
    options = CompileOptions.from_user({"tl.schedule": '[{"consumers": 2}]'})
    with pytest.raises(ProgramError, match="'tl.schedule' sets 'consumers' to 2, which kernels for sm_80 do not have"):
        run_passes(gemm_kernel(256, 256, 256), PASSES, PassContext(options, Target("cuda", "sm_80")))


def test_parts_that_no_results_have_are_refused():
    func = gemm_kernel(4096, 4096, 4096, 128, 256, 64)
    assert {True: 2, 2: 2} == {n: chosen(func, staged=n).epilogue_parts for n in (True, 2)}
    message = "'tl.staged' cannot be 3: no results have rows of 3 equal parts that can be stored through shared memory"
    assert (message, "'tl.staged': 2 fits") == refused(func, staged=3)


VALUES = {
    "persistent": [True, False], "consumers": [1, 2, 3], "stages": [1, 2, 4, 9], "staged": [0, 1, 2, 3],
    "in_flight": [0, 1], "ping_pong": [True, False], "cluster": [(2, 1, 1), (1, 2, 1)], "split": [1, 2, 8],
}  # fmt: skip
FIELDS = {"staged": "epilogue_parts", "in_flight": "mma_in_flight", "split": "split_k"}
KERNELS = (gemm_kernel(512, 512, 256), gemm_kernel(4096, 4096, 4096, 128, 256, 64), gemm_kernel(384, 512, 4096))


@given(
    st.sampled_from(KERNELS),
    st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in VALUES.items()}),
)
def test_whatever_is_set_holds_or_is_refused(func, overrides):
    try:
        schedule = chosen(func, **overrides)
    except (ProgramError, ResourceError) as error:
        assert "pass_configs: " in error.message and error.hint.endswith(("fits", "fit"))
        return
    for name, value in overrides.items():
        found = getattr(schedule, FIELDS.get(name, name))
        assert value == found or name == "cluster" and schedule.cluster == (1, 1, 1)  # where nothing is shared
