"""Statements on the registers of matrix instructions: what the compiler makes of them."""

import re

import pytest
from device_text import cuda_source
from fake_cuda import needs_nvrtc

from tilelang.dtypes import as_dtype
from tilelang.targets.gpu.isa.save_registers import DEFINE
from tilelang.targets.nvidia.isa.wgmma_registers import define_operands, fence_operands, hide_operands, renew_operands
from tilelang.targets.nvidia.runtime.nvrtc import open_nvrtc


def ptx_of(record, array, count, *flags):
    """The PTX of a kernel that executes an instruction on an array c and stores it."""
    kernel = (
        f'extern "C" __global__ void k(float* out) {{ {array}; {record.texts["cuda"].format("c")}; '
        f"for (int i = 0; i < {count}; ++i) out[i] = c[i]; }}"
    )
    made = open_nvrtc().compile(cuda_source([record.helpers["cuda"]], [kernel]), "sm_90a", flags, ptx=True)
    assert made.code is not None, made.log
    return made.code.decode()


@needs_nvrtc
@pytest.mark.parametrize(("elements", "statements"), [(4, 2), (8, 1), (12, 3), (64, 8)])
def test_each_register_is_written_once(elements, statements):
    count = elements // 2
    ptx = ptx_of(renew_operands(as_dtype("float16"), elements), f"alignas(16) unsigned c[{count}] = {{}}", count)
    assert statements == ptx.count("// begin inline asm")
    assert count == ptx.count("prmt.b32")


@pytest.mark.parametrize("make", [fence_operands, define_operands])
def test_other_statements_have_no_instruction(make):
    for dtype in ("float32", "float16", "int32"):
        (helper,) = make(as_dtype(dtype), 32).helpers.values()
        assert 2 == helper.text.count('asm volatile("" : "') == helper.text.count("asm")


@needs_nvrtc
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_no_instruction_defines_what_the_next_one_overwrites(dtype):
    """NVVM takes zeros for values: they were moved to registers in front of the instruction."""
    defined = define_operands(as_dtype(dtype), 64)
    assert not re.search(r"mov\.[bfu]32\s+%[fr]\d+, 0", ptx_of(defined, "alignas(16) float c[64]", 64))


@needs_nvrtc
def test_compilers_know_what_registers_hold_unless_they_are_to_save_some():
    hidden, array = hide_operands(as_dtype("float32"), 8), "alignas(16) float c[8] = {}"
    known, unknown = ptx_of(hidden, array, 8), ptx_of(hidden, array, 8, DEFINE)
    assert (0, 2) == (known.count("// begin inline asm"), unknown.count("// begin inline asm"))
