"""Several matrix instructions as one of a gemm: who holds what, what they compute, and their text."""

import ctypes
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hip_kernels import ARCHES, PRELUDE, needs_clang, source
from hypothesis import assume, given
from hypothesis import strategies as st
from warp_registers import WarpOfRegisters, gather, scatter

from tilelang.isa.instruction import MatrixWork
from tilelang.isa.intrinsic import ordered_helpers
from tilelang.targets.amd.isa.matrix import Operands
from tilelang.targets.amd.isa.matrix_atom import MatrixAtom, matrix_multiply
from tilelang.targets.amd.isa.matrix_table import MATRIX_INSTRUCTIONS
from tilelang.targets.amd.machines import MACHINES
from tilelang.targets.amd.runtime.device_code import build

ROWS = [row for row in MATRIX_INSTRUCTIONS if row.blocks == 1]
POWERS = st.sampled_from([1, 2, 4, 8])


def of_name(name):
    return next(row for row in ROWS if row.name == name)


@st.composite
def atoms(draw):
    """Any way to place the operands of any instruction."""
    row = draw(st.sampled_from(ROWS))
    rows, columns, depth = draw(st.sampled_from([1, 2, 4])), draw(POWERS), draw(POWERS)
    k_run, column_run = draw(st.sampled_from([1, 2, 4, 8, 16])), draw(st.sampled_from([1, 2, 4, 8, 16]))
    assume(k_run <= row.a.values * depth and column_run <= row.c.values * columns)
    return MatrixAtom(row, rows, columns, depth, k_run, column_run, draw(st.booleans()))


@given(atoms())
def test_lanes_hold_each_element_once(atom):
    copies = 2 if atom.matrix.operands is Operands.REPEATED else 1
    for layout, times in ((atom.a, copies), (atom.b, copies), (atom.c, 1)):
        assert atom.matrix.wave == layout.threads
        found, counts = np.unique(layout.table.reshape(-1, 2), axis=0, return_counts=True)
        assert len(found) == np.prod(layout.shape)
        assert (counts == times).all()


@given(atoms())
def test_runs_of_neighbors(atom):
    """A lane holds whole runs along K of A and B, and of columns of C."""
    for layout, axis, run in ((atom.a, 1, atom.k_run), (atom.b, 1, atom.k_run), (atom.c, 1, atom.column_run)):
        for lane in (0, atom.matrix.wave - 1):
            places = np.unique(layout.table[lane, :, axis])
            groups = places.reshape(-1, run)
            assert (groups == groups[:, :1] + np.arange(run)).all()
            assert (groups[:, 0] % run == 0).all()


def multiplied(atom, a, b, c):
    """C + A @ B.T, by the registers of a wave."""
    warp = WarpOfRegisters(atom.matrix.wave)
    operands = ((c, atom.c, atom.c_dtype), (a, atom.a, atom.a_dtype), (b, atom.b, atom.b_dtype))
    registers = [warp.registers(dtype, gather(matrix, layout)) for matrix, layout, dtype in operands]
    matrix_multiply(atom).simulate(warp, *registers)
    return scatter(warp.values(registers[0]), atom.c)


@given(atoms())
def test_an_atom_adds_the_product_of_its_operands(atom):
    m, n, k = atom.shape
    rng = np.random.default_rng(0)
    a, b, c = (
        rng.integers(0 if str(dtype).startswith("uint") else -4, 5, shape).astype(dtype.numpy)
        for dtype, shape in ((atom.a_dtype, (m, k)), (atom.b_dtype, (n, k)), (atom.c_dtype, (m, n)))
    )
    expected = c.astype(np.float64) + a.astype(np.float64) @ b.astype(np.float64).T
    assert np.array_equal(expected, multiplied(atom, a, b, c).astype(np.float64))


@pytest.mark.parametrize(
    ("name", "depth", "columns"),
    [
        ("mfma_f32_16x16x16f16", 2, 2),
        ("mfma_f32_32x32x8f16", 4, 1),
        ("mfma_f32_16x16x32_f16", 1, 2),
        ("mfma_f32_32x32x16_f16", 2, 1),
        ("wmma_f32_16x16x16_f16_w32_gfx12", 1, 1),
    ],
)
def test_sums_are_where_the_next_product_needs_its_operand(name, depth, columns):
    """Attention multiplies the weights, made of the sums of one product, by another matrix: no lane needs another's."""
    atom = MatrixAtom(of_name(name), 1, columns, depth, 8, 8, column_major=False)
    assert atom.c.shape == atom.a.shape
    assert atom.c.same_owners(atom.a)


