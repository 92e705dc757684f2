"""`T.argmax` and `T.argmin` against NumPy."""

import numpy as np
import pytest

from tilelang.errors import ProgramValueError
from tilelang.ops.arg_reduce import ArgReduce
from tilelang.ops.reduce import ReduceOp


@pytest.mark.parametrize("dtype", ["int32", "float16", "bfloat16", "bool"])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_indices_are_those_of_numpy(ops, draw, dim, dtype):
    shape = (2, 3, 5)
    left = shape[:dim] + shape[dim + 1 :]
    values = draw(shape, dtype)
    src, dst, best = ops.tile("S", shape, dtype), ops.tile("D", left, "int32"), ops.tile("V", left, dtype)
    where, extreme = np.zeros(left, np.int32), np.zeros(left, values.dtype)
    for op, choose in ((ReduceOp.MAX, np.argmax), (ReduceOp.MIN, np.argmin)):
        ops.apply(ArgReduce(op, src, dst, dim, best), {src: values, dst: where, best: extreme})
        expected = choose(values.astype("d"), axis=dim)
        np.testing.assert_array_equal(expected, where)
        np.testing.assert_array_equal(np.take_along_axis(values, np.expand_dims(expected, dim), dim).squeeze(dim), extreme)


def test_the_first_nan_is_argmax_and_argmin(ops):
    src, dst = ops.tile("S", (4,)), ops.tile("D", (1,), "int32")
    where = np.zeros(1, np.int32)
    for op in (ReduceOp.MAX, ReduceOp.MIN):
        ops.apply(ArgReduce(op, src, dst, 0), {src: np.array([1, np.nan, 5, np.nan], "f"), dst: where})
        assert [1] == where.tolist()


def test_indices_are_integers(ops):
    with pytest.raises(ProgramValueError, match="T.argmin: 'D' holds float32, but indices are integers"):
        ArgReduce(ReduceOp.MIN, ops.tile("S", (4,)), ops.tile("D", (1,)), 0).check()
