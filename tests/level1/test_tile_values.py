"""Expressions over the tiles that a block holds."""

import math

import level1_programs as graphs

from tilelang.dtypes import FLOAT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Const
from tilelang.level1.fuse import fused_kernels
from tilelang.level1.placement import Tiling, place_axes
from tilelang.level1.tile_values import TileValues


def test_what_a_tile_holds_is_read_there() -> None:
    (kernel,) = fused_kernels(graphs.softmax(5, 33))
    i, j = kernel.extents
    values = TileValues(place_axes(kernel, Tiling({i: 2, j: 16}, 128, 2)))
    tile = Buffer("tile", (Const(2, i.dtype), Const(16, i.dtype)), FLOAT32, Scope.FRAGMENT)
    largest, total = kernel.reductions
    assert "x[bx * block_i + i, j_step * block_j + j]" == repr(values.localized(largest.body))
    values.enter()
    values.hold(largest.body, tile, (i, j), stepwise=True, beyond=-math.inf)
    assert "T.exp(tile[i, j] - largest[bx * block_i + i])" == repr(values.localized(total.body))
    assert values.tile_of(largest.body) is not None
    values.leave()
    assert values.tile_of(largest.body) is None


def test_values_beyond_the_end() -> None:
    (kernel,) = fused_kernels(graphs.softmax(5, 33))
    i, j = kernel.extents
    values = TileValues(place_axes(kernel, Tiling({i: 2, j: 16}, 128, 2)))
    tile = Buffer("tile", (Const(2, i.dtype), Const(16, i.dtype)), FLOAT32, Scope.FRAGMENT)
    largest, total = kernel.reductions
    ragged = frozenset((j,))
    assert (0.0, None) == (values.beyond(largest.body, ragged), values.beyond(total.body, ragged))
    values.hold(largest.body, tile, (i, j), stepwise=True, beyond=-math.inf)
    assert 0.0 == values.beyond(total.body, ragged)
