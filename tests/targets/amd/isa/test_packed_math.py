"""Arithmetic on two registers, and the instruction that compilers make of it."""

import pytest
from hip_kernels import PRELUDE, needs_clang, source

from tilelang.targets.amd.isa.packed_math import MULTIPLY_ADD_PAIR, instructions
from tilelang.targets.amd.machines import MACHINES
from tilelang.targets.amd.runtime.device_code import build

TEXT = """\
#define __forceinline__ inline __attribute__((always_inline))
{helper}
extern "C" __global__ THREADS(64) void scale(const float* __restrict__ a, float* __restrict__ b) {{
  const unsigned t = __builtin_amdgcn_workitem_id_x();
  float from[2] = {{a[2 * t], a[2 * t + 1]}}, made[2];
  tl_multiply_add_pair(made, from, a[128], a[129]);
  b[2 * t] = __builtin_exp2f(made[0]);
  b[2 * t + 1] = __builtin_exp2f(made[1]);
}}
"""


def test_machines_with_64_lanes_have_it():
    assert [MULTIPLY_ADD_PAIR] == list(instructions())
    assert {64} == {machine.warp_size for machine in MACHINES.values() if machine.has(MULTIPLY_ADD_PAIR.needs)}


@needs_clang
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx950"])
def test_it_becomes_one_instruction(arch: str) -> None:
    text = TEXT.format(helper=MULTIPLY_ADD_PAIR.helpers["hip"].text)
    assembly = build(source(PRELUDE + text, "scale", threads=64), arch, "clang").assembly()
    assert 1 == assembly.count("v_pk_fma_f32")
    assert "v_fma_f32 v" not in assembly.partition("v_exp_f32")[0]
