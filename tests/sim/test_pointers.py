"""Pointers to registers that all lanes index alike stay so where a constant is added."""

import numpy as np

from tilelang.dtypes import FLOAT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import as_expr
from tilelang.sim.pointers import RegisterPointer

ARRAY = Buffer("r", (as_expr(8),), FLOAT32, Scope.LOCAL)


def test_a_constant_moves_the_place():
    moved = RegisterPointer(ARRAY, 2, 32) + 3
    assert isinstance(moved, RegisterPointer)
    assert (5, [5] * 32) == (moved.place, moved.offset.tolist())


def test_offsets_per_lane_make_a_pointer_per_lane():
    moved = RegisterPointer(ARRAY, 2, 4) + np.arange(4)
    assert not isinstance(moved, RegisterPointer)
    assert [2, 3, 4, 5] == moved.offset.tolist()
