"""The GPU's passes follow one another from the tile level to the thread level, and what they change is seen."""

import itertools

import pytest
from changes import difference
from examples_of import benchmark_programs

from tilelang.ir.func import Level
from tilelang.ir.visit import walk
from tilelang.ops.gemm import Gemm
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.targets.nvidia.backend import BACKEND
from tilelang.targets.nvidia.lowerings.gemm_mma import GemmMma
from tilelang.targets.nvidia.lowerings.gemm_wgmma import GemmWgmma
from tilelang.targets.target import Target


def test_levels_follow_one_another():
    level = Level.TILE
    for step in BACKEND.passes:
        assert level is step.reads, step.name
        level = step.writes
    assert Level.THREAD is level


def _programs():
    kernels = benchmark_programs()
    hopper = {"block_N": 256, "block_K": 64, "threads": 256, "num_stages": 4}
    yield "gemm", kernels.gemm_program(1024, 1024, 1024)
    yield "ragged", kernels.gemm_program(1000, 776, 333, **hopper)
    yield "attention", kernels.attention_program(2, 8, 1024, 64, causal=True)


@pytest.mark.slow(every=16)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a"])
@pytest.mark.parametrize(("name", "func"), tuple(_programs()))
def test_the_text_behind_a_pass_shows_what_the_pass_changed(name, func, arch):
    shots = []
    run_passes(func, BACKEND.passes, PassContext(target=Target("cuda", arch)), snapshots=shots)
    for before, after in itertools.pairwise(shots):
        if before.func is not after.func and before.text == after.text:
            assert "" == difference(before.func, after.func), after.name


@pytest.mark.slow(every=8)
@pytest.mark.parametrize(("name", "gemms"), [("gemm", 1), ("attention", 2)])
@pytest.mark.parametrize(("arch", "lowering"), [("sm_75", GemmMma), ("sm_80", GemmMma), ("sm_90a", GemmWgmma)])
def test_each_gemm_is_planned_once_and_the_plan_is_kept(name, gemms, arch, lowering, monkeypatch):
    made, accepts = [], lowering.accepts

    def counted(self, op, context):
        plan = accepts(self, op, context)
        made.append(plan)
        return plan

    monkeypatch.setattr(lowering, "accepts", counted)
    shots = []
    run_passes(dict(_programs())[name], BACKEND.passes, PassContext(target=Target("cuda", arch)), snapshots=shots)
    assert gemms == len({id(plan) for plan in made})
    kept = {id(op.plan) for shot in shots for op in walk(shot.func.body) if isinstance(op, Gemm) and op.plan}
    assert kept == {id(plan) for plan in made}
