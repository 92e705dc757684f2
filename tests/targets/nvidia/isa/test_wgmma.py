"""Matrix instructions of a warpgroup: their fragments against the manual's formulas, their texts against a compiler."""

import numpy as np
import pytest
from device_text import compile_cuda, cuda_source, needs_cuda_compiler

from tilelang.dtypes import as_dtype
from tilelang.errors import CompilerBug
from tilelang.isa.instruction import Effect, ExecutionScope
from tilelang.targets.nvidia.isa.async_units import WGMMA
from tilelang.targets.nvidia.isa.wgmma import (
    COLUMNS,
    INTEGER_COLUMNS,
    MATRIX_DESCRIPTOR,
    WGMMA_COMMIT,
    WGMMA_FENCE,
    atom_of,
    forms,
    wgmma,
    wgmma_wait,
)
from tilelang.targets.nvidia.isa.wgmma_registers import fence_operands
from tilelang.targets.target import Target

PAIRS = [
    ("float16", "float16", "float32"),
    ("float16", "float16", "float16"),
    ("bfloat16", "bfloat16", "float32"),
    ("tfloat32", "tfloat32", "float32"),
    ("float8_e4m3fn", "float8_e5m2", "float32"),
    ("float8_e5m2", "float8_e4m3fn", "float16"),
    ("int8", "uint8", "int32"),
]
# Element i of thread t, transcribed from PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk...": A is (row, k)
A_FORMULAS = {
    16: lambda w, g, q, i: (16 * w + g + 8 * (i // 2 % 2), 2 * q + i % 2 + 8 * (i // 4)),
    32: lambda w, g, q, i: (16 * w + g + 8 * (i % 2), q + 4 * (i // 2)),
    8: lambda w, g, q, i: (16 * w + g + 8 * (i // 4 % 2), 4 * q + i % 4 + 16 * (i // 8)),
}


def atom(a, b, c, n):
    return atom_of(as_dtype(a), as_dtype(b), as_dtype(c), n)


@pytest.mark.parametrize("n", [8, 64, 96, 256])
@pytest.mark.parametrize("pair", PAIRS)
def test_fragments_are_those_of_the_manual(pair, n):
    found = atom(*pair, n)
    thread = np.arange(128)
    w, g, q = thread // 32, thread % 32 // 4, thread % 4
    for i in range(found.c.values):
        j = i // 4
        expected = np.stack([16 * w + g + 8 * (i // 2 % 2), 8 * j + 2 * q + i % 2], axis=-1)
        np.testing.assert_array_equal(found.c.table[:, i], expected)
    for i in range(found.a.values):
        row, k = A_FORMULAS[as_dtype(pair[0]).bits](w, g, q, i)
        np.testing.assert_array_equal(found.a.table[:, i], np.stack([row, k], axis=-1))
    assert (128, n // 2, 128) == (found.c.threads, found.c.values, found.a.threads)


def test_there_is_an_instruction_for_each_number_of_columns():
    assert [n for n in range(1, 300) if atom("float16", "float16", "float32", n)] == list(COLUMNS)
    integers = [8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256]
    assert [n for n in range(1, 300) if atom("int8", "int8", "int32", n)] == integers == list(INTEGER_COLUMNS)


@pytest.mark.parametrize(
    "pair",
    [("float32", "float32", "float32"), ("float16", "bfloat16", "float32"), ("bfloat16", "bfloat16", "bfloat16")],
)
def test_other_dtypes_have_none(pair):
    assert atom(*pair, 64) is None


def test_only_operands_of_16_bits_have_a_choice_of_majors():
    with pytest.raises(CompilerBug, match="no such form"):
        wgmma(atom("int8", "int8", "int32", 8), transpose_b=True)
    with pytest.raises(CompilerBug, match="no such form"):
        wgmma(atom("float16", "float16", "float32", 8), transpose_a=True, a_in_registers=True)


def test_records_say_what_waits_need_to_know():
    record = wgmma(atom("float16", "float16", "float32", 128))
    assert (ExecutionScope.WARP_GROUP, WGMMA, Effect.NONE) == (record.execution_scope, record.async_unit, record.effect)
    assert Effect.COMMIT in WGMMA_COMMIT.effect
    assert Effect.WAIT in wgmma_wait(1).effect
    assert Effect.FENCE in WGMMA_FENCE.effect
    assert wgmma(atom("float16", "float16", "float32", 128)) is record
    with pytest.raises(CompilerBug, match="9 groups"):
        wgmma_wait(9)


def test_a_record_exists_for_hopper_alone():
    assert Target("cuda", "sm_90a").has(MATRIX_DESCRIPTOR.needs)
    assert not Target("cuda", "sm_90").has(MATRIX_DESCRIPTOR.needs)
    assert not Target("cuda", "sm_100a").has(WGMMA_FENCE.needs)


def kernel(number, record, found):
    """A kernel that multiplies once: descriptors and A from memory, sums to memory."""
    sums = "float" if str(found.c_dtype) == "float32" else "unsigned"
    count = found.c.values // (2 if str(found.c_dtype) == "float16" else 1)
    a = "a_registers" if record.name.split("_")[-1].startswith("r") else "words[0]"
    return (
        f'extern "C" __global__ void k{number}({sums}* out, const unsigned long long* words, bool keep) {{\n'
        f"    alignas(16) {sums} c[{count}];\n"
        f"    for (int i = 0; i < {count}; ++i) c[i] = out[i];\n"
        "    alignas(16) unsigned a_registers[4] = {(unsigned)words[2], (unsigned)words[3], 0, 1};\n"
        "    (void)a_registers;\n"
        f"    {fence_operands(found.c_dtype, found.c.values).texts['cuda'].format('c')};\n"
        f"    {WGMMA_FENCE.texts['cuda']};\n"
        f"    {record.texts['cuda'].format('c', a, 'words[1]', 'keep')};\n"
        f"    {WGMMA_COMMIT.texts['cuda']};\n"
        f"    {wgmma_wait(0).texts['cuda']};\n"
        f"    for (int i = 0; i < {count}; ++i) out[i] = c[i];\n"
        "}\n"
    )


@needs_cuda_compiler
@pytest.mark.parametrize("pair", PAIRS)
def test_every_form_assembles(pair):
    found = [(record, one) for n in (8, 256) for one in (atom(*pair, n),) for record in forms(one)]
    helpers = [record.helpers["cuda"] for record, _ in found]
    helpers += [fence_operands(one.c_dtype, one.c.values).helpers["cuda"] for _, one in found]
    helpers += [record.helpers["cuda"] for record in (WGMMA_FENCE, WGMMA_COMMIT, wgmma_wait(0), MATRIX_DESCRIPTOR)]
    assert compile_cuda(cuda_source(helpers, [kernel(i, *row) for i, row in enumerate(found)]), "sm_90a")
