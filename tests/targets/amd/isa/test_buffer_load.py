"""Loads by a resource of all threads, an offset of the thread, and one of the instruction."""

import re

import pytest
from hip_kernels import PRELUDE, needs_clang, source

from tilelang.targets.amd.isa.buffer_load import BUFFER_LOAD
from tilelang.targets.amd.runtime.device_code import build

TYPES = {"char": "u(byte|8)", "short": "u(short|16)", "float": "(dword|b32)", "half4": "(dwordx2|b64)"}
LOAD = (
    PRELUDE
    + "#define __forceinline__ inline __attribute__((always_inline))\n"
    + BUFFER_LOAD.text
    + """\
extern "C" __global__ THREADS(64) void load(const KIND* __restrict__ a, KIND* __restrict__ b) {
  const unsigned t = __builtin_amdgcn_workitem_id_x();
  b[t] = tl_buffer_load<KIND>(tl_resource_of(a), t * (unsigned)sizeof(KIND), 4096u);
}
"""
)


WHERE = LOAD.replace("tl_buffer_load<KIND>(", "tl_buffer_load_if<KIND>(t & 2, ")


def code_of(kind: str, arch: str, text: str = LOAD):
    return build(source(text.replace("KIND", kind), "load", threads=64), arch, "clang")


@pytest.mark.slow(every=5)  # a type for each machine
@needs_clang
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1100", "gfx1201"])
@pytest.mark.parametrize("kind", TYPES)
def test_one_instruction_adds_all_three(kind: str, arch: str) -> None:
    assert re.search(rf"buffer_load_(d16_)?{TYPES[kind]}", code_of(kind, arch).assembly())


@pytest.mark.slow(every=5)  # a type for each machine
@needs_clang
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1100", "gfx1201"])
@pytest.mark.parametrize("kind", TYPES)
def test_a_condition_needs_no_branch(kind: str, arch: str) -> None:
    text = code_of(kind, arch, WHERE).assembly()
    assert re.search(rf"buffer_load_(d16_)?{TYPES[kind]}", text)
    assert "v_cndmask" in text
    assert not re.search("saveexec|s_cbranch", text)


NEXT = (
    PRELUDE
    + "#define __forceinline__ inline __attribute__((always_inline))\n"
    + BUFFER_LOAD.text
    + """\
extern "C" __global__ THREADS(64) void load(const int* __restrict__ a, const int* __restrict__ b, int* __restrict__ c, int n) {
  const unsigned t = __builtin_amdgcn_workitem_id_x() * 4u;
  const tl_resource a_from = RESOURCE(a), b_from = RESOURCE(b);
  int sum = 0, x = 0, y = 0;
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
    sum += x * y;
    if (i < n - 1) {
      x = tl_buffer_load<int>(a_from, t, i * 256u);
      y = tl_buffer_load<int>(b_from, t, i * 256u);
    }
  }
  c[t] = sum;
}
"""
)


@pytest.mark.slow(every=6)
@needs_clang
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1100", "gfx1201"])
@pytest.mark.parametrize("kept", [False, True])
def test_words_of_a_kept_resource_are_not_copied_in_a_loop(arch: str, kept: bool) -> None:
    text = code_of("int", arch, NEXT.replace("RESOURCE", "tl_kept_resource_of" if kept else "tl_resource_of")).assembly()
    loop = text[text.index("Loop Header") :]
    assert kept == (re.search(r"s_mov_b(32|64) s\S+, s", loop[: loop.index("s_endpgm")]) is None)
