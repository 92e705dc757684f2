"""Waits by the counters of each generation."""

import re

import pytest
from hip_text import GENERATIONS, assembly_of, hip_source, needs_clang

from tilelang.targets.amd.isa.wait_counters import (
    MAX_DIRECT_LOADS,
    WAIT_FOR_DIRECT_LOADS,
    Counters,
    counters_of,
    instructions,
    wait_for_lds,
    wait_for_loads,
    wait_for_stores,
    wait_text,
)
from tilelang.targets.amd.machines import MACHINES


@pytest.mark.parametrize(
    ("names", "counters"),
    [
        (("gfx90a", "gfx942", "gfx950"), Counters.LOADS_AND_STORES),
        (("gfx1100", "gfx1151"), Counters.SEPARATE_STORES),
        (("gfx1200", "gfx1201"), Counters.ALL_SEPARATE),
    ],
)
def test_machines_have_the_counters_of_their_generation(names, counters):
    assert {counters} == {counters_of(MACHINES[name]) for name in names}


@needs_clang
@pytest.mark.parametrize("arch", GENERATIONS)
@pytest.mark.parametrize(
    ("what", "texts"),
    [
        ("lds", ("s_waitcnt lgkmcnt(0)", "s_waitcnt lgkmcnt(0)", "s_wait_dscnt 0x0")),
        ("loads", ("s_waitcnt vmcnt(0)", "s_waitcnt vmcnt(0)", "s_wait_loadcnt 0x0")),
        ("stores", ("s_waitcnt vmcnt(0)", "s_waitcnt_vscnt null, 0x0", "s_wait_storecnt 0x0")),
    ],
)
def test_a_wait_is_written_for_each_generation(what, texts, arch):
    counters = counters_of(MACHINES[arch])
    text = hip_source([], [f'extern "C" __global__ void kernel() {{ {wait_text(what, counters)}; }}'])
    assert texts[list(Counters).index(counters)] in re.sub(r"\s+", " ", assembly_of(text, arch))


@needs_clang
@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_compilers_wait_once_for_what_was_loaded_before_a_wait_for_lds(arch):
    """The values are used behind the wait alone."""
    body = "float a = tile[t], b = tile[t ^ 1]; WAIT; asm volatile(\"s_nop 5\"); x[t] = a + b;"
    kernel = 'extern "C" __global__ void kernel(float* x) { __shared__ float tile[64]; int t = __builtin_amdgcn_workitem_id_x(); tile[t ^ 3] = x[t];'
    kernel += " __builtin_amdgcn_s_barrier(); " + body.replace("WAIT", wait_text("lds", counters_of(MACHINES[arch]))) + " }"
    code = assembly_of(hip_source([], [kernel]), arch)
    assert "lgkmcnt" not in code[code.index("s_nop 5") :]


def test_waits_are_volatile_and_keep_accesses_in_their_order():
    for wait in instructions():
        text = wait.texts["hip"] + "".join(helper.text for helper in wait.helpers.values())
        assert "asm volatile(" in text and text.rstrip("; }\n").endswith('"memory")')


def test_one_record_serves_each_generation():
    for make in (wait_for_lds, wait_for_loads, wait_for_stores):
        assert make(Counters.ALL_SEPARATE) is make(Counters.ALL_SEPARATE)


def test_a_wait_for_direct_loads_leaves_as_many_as_six_bits_count():
    assert (63, None) == (MAX_DIRECT_LOADS, WAIT_FOR_DIRECT_LOADS.pending)
