"""The fragments of `mma` against the formulas of the manual, and the meaning of an atom against a matrix product."""

import numpy as np
import pytest
from warp_registers import WarpOfRegisters, gather, scatter

from tilelang.dtypes import as_dtype
from tilelang.targets.nvidia.isa.atom import mma
from tilelang.targets.nvidia.isa.mma import ATOMS

# Row and column of element i of a lane, transcribed from PTX ISA, section "Matrix Fragments for mma.<shape>", where
# group = lane >> 2 and local = lane % 4. A is (row, k), B is (k, column), C is (row, column).


def _c16(g, t, i):
    return (g if i < 2 else g + 8), t * 2 + (i & 1)


def _c8(g, t, i):
    return g, t * 2 + (i & 1)


FORMULAS = {
    # m8n8k4, .f64
    ("float64", (8, 8, 4)): (
        lambda g, t, i: (g, t),
        lambda g, t, i: (t, g),
        lambda g, t, i: (g, t * 2 + (i & 1)),
    ),
    # m16n8k4, .f64
    ("float64", (16, 8, 4)): (
        lambda g, t, i: (g if i == 0 else g + 8, t),
        lambda g, t, i: (t, g),
        _c16,
    ),
    # m16n8k8, .f64
    ("float64", (16, 8, 8)): (
        lambda g, t, i: (g if i in (0, 2) else g + 8, t if i in (0, 1) else t + 4),
        lambda g, t, i: (t if i == 0 else t + 4, g),
        _c16,
    ),
    # m16n8k16, .f64
    ("float64", (16, 8, 16)): (
        lambda g, t, i: (g if i % 2 == 0 else g + 8, i // 2 * 4 + t),
        lambda g, t, i: (t + i * 4, g),
        _c16,
    ),
    # m16n8k8, .f16 and .bf16
    ("16 bit", (16, 8, 8)): (
        lambda g, t, i: (g if i < 2 else g + 8, t * 2 + (i & 1)),
        lambda g, t, i: (t * 2 + i, g),
        _c16,
    ),
    # m16n8k16, .f16 and .bf16
    ("16 bit", (16, 8, 16)): (
        lambda g, t, i: (
            g if i < 2 or 4 <= i < 6 else g + 8,
            t * 2 + (i & 1) if i < 4 else t * 2 + (i & 1) + 8,
        ),
        lambda g, t, i: (t * 2 + (i & 1) if i < 2 else t * 2 + (i & 1) + 8, g),
        _c16,
    ),
    # m16n8k4, .tf32
    ("tfloat32", (16, 8, 4)): (
        lambda g, t, i: (g if i == 0 else g + 8, t),
        lambda g, t, i: (t, g),
        _c16,
    ),
    # m16n8k8, .tf32
    ("tfloat32", (16, 8, 8)): (
        lambda g, t, i: (g if i in (0, 2) else g + 8, t if i in (0, 1) else t + 4),
        lambda g, t, i: (t if i == 0 else t + 4, g),
        _c16,
    ),
    # m8n8k16, .s8 and .u8
    ("8 bit", (8, 8, 16)): (
        lambda g, t, i: (g, t * 4 + i),
        lambda g, t, i: (t * 4 + i, g),
        _c8,
    ),
    # m16n8k16, .s8 and .u8
    ("8 bit", (16, 8, 16)): (
        lambda g, t, i: (g if i < 4 else g + 8, t * 4 + (i & 3)),
        lambda g, t, i: (t * 4 + i, g),
        _c16,
    ),
    # m16n8k32, .s8, .u8, .e4m3 and .e5m2
    ("8 bit", (16, 8, 32)): (
        lambda g, t, i: (
            g if i < 4 or 8 <= i < 12 else g + 8,
            t * 4 + (i & 3) if i < 8 else t * 4 + (i & 3) + 16,
        ),
        lambda g, t, i: (t * 4 + (i & 3) if i < 4 else t * 4 + (i & 3) + 16, g),
        _c16,
    ),
    # m8n8k32, .s4 and .u4
    ("4 bit", (8, 8, 32)): (
        lambda g, t, i: (g, t * 8 + i),
        lambda g, t, i: (t * 8 + i, g),
        _c8,
    ),
    # m16n8k32, .s4 and .u4
    ("4 bit", (16, 8, 32)): (
        lambda g, t, i: (g if i < 8 else g + 8, t * 8 + (i & 7)),
        lambda g, t, i: (t * 8 + (i & 7), g),
        _c16,
    ),
    # m16n8k64, .s4 and .u4
    ("4 bit", (16, 8, 64)): (
        lambda g, t, i: (
            g if i < 8 or 16 <= i < 24 else g + 8,
            t * 8 + (i & 7) if i < 16 else t * 8 + (i & 7) + 32,
        ),
        lambda g, t, i: (t * 8 + (i & 7) if i < 8 else t * 8 + (i & 7) + 32, g),
        _c16,
    ),
}


def formulas(atom):
    kind = str(atom.a_dtype)
    return FORMULAS[kind if kind in ("float64", "tfloat32") else f"{atom.a_dtype.bits} bit", atom.shape]


@pytest.mark.parametrize("atom", ATOMS, ids=lambda atom: atom.name)
def test_fragments_are_those_of_the_manual(atom):
    m, n, k = atom.shape
    a, b, c = formulas(atom)
    for lane in range(32):
        group, local = lane >> 2, lane % 4
        assert [a(group, local, i) for i in range(m * k // 32)] == [tuple(x) for x in atom.a.table[lane]]
        assert [b(group, local, i)[::-1] for i in range(n * k // 32)] == [tuple(x) for x in atom.b.table[lane]]
        assert [c(group, local, i) for i in range(m * n // 32)] == [tuple(x) for x in atom.c.table[lane]]


@pytest.mark.parametrize("atom", ATOMS, ids=lambda atom: atom.name)
def test_an_atom_adds_the_product_of_its_operands(atom):
    m, n, k = atom.shape
    rng = np.random.default_rng(0)

    def draw(shape, dtype):
        low = 0 if str(dtype).startswith("uint") else -4
        return rng.integers(low, 5, shape).astype(dtype.numpy)

    a, b, c = draw((m, k), atom.a_dtype), draw((n, k), atom.b_dtype), draw((m, n), atom.c_dtype)
    warp = WarpOfRegisters()
    registers = [
        warp.registers(dtype, gather(matrix, layout))
        for matrix, layout, dtype in (
            (c, atom.c, atom.c_dtype),
            (a, atom.a, atom.a_dtype),
            (b, atom.b, atom.b_dtype),
        )
    ]
    mma(atom).simulate(warp, *registers)
    expected = c.astype(np.float64) + a.astype(np.float64) @ b.astype(np.float64).T
    assert np.array_equal(expected, scatter(warp.values(registers[0]), atom.c).astype(np.float64))


def test_tf32_operands_lose_their_lowest_bits():
    atom = next(atom for atom in ATOMS if atom.a_dtype == "tfloat32")
    warp = WarpOfRegisters()
    a = np.full((16, 4), np.float32(1) + np.float32(2) ** -12)
    c, left, right = (
        warp.registers(as_dtype("float32"), gather(np.zeros((16, 8), np.float32), atom.c)),
        warp.registers(as_dtype("tfloat32"), gather(a, atom.a)),
        warp.registers(as_dtype("tfloat32"), gather(np.ones((8, 4), np.float32), atom.b)),
    )
    mma(atom).simulate(warp, c, left, right)
    assert np.array_equal(np.full((32, 4), 4.0), warp.values(c))


def test_undefined_padding_makes_its_row_and_column_undefined_and_nothing_else():
    atom = next(atom for atom in ATOMS if atom.name == "m16n8k8_f32_tf32_tf32")
    warp = WarpOfRegisters()
    zeros = {
        name: np.zeros(layout.shape, np.float32) for name, layout in zip("cab", (atom.c, atom.a, atom.b), strict=True)
    }
    c, a, b = (
        warp.registers(dtype, gather(zeros[name], layout))
        for name, layout, dtype in (
            ("c", atom.c, atom.c_dtype),
            ("a", atom.a, atom.a_dtype),
            ("b", atom.b, atom.b_dtype),
        )
    )
    rows, columns = np.ones((16, 8), bool), np.ones((8, 8), bool)
    rows[3, 5], columns[6, 0] = False, False
    warp.forget(a, gather(rows, atom.a))
    warp.forget(b, gather(columns, atom.b))
    mma(atom).simulate(warp, c, a, b)
    expected = np.ones((16, 8), bool)
    expected[3, :], expected[:, 6] = False, False
    assert np.array_equal(expected, scatter(warp.known(c), atom.c))


def test_an_instruction_is_made_once():
    assert mma(ATOMS[0]) is mma(ATOMS[0])
    assert mma(ATOMS[0]).name in mma(ATOMS[0]).helpers["cuda"].text
