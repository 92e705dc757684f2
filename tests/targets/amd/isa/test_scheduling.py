"""Barriers for the compiler's scheduler."""

import re

import pytest
from hip_kernels import PRELUDE, needs_clang, source

from tilelang.targets.amd.isa.scheduling import KEEP_MATRIX_ORDER, KEEP_ORDER, instructions
from tilelang.targets.amd.runtime.device_code import build

# A load from LDS whose value is needed after two matrix instructions that do not depend on it
LATE = (
    PRELUDE
    + """\
extern "C" __global__ THREADS(64) void late(float* __restrict__ c) {{
  __shared__ half4 tile[128];
  unsigned t = __builtin_amdgcn_workitem_id_x();
  tile[t].x = c[t], tile[t + 64].x = c[t + 64];
  __builtin_amdgcn_s_barrier();
  half4 x = tile[t ^ 1];
  float16v sum = {{}};
  half4 y = tile[t ^ 65];
  {barrier};
  sum = __builtin_amdgcn_mfma_f32_32x32x8f16(x, x, sum, 0, 0, 0);
  sum = __builtin_amdgcn_mfma_f32_32x32x8f16(x, x, sum, 0, 0, 0);
  {barrier};
  sum = __builtin_amdgcn_mfma_f32_32x32x8f16(y, y, sum, 0, 0, 0);
  for (int v = 0; v < 16; v++) c[t * 16 + v] = sum[v];
}}
"""
)


def test_it_changes_nothing():
    assert [KEEP_MATRIX_ORDER, KEEP_ORDER] == list(instructions())
    assert all(each.simulate(None) is None for each in instructions())


def names_of(instruction, text):
    """The loads from LDS and the matrix instructions of a text, in order."""
    text = instruction.helpers["hip"].text + text.format(barrier=instruction.texts["hip"])
    assembly = build(source(text, "late", threads=64), "gfx942", "clang").assembly()
    return [name for name in re.findall(r"^\s+(\w+)", assembly, re.M) if name.startswith(("ds_read", "v_mfma"))]


@needs_clang
@pytest.mark.parametrize("instruction", list(instructions()), ids=lambda each: each.name)
def test_loads_stay_before_it(instruction):
    names = names_of(instruction, LATE)
    first = next(i for i, name in enumerate(names) if name.startswith("v_mfma"))
    assert first
    assert all(name.startswith("v_mfma") for name in names[first:])


@needs_clang
def test_loads_stay_behind_it():
    load = "  half4 y = tile[t ^ 65];\n"
    *before, last = LATE.replace(load, "").split("  sum =")
    names = names_of(KEEP_ORDER, "  sum =".join([*before[:-1], before[-1] + load, last]))
    assert [True, False, False, True, False] == [name.startswith("ds_read") for name in names]
