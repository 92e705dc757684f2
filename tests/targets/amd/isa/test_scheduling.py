"""Barriers for the compiler's scheduler."""

import re

from hip_kernels import PRELUDE, needs_clang, source

from tilelang.targets.amd.isa.scheduling import KEEP_MATRIX_ORDER, instructions
from tilelang.targets.amd.runtime.device_code import build

# A load from LDS whose value is needed after two matrix instructions that do not depend on it
LATE = (
    PRELUDE
    + """\
extern "C" __global__ THREADS(64) void late(float* __restrict__ c) {{
  __shared__ half4 tile[128];
  unsigned t = __builtin_amdgcn_workitem_id_x();
  half4 x = tile[t];
  float16v sum = {{}};
  half4 y = tile[t + 64];
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
    assert [KEEP_MATRIX_ORDER] == list(instructions())
    assert KEEP_MATRIX_ORDER.simulate(None) is None


@needs_clang
def test_loads_stay_before_it():
    text = KEEP_MATRIX_ORDER.helpers["hip"].text + LATE.format(barrier=KEEP_MATRIX_ORDER.texts["hip"])
    assembly = build(source(text, "late", threads=64), "gfx942", "clang").assembly()
    names = [name for name in re.findall(r"^\s+(\w+)", assembly, re.M) if name.startswith(("ds_read", "v_mfma"))]
    first = next(i for i, name in enumerate(names) if name.startswith("v_mfma"))
    assert all(name.startswith("v_mfma") for name in names[first:])
