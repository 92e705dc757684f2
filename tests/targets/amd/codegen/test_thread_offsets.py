"""Addresses of loads in loops are the place of all threads, a distance for each iteration, and what the thread adds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.arith.domain import Domain
from tilelang.dtypes import INT32, SCALARS
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Load, Var, as_expr, binary
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import CallStmt, For, ForKind, Store
from tilelang.targets.amd.codegen.thread_offsets import least_offset, thread_offsets
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


def loads_to_lds(source, keep=as_expr(True), trips=4):
    """A loop that loads to LDS in an unrolled one."""
    tile = Buffer("tile", (as_expr(4096),), FLOAT16, Scope.SHARED)
    load = CallStmt(direct_to_lds(16), (Region(tile, (THREAD * 8 + I * 512,), ()), Region(A, source, ()), keep))
    unrolled = For(I, as_expr(0), as_expr(trips), 1, ForKind.UNROLLED, load)
    return For(K, as_expr(0), as_expr(8), 1, ForKind.SERIAL, unrolled)


@pytest.mark.parametrize("keep", [as_expr(True), K < 7])
def test_loads_to_lds_are_split_too_whichever_lanes_load(keep):
    source = (ROW * 128 + THREAD // 8 + I * 8, K * 64 + THREAD % 8 * 8)
    (made,) = thread_offsets(loads_to_lds(source, keep), THREAD, DOMAIN).values()
    assert made.each is None


def test_loads_to_lds_that_no_step_divides_have_an_offset_in_each_iteration():
    swizzled = binary(BinaryOp.BITXOR, THREAD % 8, I * 2 + THREAD // 8 % 2)
    source = (ROW * 128 + THREAD // 8 + I * 8, K * 64 + swizzled * 8)
    loop = loads_to_lds(source)
    (made,) = thread_offsets(loop, THREAD, DOMAIN).values()
    assert loop.body is made.each and made.holds_increments
    for trip, i, thread in ((0, 0, 0), (3, 2, 77), (7, 3, 255)):
        values = {ROW: 5, K: trip, I: i, THREAD: thread}
        assert [int(evaluate(index, values)) for index in source] == [
            int(evaluate(first, values)) + trip * by + int(evaluate(own, values))
            for first, by, own in zip(made.pointer.start, made.pointer.steps, made.indices, strict=True)
        ]
    assert [0, 8, 16, 24] == [least_offset(A, made, number, DOMAIN) // (4096 * 2) for number in range(4)]
    assert [] == found(*source)  # loads to registers have one offset


def test_offsets_fit_into_32_bits():
    assert [] == found(THREAD * 4096, K * 64, buffer=WIDE)
    assert 1 == len(found(THREAD, K * 64, buffer=WIDE))
    assert [] == found(THREAD, K * 64, domain=Domain())  # of as many threads as can be


def test_offsets_take_the_increments_of_loops_whose_sum_fits_into_32_bits_too():
    (near,), (far,) = found(ROW + THREAD, K * 64), found(K * 64, THREAD, buffer=FAR)
    assert near.holds_increments
    assert not far.holds_increments
