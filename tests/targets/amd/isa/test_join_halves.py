"""The exchange between the halves of a wave, by its meaning, and by what it is compiled to."""

import re

import pytest
from hip_kernels import PRELUDE, needs_clang, source

from tilelang.isa.intrinsic import ordered_helpers
from tilelang.targets.amd.isa.join_halves import ELEMENTS, instructions, join_halves
from tilelang.targets.amd.runtime.device_code import build

TEXT = """\
#define __forceinline__ inline __attribute__((always_inline))
{helper}
extern "C" __global__ THREADS(32) void join(const half8* __restrict__ a, half8* __restrict__ b) {{
  const unsigned t = __builtin_amdgcn_workitem_id_x();
  half8 own = a[t], joined[2];
  tl_join_halves<4>(joined, &own);
  b[2 * t] = joined[0];
  b[2 * t + 1] = joined[1];
}}
"""


def test_a_word_has_whole_elements() -> None:
    assert ["tl_join_halves<2>({0}, {1})", "tl_join_halves<4>({0}, {1})"] == [each.texts["hip"] for each in instructions()]
    assert 8 == ELEMENTS


@needs_clang
@pytest.mark.parametrize("arch", ["gfx1100", "gfx1151"])
def test_a_word_is_exchanged_without_lds_and_selected_two_at_a_time(arch: str) -> None:
    (helper,) = ordered_helpers(join_halves(2).helpers.values())
    assembly = build(source(PRELUDE + TEXT.format(helper=helper.text), "join", threads=32), arch, "clang").assembly()
    assert 4 == assembly.count("v_permlanex16_b32")
    assert "ds_" not in assembly.replace("amdhsa_", "")
    assert "v_mov" not in assembly  # of a word that the exchange would keep
    assert 8 == len(re.findall(r"v_(?:dual_)?cndmask", assembly))
    assert 3 <= len(re.findall(r"v_dual_cndmask_b32 .* :: v_dual_cndmask_b32", assembly))
