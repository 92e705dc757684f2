"""Operands of matrix instructions whose layout in LDS suits transposed stores, too."""

import numpy as np
import pytest

from tilelang.dtypes import SCALARS
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import as_expr
from tilelang.layout.shared_memory import contiguous_elements, offsets
from tilelang.layout.thread_values import digit, fragment
from tilelang.lowering.operand_layout import WarpAccess, conflict_cycles
from tilelang.lowering.regions import whole
from tilelang.targets.amd.lowerings.stored_share import StoredShare
from tilelang.targets.amd.machines import MACHINES
from tilelang.targets.amd.transposed_stores import store_accesses

FLOAT16 = SCALARS["float16"]
ATOM = fragment((32, 16), [digit(32, 1, 0), digit(2, 0, 8)], [digit(8, 0, 1)])  # two steps of v_mfma_f32_32x32x8_f16


ROWS = ((4, 1), (2, 8), (2, 4), (2, 16))  # in which lanes read columns, so that they hold contiguous ones of the sums
COLUMNS = fragment((32, 16), [*(digit(*each, 0) for each in ROWS), digit(2, 0, 8)], [digit(8, 0, 1)])


def share(height, length, *, transposed=False, by_columns=False, atom=ATOM):
    tile = Buffer("B", (as_expr(height), as_expr(length)), FLOAT16, Scope.SHARED)
    row, k = (1, 0) if transposed else (0, 1)
    return StoredShare(whole(tile), row, k, height, length, atom, 2, height, by_columns)


@pytest.mark.parametrize("shape", [(128, 64), (256, 64), (64, 128)])
def test_loads_and_stores_have_no_bank_conflicts(shape):
    machine = MACHINES["gfx942"]
    found = share(*shape)
    layout = found.layout(machine)
    assert layout is not None and contiguous_elements(layout) >= 8
    assert len(np.unique(offsets(layout))) == shape[0] * shape[1]
    accesses = [*found.accesses(*shape), *store_accesses(shape, 2, machine.warp_size)]
    assert {"load", "store"} == {access.kind for access in accesses}
    assert 0 == sum(conflict_cycles(layout, access, FLOAT16, machine) for access in accesses)


def test_operands_whose_rows_are_contiguous_have_the_layout_of_their_loads():
    machine = MACHINES["gfx942"]
    found = share(64, 128, transposed=True)
    super_layout = super(StoredShare, found).layout(machine)
    assert super_layout == found.layout(machine)


def test_only_tiles_that_are_stored_by_columns_are_laid_out_by_steps():
    """Stores of whole rows have bank conflicts there."""
    machine = MACHINES["gfx942"]
    lane = np.arange(machine.warp_size)
    rows = WarpAccess(lane // 8, lane % 8 * 8, 16, "store")
    found = [share(128, 64, by_columns=each, atom=COLUMNS) for each in (False, True)]
    lost = [conflict_cycles(each.layout(machine), rows, FLOAT16, machine) for each in found]
    assert lost[0] == 0 < lost[1]
    assert not any(conflict_cycles(each.layout(machine), load, FLOAT16, machine) for each in found for load in each.accesses(128, 64))
