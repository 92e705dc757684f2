"""What unrolled loops add to an address stands beside the rest of it."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.codegen.base_and_offset import split_address
from tilelang.dtypes import INT32, SCALARS
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Var, as_expr
from tilelang.ir.visit import variables_of

I, J, ROW, N = (Var(name, INT32, index=True) for name in ("i", "j", "row", "N"))
FLOAT16 = SCALARS["float16"]
TILE = Buffer("tile", (as_expr(4096),), FLOAT16, Scope.SHARED)
MATRIX = Buffer("A", (as_expr(64), as_expr(128)), FLOAT16, Scope.GLOBAL)
DYNAMIC = Buffer("B", (N, N), FLOAT16, Scope.GLOBAL)


@given(
    st.integers(-3, 9), st.integers(0, 40), st.integers(0, 3000), st.sampled_from([0, 16]),
    st.sampled_from([TILE, MATRIX]),
)  # fmt: skip
def test_both_parts_make_the_place(step, other, literal, flips, buffer):
    inner = ((ROW * 8) ^ (J * flips)) + I * step * 8 + literal
    start = (inner,) if buffer is TILE else (ROW + J * other, inner)
    first, moves = split_address(buffer, start, {I: 3, J: 1})
    assert step == 0 or all(I not in variables_of(index) for index in first)
    for i, j, row in itertools.product(range(4), range(2), range(3)):
        env = {I: i, J: j, ROW: row}
        added = moves.constant + sum(factor * env[var] for var, factor in moves.factors.items())
        assert place(buffer, start, env) == place(buffer, first, env) + added


def place(buffer, indices, env):
    values = [int(evaluate(index, env)) for index in indices]
    return values[0] if len(values) == 1 else values[0] * 128 + values[1]


@pytest.mark.parametrize(
    ("buffer", "start", "factors", "constant"),
    [
        (TILE, (ROW * 8 + I * 512 + 2048,), {I: 512}, 2048),
        (TILE, ((ROW ^ I) * 8,), {}, 0),  # not linear
        (MATRIX, (ROW + I * 4, as_expr(32)), {I: 512}, 0),
        (DYNAMIC, (ROW + I * 4, J * 8), {J: 8}, 0),  # rows are as long as a call says
        (MATRIX, (ROW, I * 2**30), {}, 0),  # further than an `int` reaches
    ],
)
def test_known_distances_are_taken_out(buffer, start, factors, constant):
    _, moves = split_address(buffer, start, {I: 3, J: 1})
    assert (factors, constant) == (moves.factors, moves.constant)
