"""What inner loops of a nest would compute in each iteration is bound in the outermost one."""

import pytest
from loops import buffer, load, store

from tilelang.dtypes import FLOAT32, INT32
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Var, as_expr, cast, select
from tilelang.ir.printer import to_text
from tilelang.ir.stmt import For, ForKind
from tilelang.targets.gpu.lowerings.bind_invariants import bind_invariants

V, W = (Var(name, INT32, index=True) for name in "vw")
OUT, ROWS = (buffer(name, size, scope=Scope.LOCAL) for name, size in (("out", 16), ("rows", 2)))
COUNTS = buffer("counts", 2, scope=Scope.LOCAL, dtype=INT32)
AT = W * 8 + V


def unrolled(var, trips, body):
    return For(var, as_expr(0), as_expr(trips), 1, ForKind.UNROLLED, body)


def nest(value):
    return unrolled(W, 2, unrolled(V, 8, store(OUT, AT, value)))


def test_values_of_rows_are_bound_once():
    row = load(ROWS, W)
    value = select(row > 1.0, load(OUT, AT) * (row + 2.0), load(OUT, AT) - (row + 2.0))
    assert to_text(bind_invariants(nest(value))) == """\
for w in T.unroll(2):
    row_value = rows[w] > 1.0
    row_value_1 = rows[w] + 2.0
    for v in T.unroll(8):
        out[w * 8 + v] = T.if_then_else(row_value, out[w * 8 + v] * row_value_1, out[w * 8 + v] - row_value_1)
"""


@pytest.mark.parametrize(
    "value",
    [
        load(ROWS, W),  # a load, which is as short as a name
        load(OUT, AT) + load(OUT, W) * 2.0,  # what the nest stores to
        load(ROWS, V) * 2.0,  # of inner loops
        select(load(OUT, AT) > 0.0, cast(7 // load(COUNTS, W), FLOAT32), 1.0),  # 7 // 0 has no value
    ],
)
def test_other_values_stay(value):
    given = nest(value)
    assert bind_invariants(given) is given
