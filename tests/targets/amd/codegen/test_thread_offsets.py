"""Addresses of loads in loops are the place of all threads, a distance for each iteration, and what the thread adds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.arith.domain import Domain
from tilelang.dtypes import INT32, SCALARS
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Load, Var, as_expr
from tilelang.ir.stmt import CallStmt, For, ForKind, Store
from tilelang.targets.amd.codegen.thread_offsets import thread_offsets
from tilelang.targets.amd.isa.direct_to_lds import direct_to_lds

K, I, ROW, THREAD = (Var(name, INT32, index=True) for name in ("k", "i", "row", "thread"))
FLOAT16 = SCALARS["float16"]
A = Buffer("A", (as_expr(4096), as_expr(4096)), FLOAT16, Scope.GLOBAL)
WIDE = Buffer("W", (as_expr(1 << 20), as_expr(1 << 20)), FLOAT16, Scope.GLOBAL)
FAR = Buffer("F", (as_expr(1 << 20), as_expr(1 << 25)), FLOAT16, Scope.GLOBAL)
REGISTERS = Buffer("r", (as_expr(64),), FLOAT16, Scope.LOCAL)
DOMAIN = Domain().with_range(THREAD, 0, 255)


def found(*indices, buffer=A, domain=DOMAIN):
    load = Store(REGISTERS, (I,), Load(buffer, indices, FLOAT16))
    unrolled = For(I, as_expr(0), as_expr(4), 1, ForKind.UNROLLED, load)
    loop = For(K, as_expr(0), as_expr(8), 1, ForKind.SERIAL, unrolled)
    return list(thread_offsets(loop, THREAD, domain).values())


@given(st.tuples(*[st.integers(0, 9)] * 4))
def test_the_parts_make_the_place_in_every_iteration(factors):
    a, b, c, d = factors
    indices = (ROW * 128 + (THREAD // 8) + I * a, (K + 1) * (b + 1) + THREAD % 8 * c + I * d)
    (made,) = found(*indices)
    for trip, i, thread in ((0, 0, 0), (3, 2, 77), (7, 3, 255)):
        expected = tuple(int(evaluate(index, {ROW: 5, K: trip, I: i, THREAD: thread})) for index in indices)
        moved = made.pointer.unrolled_steps.get(I, (0, 0))
        assert expected == tuple(
            int(evaluate(first, {ROW: 5})) + trip * by + i * more + int(evaluate(own, {THREAD: thread}))
            for first, by, more, own in zip(made.pointer.start, made.pointer.steps, moved, made.indices, strict=True)
        )


@pytest.mark.parametrize(
    "indices",
    [
        (ROW, K * 64),  # the same for all threads
        (ROW + THREAD, I * 8),  # no iteration moves it
        ((ROW + THREAD) // 8, K * 64),  # no sum of the thread's part and another
        (ROW + 300 - THREAD, K * 64),  # a thread adds less than nothing
    ],
)
def test_what_cannot_be_divided_stays(indices):
    assert [] == found(*indices)


@pytest.mark.parametrize(("keep", "count"), [(as_expr(True), 1), (K < 7, 0)])
def test_loads_to_lds_are_split_where_all_lanes_load(keep, count):
    tile = Buffer("tile", (as_expr(1024),), FLOAT16, Scope.SHARED)
    args = (Region(tile, (THREAD * 8,), ()), Region(A, (ROW * 128 + THREAD // 8, K * 64 + THREAD % 8 * 8), ()), keep)
    loop = For(K, as_expr(0), as_expr(8), 1, ForKind.SERIAL, CallStmt(direct_to_lds(16), args))
    assert count == len(thread_offsets(loop, THREAD, DOMAIN))


def test_offsets_fit_into_32_bits():
    assert [] == found(THREAD * 4096, K * 64, buffer=WIDE)
    assert 1 == len(found(THREAD, K * 64, buffer=WIDE))
    assert [] == found(THREAD, K * 64, domain=Domain())  # of as many threads as can be


def test_offsets_take_the_increments_of_loops_whose_sum_fits_into_32_bits_too():
    (near,), (far,) = found(ROW + THREAD, K * 64), found(K * 64, THREAD, buffer=FAR)
    assert near.holds_increments
    assert not far.holds_increments