def test_neighboring_columns_are_stored_together():
    """Of 16 bits, a lane stores 16 bytes at once, with every instruction that multiplies such."""
    for row in ROWS:
        if row.a_dtype.bits == 16:
            atom = MatrixAtom(row, 1, max(1, 8 // row.c.values), max(1, 8 // row.a.values), 8, 8, column_major=False)
            columns = np.sort(atom.c.table[5, :8, 1])
            assert np.array_equal(columns, columns[0] + np.arange(8))


def test_undefined_padding_reaches_its_row_and_column_only():
    atom = MatrixAtom(of_name("mfma_f32_16x16x16f16"), 1, 2, 2, 8, 8, column_major=True)
    warp = WarpOfRegisters(64)
    operands = ((atom.c, atom.c_dtype), (atom.a, atom.a_dtype), (atom.b, atom.b_dtype))
    c, a, b = (warp.registers(d, gather(np.zeros(layout.shape, d.numpy), layout)) for layout, d in operands)
    rows, columns = np.ones(atom.a.shape, bool), np.ones(atom.b.shape, bool)
    rows[3, 5], columns[20, 0] = False, False
    warp.forget(a, gather(rows, atom.a))
    warp.forget(b, gather(columns, atom.b))
    matrix_multiply(atom).simulate(warp, c, a, b)
    expected = np.ones(atom.c.shape, bool)
    expected[3, :], expected[:, 20] = False, False
    assert np.array_equal(expected, scatter(warp.known(c), atom.c))


def test_an_instruction_is_made_once():
    one, other = (MatrixAtom(of_name("mfma_f32_16x16x16f16"), 1, 2, 2, 8, 8, column_major=True) for _ in range(2))
    assert matrix_multiply(one) is matrix_multiply(other)


def test_an_instruction_says_what_it_multiplies_and_how_long_that_takes():
    made = matrix_multiply(MatrixAtom(of_name("mfma_f32_32x32x8f16"), 1, 2, 2, 8, 8, column_major=True))
    assert MatrixWork(2 * 2 * 32 * 32 * 8, operand_bits=16, cycles=2 * 2 * 32) == made.matrix


FORCEINLINE = "#define __forceinline__ inline __attribute__((always_inline))\n"
_SUMS = {"float32": "float", "float64": "double", "int32": "int"}


def kernel(atom):
    """A kernel that loads operands, multiplies them and stores the sums."""
    instruction = matrix_multiply(atom)
    text = "".join(helper.text for helper in ordered_helpers([instruction.helpers["hip"]]))
    a, b = (layout.values * atom.a_dtype.storage_bytes for layout in (atom.a, atom.b))
    c = _SUMS[str(atom.c_dtype)]
    call = instruction.texts["hip"].format("sums", "left", "right")
    return f"""{text}
extern "C" __global__ THREADS({atom.matrix.wave}) void run({c}* c, const char* a, const char* b) {{
    unsigned lane = __builtin_amdgcn_workitem_id_x();
    alignas(16) char left[{a}], right[{b}];
    alignas(16) {c} sums[{atom.c.values}] = {{}};
    __builtin_memcpy(left, __builtin_assume_aligned(a + lane * {a}, 4), {a});
    __builtin_memcpy(right, __builtin_assume_aligned(b + lane * {b}, 4), {b});
    {call};
    __builtin_memcpy(c + lane * {atom.c.values}, sums, sizeof(sums));
}}
"""


@pytest.mark.slow(every=8)
@needs_clang
@pytest.mark.parametrize("arch", ARCHES)
def test_clang_compiles_atoms_without_memory_for_registers(arch):
    machine = MACHINES[arch]
    for bits in {row.a_dtype.bits for row in ROWS if row.runs_on(machine)}:
        row = next(row for row in ROWS if row.runs_on(machine) and row.a_dtype.bits == bits)
        depth, parts = max(1, 8 // row.a.values), 4 if bits < 32 else 2
        for atom in (
            MatrixAtom(row, 1, parts, depth, 4, 4, column_major=True),
            MatrixAtom(row, parts, 1, depth, 4, 4, column_major=False),
        ):
            made = build(source(PRELUDE + FORCEINLINE + kernel(atom), "run", threads=row.wave), arch, "clang")
            assert 0 == made.resources["run"].spill_bytes
            assert 0 == made.resources["run"].local_bytes


# The text runs on the host, as one lane does, with its matrix instructions replaced by records of their operands
HOST = """\
#define __device__
#define __forceinline__ inline
static char* tl_log;
static unsigned __builtin_amdgcn_perm(unsigned high, unsigned low, unsigned selector) {
    unsigned long long both = (unsigned long long)high << 32 | low;
    unsigned result = 0;
    for (int byte = 0; byte < 4; ++byte)
        result |= (unsigned)(both >> 8 * (selector >> 8 * byte & 7) & 255) << 8 * byte;
    return result;
}
template <typename T> void tl_record(T value) {
    __builtin_memcpy(tl_log, &value, sizeof value);
    tl_log += sizeof value;
}
template <typename A, typename C> C tl_record(A a, A b, C c) {
    tl_record(a);
    tl_record(b);
    tl_record(c);
    return c;
}
"""


def on_host(atom):
    """The library of the text, whose function `run(log, c, a, b)` records the operands of each instruction."""
    instruction, matrix = matrix_multiply(atom), atom.matrix
    given = matrix.arguments.format(a="a", b="b", c="c").split(", ")
    names = [word if word in "abc" else f"_{i}" for i, word in enumerate(given)]
    macro = f"#define __builtin_amdgcn_{matrix.builtin}({', '.join(names)}) tl_record(a, b, c)\n"
    text = "".join(helper.text for helper in ordered_helpers([instruction.helpers["hip"]]))
    call = instruction.texts["hip"].format("c", "a", "b")
    entry = f'extern "C" void run(char* log, void* c, void* a, void* b) {{ tl_log = log; {call}; }}'
    with tempfile.TemporaryDirectory() as folder:
        source_file, library = Path(folder, "atom.cpp"), Path(folder, "atom.so")
        source_file.write_text(HOST + macro + text + entry)
        flags = ("-w", "-O1", "-shared", "-fPIC", "-nostdlib", "-o", str(library))
        command = [sys.executable, "-m", "ziglang", "cc", *flags, str(source_file)]
        subprocess.run(command, check=True, capture_output=True)
        return ctypes.CDLL(str(library))


@pytest.mark.skipif(find_spec("ziglang") is None, reason="needs a clang for the host: pip install ziglang")
@pytest.mark.parametrize(
    "atom",
    [
        MatrixAtom(of_name("mfma_f32_32x32x8f16"), 1, 1, 2, 8, 8, column_major=False),
        MatrixAtom(of_name("mfma_f32_16x16x16f16"), 1, 4, 2, 8, 8, column_major=True),
        MatrixAtom(of_name("mfma_f32_16x16x32_bf16"), 2, 2, 1, 8, 8, column_major=False),
        MatrixAtom(of_name("mfma_i32_16x16x32_i8"), 4, 8, 2, 8, 8, column_major=True),
        MatrixAtom(of_name("mfma_f32_16x16x4f32"), 2, 2, 4, 4, 8, column_major=True),
        MatrixAtom(of_name("mfma_f64_16x16x4f64"), 2, 2, 2, 2, 4, column_major=True),
        MatrixAtom(of_name("mfma_scale_f32_16x16x128_f8f6f4_fp8_bf8"), 1, 4, 1, 8, 8, column_major=True),
        MatrixAtom(of_name("wmma_f32_16x16x16_f16_w32"), 1, 4, 1, 8, 8, column_major=True),
        MatrixAtom(of_name("wmma_i32_16x16x16_iu8_w32_gfx12_int8_uint8"), 4, 1, 2, 8, 8, column_major=False),
    ],
    ids=lambda atom: atom.name,
)
def test_the_text_multiplies_what_the_meaning_does(atom):
    kinds = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
    element, sums = kinds[atom.a_dtype.storage_bytes], kinds[atom.c_dtype.storage_bytes]
    kinds_of_operands = ((atom.c, sums), (atom.a, element), (atom.b, element))
    c, a, b = (np.arange(layout.values, dtype=kind) for layout, kind in kinds_of_operands)
    calls = [(b[columns], a[rows], c[into]) for rows, columns, into in atom.instructions()]
    expected = np.concatenate([part.view(np.uint8) for call in calls for part in call])
    log = np.zeros_like(expected)
    on_host(atom).run(*(ctypes.c_void_p(part.ctypes.data) for part in (log, c, a, b)))
    assert np.array_equal(expected, log)
