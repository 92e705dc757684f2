"""Proofs that accesses stay apart, compared with all their elements."""

from __future__ import annotations

from hypothesis import given, settings
from loops import TRIPS, bodies, buffer, exprs, i, j, k, load, serial, store

from tilelang.analysis.accesses import accesses
from tilelang.analysis.subscripts import Comparison
from tilelang.arith.domain import Domain
from tilelang.ir.buffer import Region
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Load
from tilelang.ir.stmt import For, If, Seq
from tilelang.ir.visit import walk_expr
from tilelang.ops.copy import Copy

AROUND = Domain().with_loop(i, 0, TRIPS).with_range(k, 1, 1)


def compared(body, domain=AROUND):
    found = accesses(body)
    return Comparison(found, domain), found.all


def elements(access, iteration):
    """All elements that an access may touch in one iteration, or None if that depends on memory."""
    if any(isinstance(node, Load) for index in access.start for node in walk_expr(index)):
        return None
    points = [{i: iteration, k: 1}]
    for loop in access.context.loops():
        assert isinstance(loop, For)
        points = [{**point, loop.var: n} for point in points for n in range(loop.stop.value)]
    plain = [c for c in access.context.conditions() if not any(isinstance(node, Load) for node in walk_expr(c))]
    points = [point for point in points if all(evaluate(c, point) for c in plain)]
    return {tuple(int(evaluate(index, point)) for index in access.start) for point in points}


@settings(max_examples=2 * settings().max_examples)
@given(bodies())
def test_what_is_proven_apart_is_apart(body):
    compare, found = compared(body)
    for x in found:
        for y in found:
            touched = [(elements(x, n), elements(y, n)) for n in range(TRIPS)]
            if x.buffer is not y.buffer or touched[0][0] is None or touched[0][1] is None:
                continue
            same = any(a & b for a, b in touched)
            other = any(touched[p][0] & touched[q][1] for p in range(TRIPS) for q in range(TRIPS) if p != q)
            assert not (same and compare.never_alias(x, y, ()))
            assert not (other and compare.disjoint(x, y, i, TRIPS))
            assert not ((same or other) and compare.never_alias(x, y, (i,)))


def test_regions_that_touch_do_not_overlap():
    S = buffer("S", 64, 64)

    def region(row):
        return Region(S, exprs(row, 0), exprs(4, 64))

    compare, (read, write) = compared(Copy(region(i * 4), region(i * 4 + 24)))
    assert compare.disjoint(write, write, i, TRIPS)
    assert compare.disjoint(read, write, i, TRIPS)
    assert compare.never_alias(read, write, (i,))
    compare, (read, write) = compared(Copy(region(i * 4 + 1), region(i * 4)))
    assert not compare.disjoint(read, write, i, TRIPS)
    compare, (_, write) = compared(Copy(region(0), region(i * 3)))
    assert not compare.disjoint(write, write, i, TRIPS)


def test_other_variables_may_differ_as_well():
    S = buffer("S", 64, 64)
    compare, (read, write) = compared(store(S, i, j, load(S, i - 1, j + 1)), AROUND.with_loop(j, 0, 8))
    assert compare.disjoint(read, write, j, 8)
    assert not compare.disjoint(read, write, j, 8, others=(i,))


def test_what_holds_at_one_access_keeps_it_apart_from_the_other():
    S, around = buffer("S", 64, 64), Domain().with_loop(i, 0, 64).with_loop(j, 0, 64).with_range(k, 0, 63)
    rows = {(i > k, k): True, (i + 1 <= k, k): True, (i < k, k + j): True, (i > k, k - j): True}
    rows |= {(i >= k, k): False, (j > k, k): False, (i < k, k - j): False, (i < k, k + j - 1): False}
    for (condition, row), apart in rows.items():
        compare, (read, write) = compared(If(condition, store(S, i, j, load(S, row, j))), around)
        assert apart == compare.disjoint(read, write, i, 64, others=(j,)) == compare.disjoint(write, read, i, 64)
        assert apart == compare.never_alias(write, read, (i, j))


def test_an_inner_loop_is_apart_by_its_rows():
    S = buffer("S", 64, 64)
    compare, (read, write) = compared(Seq((serial(j, 8, store(S, i, j, load(S, i, 7 - j))),)))
    assert compare.disjoint(read, write, i, TRIPS)
    assert not compare.never_alias(read, write, ())
