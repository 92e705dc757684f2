"""The transposing read of LDS: what lanes get, by the words of the manual; which fragments it fills; its text."""

import numpy as np
import pytest
from hip_text import assembly_of, hip_source, needs_clang
from warp_registers import WarpOfRegisters

from tilelang.dtypes import as_dtype
from tilelang.isa.simulated import Pointer
from tilelang.layout.thread_values import digit, fragment
from tilelang.targets.amd.isa.transposed_read import (
    ADDRESSED_ROW,
    COLUMN_LANE,
    READ_TRANSPOSED,
    can_fill,
    instructions,
)

F16 = as_dtype("float16")


def test_a_lane_gets_a_column_of_four_rows():
    tile = np.arange(16 * 16).reshape(16, 16)  # four rows for each 16 lanes
    warp = WarpOfRegisters(64)
    memory = warp.shared(F16, tile.astype(np.float16))
    registers = warp.registers(F16, np.zeros((64, 4), np.float16))
    lane = np.arange(64)
    addresses = (lane // 16 * 4 + ADDRESSED_ROW) * 16 + COLUMN_LANE % 16
    READ_TRANSPOSED.simulate(warp, registers, Pointer(memory, addresses))
    got = warp.values(registers)
    for each in range(64):
        assert list(tile[each // 16 * 4 : each // 16 * 4 + 4, each % 16]) == list(got[each])
    assert [READ_TRANSPOSED] == list(instructions())


COLUMNS, GROUPS = digit(32, 1, 0), digit(2, 0, 8)


@pytest.mark.parametrize(
    ("tile", "fits"),
    [
        (fragment((32, 16), [COLUMNS, GROUPS], [digit(8, 0, 1)]), True),
        (fragment((64, 16), [COLUMNS, GROUPS], [digit(8, 0, 1), digit(2, 32, 0)]), True),
        (fragment((32, 16), [digit(4, 1, 0), digit(2, 8, 0), digit(2, 4, 0), digit(2, 16, 0), GROUPS], [digit(8, 0, 1)]), True),
        (fragment((32, 4), [COLUMNS, digit(2, 0, 2)], [digit(2, 0, 1)]), False),  # fewer values than a read gives
        (fragment((64, 8), [digit(32, 2, 0), digit(2, 0, 4)], [digit(2, 1, 0), digit(4, 0, 1)]), False),  # of two columns
        (fragment((32, 8), [digit(32, 1, 0)], [digit(8, 0, 1)]), False),  # a wave of 32
    ],
)  # fmt: skip
def test_which_fragments_it_fills(tile, fits):
    assert fits == can_fill(tile)


@needs_clang
def test_its_text_is_the_instruction():
    kernel = """\
extern "C" __global__ void f(int* a) {
    __shared__ int tile[128];
    const int i = (int)__builtin_amdgcn_workitem_id_x();
    tile[i] = a[i];
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "workgroup");
    int two[2];
    tl_read_transposed(two, &tile[i * 2]);
    a[i] = two[0] + two[1];
}"""
    assert "ds_read_b64_tr_b16" in assembly_of(hip_source([READ_TRANSPOSED.helpers["hip"]], [kernel]), "gfx950")
