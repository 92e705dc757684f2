"""Which buffers a statement overwrites as a whole."""

import pytest
from loops import buffer, exprs, load, store

from tilelang.analysis.whole_stores import overwritten
from tilelang.dtypes import BOOL, INT32
from tilelang.ir.buffer import Region
from tilelang.ir.expr import Var, as_expr, const
from tilelang.ir.stmt import Atomic, AtomicOp, If, ParallelLoop, Seq
from tilelang.lowering.regions import whole
from tilelang.ops.copy import Copy
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm

I, J = (Var(name, INT32, index=True) for name in "ij")
F, G, H = (buffer(name, 16, 8) for name in "FGH")


def nest(*body, extents=(16, 8)):
    return ParallelLoop((I, J), exprs(*extents), Seq(body))


@pytest.mark.parametrize(
    "stmt,expected",
    [
        (Fill(whole(F), as_expr(0.0)), {F}),
        (Copy(whole(G), whole(F)), {F}),
        (Copy(whole(G), Region(F, exprs(0, 0), exprs(16, 4))), set()),
        (nest(store(F, I, J, load(G, I, J))), {F}),
        (nest(store(F, I, J, load(F, I, J) * 2.0)), set()),
        (nest(store(F, I, J, 0.0), store(G, I, J, load(F, I, J))), {F, G}),
        (nest(store(F, I, J, 0.0), extents=(16, 7)), set()),
        (nest(store(F, I, 0, 0.0)), set()),
        (nest(If(I < 3, store(F, I, J, 0.0))), set()),
        (nest(Atomic(AtomicOp.ADD, F, exprs(I, J), as_expr(1.0))), set()),
        (Gemm(whole(F), whole(G), whole(H), transpose_a=True, clear_accum=const(True, BOOL)), {H}),
        (Gemm(whole(F), whole(G), whole(H), transpose_a=True), set()),
    ],
)
def test_all_elements_are_surely_written_and_none_is_read_before(stmt, expected) -> None:
    assert expected == overwritten(stmt)
