"""Operators along one dimension: the operand that the dimension refers to."""

import pytest

from tilelang.dtypes import FLOAT32
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import as_expr
from tilelang.ir.scalar import BinaryOp
from tilelang.ops.along import AlongDimension
from tilelang.ops.combine import CombineReduce, binary_combine
from tilelang.ops.reduce import Reduce, ReduceOp

A = Buffer("A", (as_expr(4), as_expr(8)), FLOAT32, Scope.SHARED)
B = Buffer("B", (as_expr(4),), FLOAT32, Scope.SHARED)


def whole(buffer):
    return Region(buffer, tuple(as_expr(0) for _ in buffer.shape), buffer.shape)


@pytest.mark.parametrize(
    "op",
    [
        Reduce(ReduceOp.MAX, whole(A), whole(B), 1),
        CombineReduce("T.reduce", *binary_combine(BinaryOp.MAX, FLOAT32), (whole(A),), (whole(B),), 1),
    ],
    ids=["one tile", "several tiles"],
)
def test_the_dimension_refers_to_the_first_operand(op):
    assert isinstance(op, AlongDimension)
    assert A is op.dim_operand.buffer
    assert 8 == op.dim_operand.static_extent[op.dim]
