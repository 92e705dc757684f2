"""Addresses that move with a loop are the place in its first iteration and a distance."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.codegen.pointer_increments import address_key, common_addresses, pointer_increments
from tilelang.dtypes import INT32, SCALARS
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Load, Var, as_expr
from tilelang.ir.stmt import Bind, CallStmt, For, ForKind, Seq, Store
from tilelang.ir.visit import variables_of
from tilelang.targets.nvidia.isa.cp_async import cp_async

K, I, ROW, N, NAMED, STRIDE = (Var(name, INT32, index=True) for name in ("k", "i", "row", "N", "named", "stride"))
FLOAT16 = SCALARS["float16"]
A = Buffer("A", (N, N), FLOAT16, Scope.GLOBAL)
TABLE = Buffer("table", (as_expr(8),), INT32, Scope.GLOBAL)
STRIDED = Buffer("S", (N, N), FLOAT16, Scope.GLOBAL, strides=(STRIDE, as_expr(1)))
TILE = Buffer("tile", (as_expr(1024),), FLOAT16, Scope.SHARED)


def copy(*start, buffer=A):
    source = Region(buffer, start, tuple(as_expr(1) for _ in start))
    return CallStmt(cp_async(16), (Region(TILE, (I * 8,), (as_expr(8),)), source, as_expr(True)))


def loop(body, var=K, kind=ForKind.SERIAL, start=0, step=1, stop=8):
    return For(var, as_expr(start), as_expr(stop), step, kind, body)


def found(body, **given):
    return list(pointer_increments(loop(body, **given)).values())


@given(st.integers(0, 3), st.integers(1, 3), st.tuples(*[st.integers(0, 9)] * 4))
def test_start_and_steps_make_the_place_in_every_iteration(start, step, factors):
    a, b, c, d = factors
    indices = (ROW + K * a + I * b, (K + 4) * c + I * d)
    made = found(loop(copy(*indices), I, ForKind.UNROLLED, stop=4), start=start, step=step)
    assert len(made) == (a + c > 0)
    for increment in made:
        for trip in range(4):
            for i in range(4):
                env = {ROW: 5, K: start + trip * step, I: i}
                expected = tuple(int(evaluate(index, env)) for index in indices)
                moved = increment.unrolled_steps.get(I, (0, 0))
                assert expected == tuple(
                    int(evaluate(first, {ROW: 5})) + trip * by + i * more
                    for first, by, more in zip(increment.start, increment.steps, moved, strict=True)
                )


@pytest.mark.parametrize(
    "body",
    [
        copy(ROW, I * 8),  # stays
        copy(ROW, K * K),
        copy(ROW, 64 - K),  # towards the beginning: the first place might be out of reach
        copy(Load(TABLE, (K,), INT32), K * 8),
        Seq((Bind(NAMED, K + 1), copy(NAMED, K * 8))),  # known in the loop only
        loop(copy(ROW + I, K * 8), I),  # of an inner loop that is not unrolled
        copy(ROW + K, I, buffer=STRIDED),  # rows might lie in descending order
    ],
)
def test_other_addresses_are_left_alone(body):
    assert [] == found(body)


def test_a_loop_that_counts_down_keeps_no_pointers():
    assert [] == found(copy(ROW, K * 8), step=-1)


def test_addresses_are_told_apart_by_what_they_say():
    body = Seq((copy(ROW, K * 8), copy(ROW, K * 8), copy(ROW + 1, K * 8)))
    made = pointer_increments(loop(body))
    assert 2 == len(made)
    assert address_key(body.body[1].args[1]) in made


def unrolled(body):
    return loop(loop(body, I, ForKind.UNROLLED, stop=4), kind=ForKind.UNROLLED, stop=32)


@given(st.tuples(*[st.integers(0, 9)] * 4))
def test_unrolled_loops_access_elements_at_constants_from_one_address(factors):
    a, b, c, d = factors
    indices = (ROW + K * a + I * b, (K + 4) * c + I * d)
    made = common_addresses(unrolled(Store(A, indices, Load(A, indices, FLOAT16))))
    assert len(made) == (a + c > 0)  # the inner loop alone has few iterations
    for address in made.values():
        for k in range(32):
            for i in range(4):
                env = {ROW: 5, K: k, I: i}
                moves = [[env[var] * step for step in steps] for var, steps in address.unrolled_steps.items()]
                expected = [int(evaluate(index, env)) for index in indices]
                assert expected == [sum(parts) for parts in zip((evaluate(e, env) for e in address.start), *moves)]
                assert not any(variables_of(e) & {K, I} for e in address.start)


@pytest.mark.parametrize(
    "nest",
    [
        unrolled(Store(A, (ROW, K * K), as_expr(0.0))),
        unrolled(Store(A, (Load(TABLE, (ROW,), INT32), K), as_expr(0.0))),  # an index that the nest might change
        unrolled(Seq((Bind(NAMED, ROW + 1), Store(A, (NAMED, K), as_expr(0.0))))),  # defined after the pointer
        unrolled(Store(TILE, (K,), as_expr(0.0))),  # shared memory
        loop(loop(Store(A, (ROW, K + I), as_expr(0.0)), I), kind=ForKind.UNROLLED),  # in a loop that is not unrolled
        loop(Store(A, (ROW, K), as_expr(0.0)), kind=ForKind.UNROLLED, stop=4),  # few
    ],
)
def test_other_elements_have_addresses_of_their_own(nest):
    assert not common_addresses(nest)
