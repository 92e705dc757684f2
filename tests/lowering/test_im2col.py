"""The arithmetic of im2col."""

import numpy as np
import pytest

import tilelang.language as T
from tilelang.ir.builder import Builder
from tilelang.ir.stmt import Bind, Store
from tilelang.ir.visit import walk
from tilelang.lowering import by_loop
from tilelang.lowering.lowering import ACCEPTED, LoweringContext
from tilelang.ops.im2col import Im2Col
from tilelang.options import CompileOptions
from tilelang.passes.tile.expand_to_loops import all_but_gemms_expanded
from tilelang.sim.tile_interp import run_reference
from tilelang.targets.cpu.lowerings.im2col import SerialIm2Col
from tilelang.targets.target import Target


@pytest.mark.parametrize(("kernel", "stride", "dilation", "pad"), [(3, 1, 1, 1), (3, 2, 1, 0), (2, 1, 2, 1), (1, 1, 1, 0)])
def test_elements_are_gathered_as_the_operator_says(kernel, stride, dilation, pad):
    @T.prim_func
    def f(A: T.Tensor((2, 5, 6, 3), T.float32), B: T.Tensor((8, 9), T.float32)):
        with T.Kernel(1) as _:
            T.c2d_im2col(A, B, 1, 0, kernel, stride, dilation, pad)

    image = np.arange(180, dtype=np.float32).reshape(2, 5, 6, 3)
    expected, actual = np.zeros((8, 9), np.float32), np.zeros((8, 9), np.float32)
    run_reference(f, [image, expected])
    run_reference(all_but_gemms_expanded(f, {Im2Col: (by_loop.IM2COL,)}), [image, actual])
    np.testing.assert_array_equal(expected, actual)


def test_what_a_row_shares_is_named_once():
    @T.prim_func
    def f(A: T.Tensor((2, 5, 6, 3), T.float32), B: T.Tensor((8, 9), T.float32)):
        with T.Kernel(1) as _:
            T.c2d_im2col(A, B, 1, 0, 3, 1, 1, 1)

    (op,) = [s for s in walk(f.body) if isinstance(s, Im2Col)]
    build = Builder()
    SerialIm2Col().lower(op, ACCEPTED, LoweringContext(Target("cpu"), CompileOptions(), 1), build)
    (loop,) = build.statements
    assert ["m", "n", "top", "left"] == [s.var.name for s in loop.body.body if isinstance(s, Bind)]
    assert 1 == sum(isinstance(s, Store) for s in walk(loop))
