"""Bounds of loops that are data of any dtype are exact indices."""

import pytest
from programs import index_var

from tilelang.dtypes import INT32, INT64, as_dtype
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Var, const
from tilelang.ir.stmt import Bind, For, ForKind, Seq
from tilelang.ir.visit import walk
from tilelang.transforms.loop_bounds import WithExactBounds

ZERO = const(0, INT32)


def loop(start, stop, body=None):
    return For(index_var("k"), start, stop, 1, ForKind.SERIAL, body or Seq(()))


@pytest.mark.parametrize("name", ["int64", "uint64", "uint32", "int16", "uint8"])
def test_data_is_named_in_64_bits_before_its_loop(name):
    m, n = (Var(text, as_dtype(name)) for text in "mn")
    made = WithExactBounds().visit(Seq((loop(m, n, loop(ZERO, m + n)),)))
    outer, inner = (s for s in walk(made) if isinstance(s, For))
    named = {s.var: s.value for s in walk(made) if isinstance(s, Bind)}
    assert [outer.start, outer.stop, inner.stop] == list(named)
    assert {(INT64, True)} == {(var.dtype, var.index) for var in named}
    assert inner.start is ZERO
    most = int(m.dtype.limits[1]) if m.dtype.bits < 64 else 100
    values = {var: var.dtype.numpy.type(most) for var in (m, n)}
    assert [most, most, 2 * most] == [evaluate(value, values) for value in named.values()]


def test_other_loops_stay_as_they_are():
    given = Seq((loop(ZERO, Var("n", INT32)), loop(index_var("m"), Var("n", INT64, index=True) + 1)))
    assert given is WithExactBounds().visit(given)
