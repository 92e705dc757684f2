"""Which machine has which matrix instructions."""

import pytest
from hip_kernels import ARCHES, PRELUDE, needs_clang, source

from tilelang.dtypes import as_dtype
from tilelang.isa.intrinsic import ordered_helpers
from tilelang.targets.amd.isa.matrix_atom import NIBBLES
from tilelang.targets.amd.isa.matrix_table import MATRIX_INSTRUCTIONS, instructions_for
from tilelang.targets.amd.machines import MACHINES
from tilelang.targets.amd.runtime.device_code import build

# Shapes of one product per wave, by machine and dtypes. Source: the list of instructions of each manual
HALVES = {
    "gfx90a": {(32, 8), (16, 16)},
    "gfx942": {(32, 8), (16, 16)},
    "gfx950": {(32, 8), (16, 16), (32, 16), (16, 32)},
    "gfx1100": {(16, 16)},
    "gfx1151": {(16, 16)},
    "gfx1200": {(16, 16)},
    "gfx1201": {(16, 16)},
}
OTHERS = [
    ("gfx90a", "int8", "int32", {(32, 8), (16, 16)}),
    ("gfx942", "int8", "int32", {(32, 16), (16, 32)}),
    ("gfx950", "int8", "int32", {(32, 16), (16, 32), (32, 32), (16, 64)}),
    ("gfx1100", "int8", "int32", {(16, 16)}),
    ("gfx1201", "uint8", "int32", {(16, 16)}),
    ("gfx1100", "int4", "int32", {(16, 16)}),
    ("gfx1201", "uint4", "int32", {(16, 16), (16, 32)}),
    ("gfx942", "int4", "int32", set()),
    ("gfx942", "uint8", "int32", set()),
    ("gfx90a", "float8_e4m3fnuz", "float32", set()),
    ("gfx942", "float8_e4m3fnuz", "float32", {(32, 16), (16, 32)}),
    ("gfx942", "float8_e4m3fn", "float32", set()),
    ("gfx950", "float8_e4m3fn", "float32", {(32, 16), (16, 32), (32, 64), (16, 128)}),
    ("gfx950", "float8_e4m3fnuz", "float32", set()),
    ("gfx1100", "float8_e4m3fn", "float32", set()),
    ("gfx1200", "float8_e5m2", "float32", {(16, 16)}),
    ("gfx90a", "tfloat32", "float32", set()),
    ("gfx942", "tfloat32", "float32", {(32, 4), (16, 8)}),
    ("gfx950", "tfloat32", "float32", set()),
    ("gfx90a", "float64", "float64", {(16, 4)}),
    ("gfx950", "float64", "float64", {(16, 4)}),
    ("gfx1100", "float64", "float64", set()),
    ("gfx942", "float32", "float32", {(32, 2), (16, 4)}),
    ("gfx1201", "float32", "float32", set()),
]


def shapes(arch, dtype, sums):
    given = as_dtype(dtype)
    return {(row.shape[0], row.shape[2]) for row in instructions_for(MACHINES[arch], given, given, as_dtype(sums))}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("arch", ARCHES)
def test_shapes_of_halves(arch, dtype):
    assert HALVES[arch] == shapes(arch, dtype, "float32")


@pytest.mark.parametrize(("arch", "dtype", "sums", "expected"), OTHERS)
def test_shapes_of_other_dtypes(arch, dtype, sums, expected):
    assert expected == shapes(arch, dtype, sums)


@pytest.mark.parametrize(("arch", "flushes"), [("gfx90a", True), ("gfx942", False)])
def test_halves_are_flushed_on_gfx90a_only(arch, flushes):
    half = as_dtype("float16")
    rows = instructions_for(MACHINES[arch], half, half, as_dtype("float32"))
    assert [flushes] * 2 == [row.flushes for row in rows]


def test_kinds_of_float8_mix():
    for needs in ("gfx942", "gfx950", "gfx1200"):
        machine = MACHINES[needs]
        rows = [row for row in MATRIX_INSTRUCTIONS if row.runs_on(machine) and "float8" in row.a_dtype]
        pairs = {(str(row.a_dtype), str(row.b_dtype)) for row in rows}
        assert 4 == len(pairs)


def test_names_are_unique():
    assert len(MATRIX_INSTRUCTIONS) == len({row.name for row in MATRIX_INSTRUCTIONS})


_BYTES = {"_Float16": 2, "short": 2, "__bf16": 2, "int": 4, "float": 4, "long": 8, "double": 8}
_SUMS = {"float32": "float", "float64": "double", "int32": "int"}


def _vector(element, count):
    return element if count == 1 else f"{element} __attribute__((ext_vector_type({count})))"


def kernel(row):
    """A kernel of one instruction."""
    count = row.a.values * row.a_dtype.storage_bytes // _BYTES[row.operand_type]
    return (
        f"typedef {_vector(row.operand_type, count)} in_{row.name};\n"
        f"typedef {_vector(_SUMS[str(row.c_dtype)], row.c.values)} out_{row.name};\n"
        f'extern "C" __global__ void run_{row.name}(out_{row.name}* c, const in_{row.name}* a) {{\n'
        f"    *c = {row.call('a[0]', 'a[1]', '*c')};\n}}\n"
    )


@needs_clang
@pytest.mark.parametrize("arch", ARCHES)
def test_clang_has_every_instruction_of_a_machine(arch):
    rows = [row for row in MATRIX_INSTRUCTIONS if row.runs_on(MACHINES[arch])]
    helpers = "".join(helper.text for helper in ordered_helpers([NIBBLES]))
    text = PRELUDE + "#define __forceinline__ inline __attribute__((always_inline))\n" + helpers + "".join(map(kernel, rows))
    build(source(text, f"run_{rows[0].name}", threads=rows[0].wave), arch, "clang")
