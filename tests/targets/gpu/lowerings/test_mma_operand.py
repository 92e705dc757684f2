"""Shared memory loads of mma operands: vector width, bank conflicts, and where they go."""

import numpy as np
import pytest
from invented.isa.matrix import MATRIX_ATOM
from invented.machines import MACHINES
from lowered_gemm import buffer

from tilelang.arith.domain import Domain
from tilelang.dtypes import as_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Cast, as_expr
from tilelang.ir.stmt import Store
from tilelang.ir.visit import walk, walk_expr
from tilelang.layout.shared_memory import conflicts, offsets, row_major
from tilelang.layout.thread_values import digit, fragment
from tilelang.lowering.regions import ZERO, whole
from tilelang.lowering.registers import Emitter
from tilelang.targets.gpu.lowerings.mma_operand import ElementOperand, Share

MACHINE = MACHINES["wave64"]


def share(rows, depth, dtype="float16", *, turned=False, atom=MATRIX_ATOM.a, atoms=2):
    tile = buffer("A", (depth, rows) if turned else (rows, depth), dtype, Scope.SHARED)
    return Share(whole(tile), *((1, 0) if turned else (0, 1)), rows, depth, atom, atoms, rows)


def test_contiguous_elements_of_a_lane_are_one_vector_load():
    assert 4 == share(64, 32).width
    assert 1 == share(64, 32, turned=True).width
    rows_first = fragment((4, 64), [digit(64, 0, 1)], [digit(4, 1, 0)])
    assert 1 == share(64, 64, atom=rows_first).width
    assert 4 == share(64, 64, turned=True, atom=rows_first).width


@pytest.mark.parametrize(("dtype", "width"), [("int8", 16), ("float16", 8), ("float64", 2)])
def test_a_load_has_no_more_than_16_bytes(dtype, width):
    long = fragment((64, 32), [digit(64, 1, 0)], [digit(32, 0, 1)])
    assert width == share(64, 64, dtype, atom=long).width


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("rows", "depth"), [(64, 32), (128, 64), (64, 20)])
def test_loads_of_a_wave_are_free_of_bank_conflicts(turned, rows, depth):
    made = share(rows, depth, turned=turned)
    height, length = (depth, rows) if turned else (rows, depth)
    places = offsets(made.layout(MACHINE) or row_major((height, length))) * as_dtype("float16").storage_bytes
    for access in made.accesses(height, length):
        assert (64,) == access.rows.shape
        assert 0 == conflicts(places[access.rows, access.columns], access.bytes, MACHINE)


def test_the_tile_of_a_warp_is_a_sequence_of_instruction_tiles():
    tile = share(64, 32).tile
    assert (64, 8) == tile.shape
    np.testing.assert_array_equal(tile.table[5, 4:] - tile.table[5, :4], np.tile([32, 0], (4, 1)))


@pytest.mark.parametrize("turned", [False, True])  # by vectors, and by elements
def test_elements_are_rounded_and_loaded_to_other_registers_as_they_are(turned):
    build, registers = Builder(), Buffer("r", (as_expr(8),), as_dtype("tfloat32"), Scope.LOCAL)
    emit = Emitter(build, Domain())
    operand = ElementOperand(emit, share(64, 32, "tfloat32", turned=turned), ZERO, ZERO, None, sets=1)
    operand.fetch(ZERO, tail=False)
    operand.loading_to(registers).fetch(ZERO, tail=False)
    rounded, exact = (s for s in walk(build.finish()) if isinstance(s, Store))
    assert ("A_r", "r") == (rounded.buffer.name, exact.buffer.name)
    assert [True, False] == [any(isinstance(e, Cast) for e in walk_expr(s.value)) for s in (rounded, exact)]
