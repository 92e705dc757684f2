"""Reductions by combine functions of several values."""

import numpy as np
import pytest

from tilelang.dtypes import INT32
from tilelang.errors import ProgramValueError
from tilelang.ir.expr import Var, binary, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ops.combine import CombineReduce, binary_combine


def best(srcs, dsts, dim):
    """The largest value and its index, of equals the first."""
    a, i, b, j = variables = tuple(Var(name, INT32) for name in "aibj")
    first = binary(BinaryOp.OR, a > b, binary(BinaryOp.AND, a == b, i < j))
    return CombineReduce("T.reduce", variables, (select(first, a, b), select(first, i, j)), srcs, dsts, dim)


@pytest.mark.parametrize("dim", [0, 1])
def test_tuples_of_values_are_combined(ops, dim):
    shape = (4, 6)
    srcs = ops.tile("V", shape, "int32"), ops.tile("I", (1, *shape), "int32")
    left = shape[:dim] + shape[dim + 1 :]
    dsts = ops.tile("D", left, "int32"), ops.tile("W", (1, *left), "int32")
    values = np.random.default_rng(0).integers(0, 4, shape, dtype=np.int32)
    index = np.broadcast_to(np.arange(shape[dim], dtype=np.int32).reshape((-1, 1) if dim == 0 else (1, -1)), shape)
    result, where = np.zeros(left, np.int32), np.zeros((1, *left), np.int32)
    fold = best(srcs, dsts, dim)
    ops.apply(fold, dict(zip((*srcs, *dsts), (values, index[None].copy(), result, where), strict=True)))
    np.testing.assert_array_equal(values.max(dim), result)
    np.testing.assert_array_equal(values.argmax(dim), where[0])


def test_extents_must_match(ops):
    variables, body = binary_combine(BinaryOp.ADD, INT32)
    fold = CombineReduce("T.reduce", variables, body, (ops.tile("S", (4, 3)),), (ops.tile("D", (4,)),), 0)
    with pytest.raises(ProgramValueError, match=r"T.reduce: 'S' is \(4, 3\) and is reduced along dimension 0, but 'D' is \(4,\)"):
        fold.check()
    with pytest.raises(ProgramValueError, match="'S' is .* but 'T' is"):
        best((ops.tile("S", (4, 3)), ops.tile("T", (4, 2))), (ops.tile("D", (4,)), ops.tile("E", (4,))), 1).check()
