"""Matrix loads and stores against the words of the manual, written out by lane."""

import numpy as np
import pytest
from warp_registers import WarpOfRegisters

from tilelang.dtypes import as_dtype
from tilelang.isa.simulated import Pointer
from tilelang.targets.nvidia.isa.ldmatrix import MatrixCopyAtom, ldmatrix, stmatrix
from tilelang.targets.nvidia.isa.mma import ATOMS

F16 = as_dtype("float16")
LANES = np.arange(32)


def loaded(matrices, count, trans):
    warp = WarpOfRegisters()
    memory = warp.shared(F16, matrices)
    registers = warp.registers(F16, np.zeros((32, 2 * count), np.float16))
    rows = Pointer(memory, (LANES % (8 * count)) * 8)
    ldmatrix(count, trans).simulate(warp, registers, rows)
    return warp.values(registers)


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_load_gives_each_lane_its_pair_of_each_matrix(count, trans):
    matrices = np.arange(count * 64, dtype=np.float16).reshape(count, 8, 8)
    got = loaded(matrices, count, trans)
    for lane in range(32):
        for j in range(count):  # row lane/4, elements 2*(lane%4) and its neighbor; .trans loads columns in their place
            matrix = matrices[j].T if trans else matrices[j]
            assert [matrix[lane // 4, 2 * (lane % 4)], matrix[lane // 4, 2 * (lane % 4) + 1]] == list(
                got[lane, 2 * j : 2 * j + 2]
            )


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_store_undoes_a_load(count, trans):
    matrices = np.random.default_rng(1).permutation(count * 64).astype(np.float16).reshape(count, 8, 8)
    warp = WarpOfRegisters()
    memory = warp.shared(F16, np.zeros_like(matrices))
    registers = warp.registers(F16, loaded(matrices, count, trans))
    stmatrix(count, trans).simulate(warp, Pointer(memory, (LANES % (8 * count)) * 8), registers)
    assert np.array_equal(matrices.reshape(-1), warp.values(memory))


def test_elements_of_any_size_move_as_bytes():
    warp = WarpOfRegisters()
    memory = warp.shared(as_dtype("int8"), np.arange(128, dtype=np.int8))
    registers = warp.registers(as_dtype("int8"), np.zeros((32, 4), np.int8))
    ldmatrix(1).simulate(warp, registers, Pointer(memory, (LANES % 8) * 16))
    assert np.array_equal(np.arange(128).reshape(32, 4), warp.values(registers))


def test_four_matrices_are_the_left_operand_of_a_product():
    """The rows that lanes name for x4 without transposition fill A of m16n8k16 from a row-major tile."""
    atom = next(a for a in ATOMS if a.name == "m16n8k16_f32_f16_f16")
    tile = np.arange(256, dtype=np.float16).reshape(16, 16)
    warp = WarpOfRegisters()
    memory = warp.shared(F16, tile)
    registers = warp.registers(F16, np.zeros((32, 8), np.float16))
    ldmatrix(4).simulate(warp, registers, Pointer(memory, (LANES % 16) * 16 + LANES // 16 * 8))
    assert np.array_equal(tile[tuple(np.moveaxis(atom.a.table, -1, 0))], warp.values(registers))


def test_the_name_tells_count_and_arrangement():
    assert "x4.trans" == MatrixCopyAtom(4, True).suffix
    assert "tl_ldmatrix_x4_trans" == ldmatrix(4, True).name
    assert stmatrix(2) is stmatrix(2)
