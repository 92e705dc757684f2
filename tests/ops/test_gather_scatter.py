"""`T.gather` and `T.scatter`: rows selected by an index tile."""

import numpy as np
import pytest

from tilelang.ir.buffer import Scope
from tilelang.ops.gather_scatter import GatherRows, ScatterRows


@pytest.mark.parametrize("dim", [0, 1])
def test_gather_and_scatter_along_each_dimension(ops, dim):
    tensor, index = ops.tile("T", (6, 5), "int32", Scope.GLOBAL), ops.tile("I", (1, 4), "int64")
    tile = ops.tile("S", (4, 5) if dim == 0 else (6, 4), "int32")
    values, places = np.arange(30, dtype=np.int32).reshape(6, 5) + 1, np.array([[4, -1, 0, 9]])
    moved = np.full((4, 5) if dim == 0 else (6, 4), 7, np.int32)
    ops.apply(GatherRows(tensor, index, tile, dim), {tensor: values, index: places, tile: moved})
    expected = np.take(values, [4, 0, 0, 0], dim)
    np.moveaxis(expected, dim, 0)[[1, 3]] = 0
    np.testing.assert_array_equal(expected, moved)
    target = np.zeros_like(values)
    ops.apply(ScatterRows(tensor, index, tile, dim), {tensor: target, index: places, tile: moved})
    np.testing.assert_array_equal(np.take(values, [4, 0], dim), np.take(target, [4, 0], dim))
    assert np.take(values, [4, 0], dim).sum() == target.sum()


def test_reads_and_writes(ops):
    tensor, index, tile = ops.tile("T", (6, 5)), ops.tile("I", (4,), "int32"), ops.tile("S", (4, 5))
    gather, scatter = GatherRows(tensor, index, tile, 0), ScatterRows(tensor, index, tile, 0)
    assert ((tensor, index), (tile,)) == (gather.reads(), gather.writes())
    assert ((tile, index), (tensor,)) == (scatter.reads(), scatter.writes())
