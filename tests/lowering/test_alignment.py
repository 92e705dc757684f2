"""Strides and multiples of global tensors."""

from __future__ import annotations

from tilelang.dtypes import INT32, as_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Var, as_expr, const, int_const
from tilelang.lowering.alignment import is_multiple, starts_aligned, strides

n = Var("n", INT32, index=True)


def tensor(*shape, **options):
    return Buffer("A", tuple(as_expr(extent) for extent in shape), as_dtype("float16"), Scope.GLOBAL, **options)


def test_dense_strides_are_products_of_the_extents_behind():
    assert [int_const(step) for step in strides(tensor(4, 5, 6))] == [30, 6, 1]
    assert strides(tensor()) == ()
    assert evaluate(strides(tensor(4, n * 16))[0], {n: 3}) == 48


def test_given_strides_are_taken_as_they_are():
    given = (n, const(1, INT32))
    assert strides(tensor(4, 5, strides=given)) == given


def test_products_and_sums_show_what_they_are_multiples_of():
    assert is_multiple(n * 16 + 32, 16)
    assert is_multiple(const(0, INT32), 64)
    assert not is_multiple(n * 16 + 8, 16)
    assert not is_multiple(n, 2)


def test_a_view_begins_where_its_storage_does():
    base = tensor(64, alignment_bytes=16)
    assert starts_aligned(base, 16)
    assert not starts_aligned(base, 32)
    assert starts_aligned(tensor(32, view_of=base), 16)
