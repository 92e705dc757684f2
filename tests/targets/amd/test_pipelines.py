"""The passes for AMD GPUs follow one another from the tile level to the thread level."""

import itertools

import pytest
from amd_programs import attention
from changes import difference
from examples_of import benchmark_programs
from hip_text import printed

from tilelang.ir.func import Level
from tilelang.passes.base import PassContext
from tilelang.passes.runner import run_passes
from tilelang.targets.amd.backend import BACKEND
from tilelang.targets.target import Target


def test_levels_follow_one_another():
    level = Level.TILE
    for step in BACKEND.passes:
        assert level is step.reads, step.name
        level = step.writes
    assert Level.THREAD is level


def _programs():
    kernels = benchmark_programs()
    yield "gemm", kernels.gemm_program(1024, 1024, 1024)
    yield "ragged", kernels.gemm_program(1000, 776, 333, block_N=256, block_K=64, threads=256, num_stages=4)
    yield "attention", kernels.attention_program(2, 8, 1024, 64, causal=True, block_M=64, block_N=64)


@pytest.mark.slow(every=20)
@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
@pytest.mark.parametrize(("name", "func"), tuple(_programs()))
def test_the_text_behind_a_pass_shows_what_the_pass_changed(name, func, arch):
    shots = []
    run_passes(func, BACKEND.passes, PassContext(target=Target("hip", arch)), snapshots=shots)
    for before, after in itertools.pairwise(shots):
        if before.func is not after.func and before.text == after.text:
            assert "" == difference(before.func, after.func), after.name


def test_what_a_chain_casts_is_moved_through_lds_after_the_cast() -> None:
    """On gfx11, sums are held as no operand is: halves are moved, not floats."""
    text = printed(attention(128), "gfx1100").text
    assert "half_t* const P_shared" in text
    assert "S_shared" not in text
