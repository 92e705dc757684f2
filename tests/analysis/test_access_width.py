"""Widths of accesses, checked by looking at every iteration."""

import itertools

from hypothesis import given
from hypothesis import strategies as st
from loops import buffer, exprs

from tilelang.analysis.access_width import Facts, nonzero_safe, vector_width
from tilelang.arith.domain import Domain
from tilelang.dtypes import FLOAT32, INT32, as_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Const, Load, Var
from tilelang.ir.stmt import Launch, LaunchHints, Seq
from tilelang.layout.shared_memory import padded

THREAD, W = (Var(name, INT32, index=True) for name in ("thread", "w"))
DOMAIN = Domain().with_range(THREAD, 0, 31)
A = buffer("A", 16, 64, scope=Scope.GLOBAL)


def asked(target, row, column, trips=8, facts=Facts()):
    return vector_width(target, exprs(row, column), W, trips, DOMAIN, facts)


terms = st.sampled_from([THREAD * 8, THREAD % 4 * 4, THREAD // 2, THREAD // 8 * 2, 6, 12, THREAD % 8 * 8 - 16])


@given(terms, terms, st.sampled_from([64, 60, 62, 63, 7, 10, 18]), st.sampled_from(["float16", "float32", "int8"]), terms)
def test_vectors_are_aligned_and_whole(row, column, columns, dtype, more):
    target = Buffer("X", exprs(16, columns), as_dtype(dtype), Scope.GLOBAL)
    index = column + more + W
    lanes = asked(target, row, index, 16)
    assert lanes * target.dtype.storage_bytes <= 16
    for thread, first in itertools.product(range(32), range(0, 16, lanes)):
        at = [int(evaluate(e, {THREAD: thread, W: first})) for e in exprs(row, index)]
        assert (at[0] * columns + at[1]) % lanes == 0
        inside = [0 <= at[1] + n < columns for n in range(lanes)]
        assert all(inside) or not any(inside)


def test_rows_may_be_chosen_by_data():
    chosen = Load(buffer("I", 32, scope=Scope.SHARED, dtype=INT32), (THREAD,), INT32)
    assert 4 == asked(A, chosen, THREAD % 8 * 8 + W)
    assert 4 == asked(A, 3, chosen * 4 + W)
    assert 1 == asked(A, 3, chosen + W)


def test_rows_chosen_by_data_may_lie_between_other_dimensions():
    size = Var("n", INT32, index=True)
    chosen = Load(buffer("I", 32, scope=Scope.SHARED, dtype=INT32), (THREAD,), INT32)
    for shape, index, expected in (
        ((4, size * 128, 1, 64), (THREAD // 8, chosen, 0, W), 4),
        ((4, size * 128, 1, 64), (THREAD // 8, chosen, 0, THREAD % 8 * 8 + 2 + W), 2),
        ((4, size * 128, 1, 62), (THREAD // 8, chosen, 0, W), 2),
        ((4, size * 4, 61), (THREAD // 8, 0, W), 4),
        ((4, size, 61), (THREAD // 8, chosen, W), 1),
    ):
        target = Buffer("X", exprs(*shape), as_dtype("float32"), Scope.GLOBAL)
        assert expected == vector_width(target, exprs(*index), W, 8, DOMAIN, Facts())
    strided = Buffer("X", exprs(4, 16, 64), as_dtype("float32"), Scope.GLOBAL, strides=exprs(size * 2, 68, 1))
    assert 2 == vector_width(strided, exprs(THREAD // 8, chosen, W), W, 8, DOMAIN, Facts())


def test_vectors_of_registers_and_scalars_are_told_apart():
    registers = buffer("R", 64, scope=Scope.LOCAL)
    assert 4 == vector_width(registers, exprs(W + 8), W, 8, DOMAIN, Facts())
    assert 1 == vector_width(buffer("x", scope=Scope.VAR), (), W, 8, DOMAIN, Facts())
    assert 1 == vector_width(buffer("V", 64, scope=Scope.GLOBAL, dtype=as_dtype("float32x2")), exprs(W), W, 8, DOMAIN, Facts())


def test_padding_keeps_what_is_aligned_in_every_row():
    s = buffer("S", 16, 64, scope=Scope.SHARED)
    for pad, expected in ((4, 4), (2, 2), (1, 1)):
        facts = Facts({s: padded((16, 64), pad)})
        assert expected == asked(s, THREAD // 8, THREAD % 8 * 8 + W, facts=facts)


def test_versions_of_a_tile_lie_at_multiples_too():
    s = buffer("S", 3, 5, 4, scope=Scope.SHARED)
    facts = Facts({s: padded((5, 4), 4)})  # the last row has no padding: 5 * 8 - 4 elements in all
    assert 4 == vector_width(s, exprs(THREAD % 3, THREAD % 5, W), W, 4, DOMAIN, facts)


def test_a_safe_value_asks_for_all_dimensions_to_be_inside():
    facts = Facts(nonzero_safe=frozenset({A}))
    assert 4 == asked(A, THREAD // 2, THREAD % 8 * 8 + W, facts=facts)
    assert 1 == asked(A, THREAD, THREAD % 8 * 8 + W, facts=facts)


def test_which_loads_out_of_bounds_may_not_be_0():
    a, b, c = (buffer(name, 8, scope=Scope.GLOBAL) for name in "abc")
    hints = LaunchHints(safe_values=((a, Const(0.0, FLOAT32)), (b, Const(2.0, FLOAT32)), (c, Var("x", FLOAT32))))
    assert {b, c} == nonzero_safe(Launch((), (), (32, 1, 1), Seq(()), hints))
