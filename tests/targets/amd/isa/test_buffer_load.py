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


@needs_clang
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1100", "gfx1201"])
@pytest.mark.parametrize("kind", TYPES)
def test_one_instruction_adds_all_three(kind: str, arch: str) -> None:
    assert re.search(rf"buffer_load_(d16_)?{TYPES[kind]}", code_of(kind, arch).assembly())


@needs_clang
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1100", "gfx1201"])
@pytest.mark.parametrize("kind", TYPES)
def test_a_condition_needs_no_branch(kind: str, arch: str) -> None:
    text = code_of(kind, arch, WHERE).assembly()
    assert re.search(rf"buffer_load_(d16_)?{TYPES[kind]}", text)
    assert "v_cndmask" in text
    assert not re.search("saveexec|s_cbranch", text)
