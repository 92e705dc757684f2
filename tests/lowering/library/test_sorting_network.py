"""Lines of any power of two in order, with and without positions."""

import numpy as np
import pytest

from tilelang.dtypes import FLOAT32, INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.builder import Builder
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import const
from tilelang.ir.stmt import Bind, For, If, ParallelLoop, Seq, Store
from tilelang.lowering.library.sorting_network import sort_lines


class Steps:
    """Runs the statements of a network: all iterations of a loop together, none of which sees what another one writes."""

    def __init__(self, tiles):
        self.tiles, self.env, self.loops = tiles, {}, 0

    def value(self, expr):
        return evaluate(expr, self.env, load=lambda node, at: self.tiles[node.buffer][tuple(at)])

    def run(self, stmt):
        match stmt:
            case Seq(body=body):
                for child in body:
                    self.run(child)
            case For(var=var, body=body):
                for self.env[var] in range(self.value(stmt.start), self.value(stmt.stop)):
                    self.run(body)
            case If():
                if self.value(stmt.condition):
                    self.run(stmt.then_body)
            case ParallelLoop(vars=names, body=body):
                self.loops += 1
                self.env.update(zip(names, np.indices([self.value(e) for e in stmt.extents]), strict=True))
                self.run(body)
            case Bind(var=var, value=value):
                self.env[var] = self.value(value)
            case Store(buffer=buffer, indices=indices, value=value):
                at = tuple(self.value(i) for i in indices)
                assert np.unique(np.ravel_multi_index(at, self.tiles[buffer].shape)).size == at[-1].size
                self.tiles[buffer][at] = self.value(value)


def sort(keys, positions, *, descending):
    shape = tuple(const(e, INT32) for e in keys.shape)
    tiles = {Buffer("keys", shape, FLOAT32, Scope.SHARED): keys}
    if positions is not None:
        tiles[Buffer("positions", shape, INT32, Scope.SHARED)] = positions
    build = Builder()
    sort_lines(build, *([*tiles, None][:2]), descending=descending)
    steps = Steps(tiles)
    steps.run(build.finish())
    return steps.loops


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("length", [1 << n for n in range(11)])
def test_lines_of_every_length_are_in_order_and_stable_with_places(length, descending):
    keys = np.random.default_rng(length).integers(0, 9, (3, length)).astype(np.float32)
    keys[:, ::5] = np.nan
    backwards = keys[:, ::-1] if descending else keys
    order = np.argsort(backwards, axis=1, kind="stable")
    order = length - 1 - order[:, ::-1] if descending else order
    alone, with_positions, positions = keys.copy(), keys.copy(), np.tile(np.arange(length, dtype=np.int32), (3, 1))
    sort(alone, None, descending=descending)
    sort(with_positions, positions, descending=descending)
    np.testing.assert_array_equal(order, positions)
    np.testing.assert_array_equal(np.take_along_axis(keys, order, 1), alone)
    np.testing.assert_array_equal(alone, with_positions)


def test_lines_pass_through_memory_once_for_several_bits():
    assert 1 + 2 + 2 + 2 + 3 + 3 + 3 + 4 + 4 + 4 == sort(np.zeros((1, 4096), np.float32), None, descending=False)
