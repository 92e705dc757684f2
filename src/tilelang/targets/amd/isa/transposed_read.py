"""The read of LDS that transposes tiles of 4 x 16 elements of 16 bits: `ds_read_b64_tr_b16`.

Gives `READ_TRANSPOSED`, and `can_fill`, whether reads fill a fragment. Sixteen lanes act together:
lane 4 j + q of them gives the address of columns 4 q to 4 q + 3 of row j, lane l gets the four elements of column l.

Source: AMD Instinct CDNA 4 Instruction Set Architecture, "DS_READ_B64_TR_B16".
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from tilelang.isa.instruction import ExecutionScope, Instruction
from tilelang.isa.intrinsic import Helper
from tilelang.isa.simulated import Pointer, Warp
from tilelang.layout.thread_values import Fragment
from tilelang.targets.amd.machines import CDNA_WAVE, Feature

GROUP_LANES = 16  # lanes that exchange elements
ROWS = 4  # of a tile in memory, and columns that a lane addresses
ITEM_BYTES = 2
BYTES = ROWS * ITEM_BYTES

_LANE = np.arange(CDNA_WAVE)
_FIRST = _LANE - _LANE % GROUP_LANES  # of the lanes that act together
ADDRESSED_ROW = _LANE % GROUP_LANES // ROWS
"""The row of its tile that each lane addresses."""
COLUMN_LANE = _FIRST + _LANE % ROWS * ROWS
"""The lane that gets the first of the columns that each lane addresses."""


def _simulate(warp: Warp, target: Pointer, source: Pointer) -> None:
    warp.converge((1 << warp.size) - 1, "ds_read_b64_tr_b16")
    values, defined = warp.read_raw(source, ROWS)
    lanes = _FIRST[:, None] + _LANE[:, None] % GROUP_LANES // ROWS + ROWS * np.arange(ROWS)
    element = np.broadcast_to(_LANE[:, None] % ROWS, lanes.shape)
    warp.write(target, values[lanes, element], defined=defined[lanes, element])


READ_TRANSPOSED = Instruction(
    "read_transposed",
    {"hip": "tl_read_transposed({0}, {1})"},
    {
        "hip": Helper(
            "tl_read_transposed",
            """\
// Of 16 lanes, lane 4 j + q addresses four columns from 4 q on of row j of a tile; lane l gets column l of four rows.
__device__ __forceinline__ void tl_read_transposed(void* registers, const void* shared) {
    typedef short column __attribute__((ext_vector_type(4)));
    const column made = __builtin_amdgcn_ds_read_tr16_b64_v4i16((__attribute__((address_space(3))) column*)shared);
    __builtin_memcpy(registers, &made, sizeof(made));
}
""",
        )
    },
    _simulate,
    execution_scope=ExecutionScope.WARP,
    needs=Feature.TRANSPOSED_READ,
    shared_rows=(CDNA_WAVE, BYTES),
    source="AMD Instinct CDNA 4 Instruction Set Architecture, 'DS_READ_B64_TR_B16'",
)
"""The read; its operands are registers of four elements, and the address of the lane in LDS."""


@lru_cache(maxsize=256)
def can_fill(tile: Fragment) -> bool:
    """Whether reads fill a fragment of columns of memory by rows, four values of each lane at once."""
    table = tile.table
    if table.shape[0] != CDNA_WAVE or table.shape[1] % ROWS:
        return False
    column, row = table[..., 0], table[..., 1]
    columns = column.reshape(CDNA_WAVE, -1, ROWS)
    return bool(
        (columns == columns[:, :, :1]).all()
        and (column == column[_LANE - _LANE % ROWS] + (_LANE % ROWS)[:, None]).all()
        and (column[::ROWS] % ROWS == 0).all()
        and (row == row[_FIRST]).all()
    )


def instructions() -> Iterator[Instruction]:
    """Those of this file."""
    yield READ_TRANSPOSED
