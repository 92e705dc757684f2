import re

import pytest
from hip_text import GENERATIONS, assembly_of, hip_source, needs_clang

from tilelang.targets.amd.isa.save_registers import FLAGS, FORGET, RECOMPUTE, REMATERIALIZE
from tilelang.targets.amd.isa.types import PRELUDE
from tilelang.targets.amd.runtime.toolchain import find_clang


@needs_clang
@pytest.mark.parametrize("arch", GENERATIONS)
def test_the_compiler_takes_flags_and_text(arch: str) -> None:
    text = PRELUDE + REMATERIALIZE.text + (
        'extern "C" __global__ void kernel(int* x) { int i = x[0]; TL_REMATERIALIZE(i); x[1] = i; }'
    )  # fmt: skip
    made = find_clang().compile(text, arch, FLAGS)
    assert made.code is not None
    assert made.log == ""


@needs_clang
@pytest.mark.parametrize(("arch", "registers", "inside"), [
    ("gfx942", 208, 1), ("gfx942", 207, 0), ("gfx942", 129, 0), ("gfx942", 128, 1), ("gfx942", 112, 1), ("gfx942", 111, 0),
    ("gfx1100", 192, 1), ("gfx1100", 191, 0), ("gfx1100", 128, 0),
])  # fmt: skip
def test_offsets_are_computed_in_each_iteration_where_arrays_leave_few_registers(arch: str, registers: int, inside: int) -> None:
    """The square of an offset is a multiplication in the loop, or one before it."""
    text = f"""\
extern "C" __global__ void kernel(int* x, int n) {{
    int at = __builtin_amdgcn_workitem_id_x();
#pragma unroll 1
    for (int i = 0; i < n; ++i) {{
        tl_recompute<{registers}>(at);
        x[at * at + i] = i;
    }}
}}
"""
    code = assembly_of(hip_source([RECOMPUTE], [text]), arch)
    loop = code[code.index("Loop Header") :]
    assert inside == len(re.findall(r"v_mul_lo_u32|v_mad_u64_u32|v_mul_u32_u24|v_mad_u32_u24", loop))


@needs_clang
@pytest.mark.parametrize("forgets", [False, True])
def test_what_follows_from_a_value_is_computed_behind_a_loop(forgets: bool) -> None:
    text = f"""\
extern "C" __global__ void kernel(int* x, int n) {{
    int at = __builtin_amdgcn_workitem_id_x();
    x[at * at] = 0;
#pragma unroll 1
    for (int i = 0; i < n; ++i) __hip_atomic_fetch_add(x, i, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    {"tl_forget(at);" if forgets else ""}
    x[at * at] = 1;
}}
"""
    code = assembly_of(hip_source([FORGET], [text]), "gfx942")
    assert 1 + forgets == len(re.findall("v_mul_u32_u24|v_mul_lo_u32", code))
