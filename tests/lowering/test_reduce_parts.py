"""The expressions that all lowerings of a reduction share."""

import pytest
from programs import index_var

from tilelang.dtypes import FLOAT32, as_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.builder import Builder
from tilelang.ir.expr import Const, Load, as_expr, int_const
from tilelang.lowering.reduce_parts import ReduceParts
from tilelang.lowering.regions import whole
from tilelang.ops.reduce import Reduce, ReduceOp


def parts(op, dtype="float16", shape=(3, 5, 4), dim=1, clear=True):
    src = Buffer("A", tuple(as_expr(e) for e in shape), as_dtype(dtype), Scope.SHARED)
    out = tuple(as_expr(e) for d, e in enumerate(shape) if d != dim)
    dst = Buffer("B", out, as_dtype(dtype), Scope.SHARED)
    return ReduceParts(Reduce(op, whole(src), whole(dst), dim, clear))


def test_the_other_dimensions_keep_their_order():
    made = parts(ReduceOp.SUM)
    assert ([3], 5, [4]) == ([int_const(e) for e in made.outer], made.along, [int_const(e) for e in made.inner])
    i, k, j = (index_var(name) for name in "ikj")
    value = made.source((i,), k, (j,))
    assert FLOAT32 == value.dtype
    assert (i, k, j) == value.a.indices


@pytest.mark.parametrize(("op", "start"), [(ReduceOp.SUM, 0.0), (ReduceOp.MAX, float("-inf")), (ReduceOp.ABSMAX, 0.0)])
def test_a_reduction_starts_with_the_neutral_element(op, start):
    assert isinstance(parts(op).start, Const)
    assert start == parts(op).start.value


def test_the_old_value_is_combined_unless_it_is_cleared():
    for clear, loads in ((True, 0), (False, 1)):
        build = Builder()
        parts(ReduceOp.MAX, "float32", clear=clear).result(build, (as_expr(1), as_expr(2)), as_expr(0.5))
        (store,) = build.statements
        value = store.value
        assert loads == (not isinstance(value, Const) and isinstance(value.a, Load))
