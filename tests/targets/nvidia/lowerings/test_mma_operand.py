"""What a warp's share of an operand says about how it can be loaded."""

import pytest
from lowered_gemm import buffer

from tilelang.dtypes import as_dtype
from tilelang.ir.buffer import Scope
from tilelang.layout.shared_memory import contiguous_elements
from tilelang.layout.xor_swizzle import swizzled, widest_mode
from tilelang.lowering.regions import whole
from tilelang.targets.nvidia.isa.atom import per_register
from tilelang.targets.nvidia.isa.mma import ATOMS
from tilelang.targets.nvidia.lowerings.mma_operand import MatrixShare
from tilelang.targets.nvidia.machines import MACHINES


class Tile:
    def __init__(self, shape, dtype):
        self.shape, self.dtype = shape, as_dtype(dtype)


def share(rows, depth, dtype="float16", *, turned=False, atoms=4, cover=None):
    atom = next(a for a in reversed(ATOMS) if a.a_dtype == dtype)
    tile = buffer("A", (depth, rows) if turned else (rows, depth), dtype, Scope.SHARED)
    axes = (1, 0) if turned else (0, 1)
    return MatrixShare(whole(tile), *axes, rows, depth, atom.a, atoms, cover or rows)


@pytest.mark.parametrize(
    ("made", "suits"),
    [
        (share(64, 32), True),
        (share(64, 32, turned=True), True),
        (share(60, 32, cover=64), True),  # rows beyond are taken from inside
        (share(60, 32, turned=True, cover=64), False),  # a row of a matrix may end in the middle
        (share(64, 64, "int8"), True),
        (share(64, 64, "int8", turned=True), False),  # matrix loads turn 16-bit units only
        (share(64, 16, "tfloat32"), True),
        (share(64, 16, "tfloat32", turned=True), False),
        (share(64, 16, "float64"), False),
        (share(64, 64, "int4"), False),
    ],
)
def test_matrix_loads_serve_what_lies_in_their_units(made, suits):
    assert suits == made.suits_matrix_loads


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("rows", "depth"), [(128, 32), (128, 64), (64, 16), (64, 128)])
def test_sixteen_bit_operands_lie_in_the_common_swizzle(rows, depth, turned):
    shape = (depth, rows) if turned else (rows, depth)
    assert swizzled(shape, 16, widest_mode(16 * shape[-1])) == share(rows, depth, turned=turned).layout(MACHINES["sm_90a"])


def test_rows_of_an_odd_number_of_chunks_need_no_layout():
    assert share(64, 24).layout(MACHINES["sm_90a"]) is None


def test_rows_that_are_no_whole_chunks_are_padded():
    layout = share(64, 20).layout(MACHINES["sm_90a"])
    assert layout.output_shape[0] > 64 * 20
    assert contiguous_elements(layout) >= 2


def test_the_tile_of_a_warp_is_its_instructions_one_after_another():
    made = share(64, 32, atoms=2)
    tile = made.tile
    assert (32, 16) == tile.shape
    assert [16 + r for r, _ in made.atom.table[5]] == [r for r, _ in tile.table[5, made.atom.values :]]


@pytest.mark.parametrize("atom", ATOMS, ids=lambda atom: atom.name)
def test_lanes_hold_a_register_of_neighbors(atom):
    tile = buffer("A", (64, 64), str(atom.a_dtype), Scope.SHARED)
    assert per_register(atom.a_dtype) == MatrixShare(whole(tile), 0, 1, 64, 64, atom.a, 2, 64).width
