"""A launch becomes two: one whose blocks store sums of parts, and one that adds them up and runs the epilogue."""

import pytest
from specialized import TARGET, gemm_kernel, warp_specialize

import tilelang.language as T
from tilelang.errors import ProgramError
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import Launch
from tilelang.ir.verify import verify
from tilelang.ir.visit import walk
from tilelang.options import CompileOptions
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.passes.tile import inline_bindings
from tilelang.targets.nvidia.backend import BACKEND, LOWERINGS
from tilelang.targets.nvidia.passes import workspace_split_k
from tilelang.targets.nvidia.passes.gemm_loop import NotSplit
from tilelang.targets.target import Target

PASSES = (inline_bindings.PASS, workspace_split_k.workspace_split_k(LOWERINGS))


def launches(func):
    return [stmt for stmt in walk(func.body) if isinstance(stmt, Launch)]


def text(func, **pass_configs):
    made = warp_specialize(func, passes=PASSES, **pass_configs)
    verify(made)
    lines = to_text(made).splitlines()
    begin = next(n for n, line in enumerate(lines) if "T.Kernel" in line or "alloc_global" in line)
    return [line.strip() for line in lines[begin:] if line.strip()]


def notes(func, **pass_configs):
    (launch,) = launches(warp_specialize(func, passes=PASSES, **pass_configs))
    return [note.text for note in launch.plan.notes]


def test_each_block_has_its_share_and_then_its_columns():
    shown = text(gemm_kernel(64, 256, 512, 64, 128, 64), workspace_split=2)
    assert shown == [
        'C_l_sums = T.alloc_global((2, 1, 2, 64, 128), "float32")',
        "with T.Kernel(2, 1, 2, threads=128) as (bx, by, part):",
        'A_s = T.alloc_shared((64, 64), "float16")',
        'B_s = T.alloc_shared((64, 128), "float16")',
        'C_l = T.alloc_fragment((64, 128), "float32")',
        "T.fill(C_l, 0.0)",
        "for k in T.Pipelined(4, num_stages=3):",
        "T.copy(A[by * 64:by * 64 + 64, (part * 4 + k) * 64:(part * 4 + k) * 64 + 64], A_s)",
        "T.copy(B[(part * 4 + k) * 64:(part * 4 + k) * 64 + 64, bx * 128:bx * 128 + 128], B_s)",
        "T.gemm(A_s, B_s, C_l)",
        "T.copy(C_l, C_l_sums[part, by, bx, :, :])",
        "with T.Kernel(2, 1, 8, threads=128) as (bx, by, piece):",
        "grid_dependency_wait()",
        'C_l_own = T.alloc_fragment((64, 16), "float32")',
        "for i, j in T.Parallel(64, 16):",
        "C_l_own[i, j] = C_l_sums[0, by, bx, i, piece * 16 + j] + C_l_sums[1, by, bx, i, piece * 16 + j]",
        "T.copy(C_l_own, C[by * 64:by * 64 + 64, bx * 128 + piece * 16:bx * 128 + piece * 16 + 16])",
    ]


def test_parts_are_added_in_their_order_some_at_a_time():
    shown = text(gemm_kernel(64, 64, 64 * 10, 64, 64, 64), workspace_split=10)
    sums = [line for line in shown if line.startswith("C_l_own[i, j] =")]
    assert [8, 2] == [line.count("C_l_sums[") for line in sums]
    assert sums[1].startswith("C_l_own[i, j] = C_l_own[i, j] + C_l_sums[8,")


def test_columns_that_do_not_divide_are_left_to_one_block():
    shown = text(gemm_kernel(64, 24, 512, 64, 24, 64), workspace_split=2)
    assert "with T.Kernel(1, 1, 1, threads=128) as (bx, by, piece):" in shown


def test_the_cost_model_decides_where_the_user_does_not():
    few = gemm_kernel(512, 512, 16384, 128, 128, 64)
    assert 2 == len(launches(warp_specialize(few, passes=PASSES)))
    for asked in ({"split": 1}, {"cluster": (2, 1)}, {"persistent": True}, {"workspace_split": 1}):
        assert 1 == len(launches(warp_specialize(few, passes=PASSES, **asked)))
    assert 1 == len(launches(warp_specialize(gemm_kernel(4096, 4096, 4096), passes=PASSES)))


def test_other_machines_and_other_instructions_have_one_launch():
    few = gemm_kernel(512, 512, 16384, 128, 128, 64)
    options = CompileOptions.from_user({"tl.workspace_split": 4})
    (launch,) = launches(run_passes(few, PASSES, PassContext(options, Target("cuda", "sm_80"))))
    assert 1 == launch.plan.workspace_split
    assert 1 == len(launches(warp_specialize(few, passes=PASSES, disable_warp_specialized=True)))


@pytest.mark.parametrize(
    ("func", "reason", "fitting"),
    [
        (gemm_kernel(512, 512, 16384, 128, 128, 64, cluster=2), "blocks run in clusters already", 1),
        (gemm_kernel(T.dynamic("m"), 64, 512, 64, 64, 64), "only the call knows how many tiles there are", 1),
        (gemm_kernel(512, 512, 192), "4 blocks would share iterations of which there are 3", 3),
    ],
)
def test_what_cannot_be_split_is_refused(func, reason, fitting):
    with pytest.raises(ProgramError) as caught:
        warp_specialize(func, passes=PASSES, workspace_split=4)
    assert f"pass_configs: 'tl.workspace_split' cannot be 4: {reason}" == caught.value.message
    assert f"'tl.workspace_split': {fitting} fits" == caught.value.hint


def test_one_block_does_not_add_up_whole_tiles_unasked():
    (launch,) = launches(warp_specialize(gemm_kernel(64, 24, 512, 64, 24, 64), passes=(inline_bindings.PASS,)))
    with pytest.raises(NotSplit, match="one block would add up whole tiles, since 24 columns are too few"):
        workspace_split_k.split(launch, 2, required=False)


def test_a_saved_schedule_splits_again():
    func, context = gemm_kernel(512, 512, 16384, 128, 128, 64), PassContext(CompileOptions(), TARGET)
    first = launches(run_passes(func, BACKEND.passes, context))
    assert [8, 1] == [launch.plan.workspace_split for launch in first]
    from tilelang.saved_schedule import schedule_text

    saved = schedule_text([launch.plan.overrides for launch in first])
    again = PassContext(CompileOptions.from_user({"tl.schedule": saved}), TARGET)
    assert saved == schedule_text([each.plan.overrides for each in launches(run_passes(func, BACKEND.passes, again))])
