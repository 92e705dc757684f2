"""What a user sets and no kernel has is said once for the program, with what to set instead where there is such."""

import pytest
from specialized import gemm_kernel

import tilelang
import tilelang.language as T
from tilelang.ir.launch import LaunchPlan
from tilelang.options import CompileOptions
from tilelang.schedule.unused_overrides import unused_overrides

TARGETS = ("c", {"kind": "cuda", "arch": "sm_75"}, {"kind": "hip", "arch": "gfx942"})
HOPPER = {"kind": "cuda", "arch": "sm_90a"}
SINCE = "since no kernel here has warps that are specialized as producers and consumers"


def noted(func, target, **configs):
    configs = {f"tl.{key}": value for key, value in configs.items()}
    backend = "auto" if target == "c" else "simulator"
    kernel = tilelang.compile(func, target=target, execution_backend=backend, pass_configs=configs)
    return [line for line in kernel.explain().splitlines() if line.startswith("pass_configs")]


@T.prim_func
def double(A: T.Tensor((256,), "float32")):
    with T.Kernel(2, threads=128) as bx:
        for i in T.Parallel(128):
            A[bx * 128 + i] *= 2.0


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_schedules_of_other_machines_have_no_effect(target):
    func = gemm_kernel(256, 256, 256)
    assert [] == noted(func, target)
    assert [f"pass_configs: 'tl.consumers', 'tl.cluster' have no effect, {SINCE}"] == noted(
        func, target, consumers=2, cluster=(2, 1)
    )
    assert [
        f"pass_configs: 'tl.stages' has no effect, {SINCE}; num_stages of T.Pipelined says how far other kernels load ahead"
    ] == noted(func, target, stages=4)


def test_kernels_without_a_gemm_have_no_producer_whatever_is_set():
    assert [f"pass_configs: 'tl.split', 'tl.workspace_split' have no effect, {SINCE}"] == noted(
        double, HOPPER, split=2, workspace_split=4
    )


def test_what_is_set_holds_or_is_off_without_a_note():
    assert [] == noted(gemm_kernel(256, 256, 256), HOPPER, stages=2, consumers=1, persistent=True)
    assert [] == noted(gemm_kernel(512, 512, 1024), HOPPER, workspace_split=4)
    assert [] == noted(
        double, HOPPER, persistent=False, ping_pong=False, split=1, cluster=(1, 1), staged=0, in_flight=0, last_wave=1
    )


def test_a_saved_schedule_has_no_effect_where_no_loop_is_placed():
    assert [f"pass_configs: 'tl.schedule' has no effect, {SINCE}"] == noted(gemm_kernel(256, 256, 256), "c", schedule='[{"stages": 3, "loops": [null]}]')


def test_keys_of_published_tilelang_that_steer_nothing_are_named():
    options = CompileOptions.from_user({"tl.enable_fast_math": True, "tl.layout_cost_model": 1, "tir.noalias": True})
    assert [
        "pass_configs: 'tir.noalias', 'tl.layout_cost_model' have no effect, since only published TileLang takes such "
        "decisions"
    ] == unused_overrides(options, [LaunchPlan()])
