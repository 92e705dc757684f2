"""Expressions over the tiles that a block holds."""

import math
from typing import Any

import level1_programs as graphs
import numpy as np
import pytest
from array_functions import numbers

import tilelang
import tilelang.language as T
import tilelang.numpy as tnp
from tilelang.dtypes import FLOAT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Const, cast
from tilelang.level1.execution import load_program
from tilelang.level1.fuse import fused_kernels
from tilelang.level1.graph import Combiner
from tilelang.level1.placement import Tiling, place_axes
from tilelang.level1.tile_values import TileValues, Unknown


def test_what_a_tile_holds_is_read_there() -> None:
    (kernel,) = fused_kernels(graphs.softmax(5, 33))
    i, j = kernel.extents
    values = TileValues(place_axes(kernel, Tiling({i: 2, j: 16}, 128, 2)))
    tile = Buffer("tile", (Const(2, i.dtype), Const(16, i.dtype)), FLOAT32, Scope.FRAGMENT)
    largest, total = kernel.reductions
    assert "x[bx * block_i + i, j_step * block_j + j]" == repr(values.localized(largest.body))
    values.enter()
    values.hold(largest.body, tile, (i, j), loop_variant=True, padding=-math.inf)
    assert "T.exp(tile[i, j] - largest[bx * block_i + i])" == repr(values.localized(total.body))
    assert values.tile_of(largest.body) is not None
    assert -math.inf == values.padding(largest.body, frozenset((j,)))
    values.leave()
    assert values.tile_of(largest.body) is None
    assert 0.0 == values.padding(largest.body, frozenset((j,)))


@pytest.mark.parametrize("sizes", [(20, 50, 8), (3, 70, 1), (1, 1, 5), (0, 9, 4), (70, 129, 16)], ids=str)
def test_a_later_loop_masks_what_an_earlier_one_masked_otherwise(sizes: tuple[int, int, int]) -> None:
    """Scores past the end are -inf for the maximum, and must not count in the sum."""
    m, n, d = sizes

    @tilelang.compute(target="cpu")
    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = q @ tnp.permute_dims(k, (1, 0))
        weights = tnp.exp(scores - tnp.abs(tnp.max(scores, axis=1, keepdims=True)))  # two loops
        return (weights @ v) / tnp.sum(weights, axis=1, keepdims=True)

    q, k, v = numbers(m, d), numbers(n, d, seed=1), numbers(n, d, seed=2)
    weights = np.exp(q.astype(np.float64) @ k.T)
    found = attention(q, k, v)
    np.testing.assert_allclose(found, weights @ v / weights.sum(1, keepdims=True), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found, load_program(attention.program(q, k, v))["attention"]()(q, k, v))


def test_values_beyond_the_end() -> None:
    (kernel,) = fused_kernels(graphs.softmax(5, 33))
    i, j = kernel.extents
    values = TileValues(place_axes(kernel, Tiling({i: 2, j: 16}, 128, 2)))
    tile = Buffer("tile", (Const(2, i.dtype), Const(16, i.dtype)), FLOAT32, Scope.FRAGMENT)
    largest, total = kernel.reductions
    ragged = frozenset((j,))
    assert (0.0, Unknown.FINITE) == (values.padding(largest.body, ragged), values.padding(largest.result, ragged))
    assert Unknown.ANY is values.padding(total.body, ragged)
    values.hold(largest.body, tile, (i, j), loop_variant=True, padding=-math.inf)
    assert 0.0 == values.padding(total.body, ragged)


def test_what_depends_on_a_ragged_axis_may_be_anything_beyond_it() -> None:
    g = graphs.Builder()
    x, w = g.parameter("x", (5, 33)), g.parameter("w", (33,))
    s = g.reduction("s", (33,), (5,), Combiner.SUM, lambda j, r: graphs.at(x, r, j))
    rows = g.reduction("rows", (5,), (33,), Combiner.SUM, lambda i, r: graphs.at(x, i, r) * graphs.at(s, r))
    (kernel,) = fused_kernels(g.graph("weighted", rows))
    i, k = kernel.extents
    values = TileValues(place_axes(kernel, Tiling({i: 8, k: 8}, 128, 2)))
    element, factor, total = graphs.at(x, i, k), graphs.at(w, k), graphs.at(s, k)
    values.hold(kernel.reductions[0].result, Buffer("s", (Const(8, k.dtype),), FLOAT32, Scope.FRAGMENT), (k,), loop_variant=True)
    of_axis = cast(33 - k, FLOAT32)
    for expr, expected in [
        (element * factor, 0.0),
        (total, Unknown.ANY),
        (element * total, Unknown.ANY),
        (element * of_axis, 0.0),
        (element / of_axis, Unknown.ANY),
        (of_axis + 1.0, Unknown.FINITE),
        (element / (factor + 2.0), 0.0),
        (element * (1.0 / factor), Unknown.ANY),
        (T.log(element), Unknown.ANY),
        (element * T.erf(of_axis), 0.0),
        (element - T.infinity("float32"), -math.inf),
        (T.exp(element - T.infinity("float32")), 0.0),
        (T.max(element, of_axis), Unknown.FINITE),
    ]:
        assert expected == values.padding(expr, frozenset((k,))), expr
