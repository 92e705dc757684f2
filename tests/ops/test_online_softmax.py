"""`T.online_softmax`: its meaning on any tiles, and what it refuses."""

import dataclasses
import math

import numpy as np
import pytest

from tilelang.dtypes import as_dtype
from tilelang.errors import ProgramError
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import const
from tilelang.ops.online_softmax import OnlineSoftmax

FLOAT32 = as_dtype("float32")


def operator(ops, dtype="float16", scale=1.0, **shapes):
    """A step on 4 rows of 8 scores; other shapes by the name of an operand."""
    default = {"scores": (4, 8), "output": (4, 6), "row_max": (4,), "row_sum": (4,), "probabilities": (4, 8)}
    tiles = {
        name: ops.tile(name[0].upper() + name[1:], shape, dtype if name == "probabilities" else "float32")
        for name, shape in {**default, **shapes}.items()
    }
    return OnlineSoftmax(**tiles, scale=const(scale, FLOAT32))


def start(op):
    """What the operands hold in front of the first step."""
    return {
        op.output: np.zeros((4, 6), "f"),
        op.row_max: np.full((4,), -np.inf, "f"),
        op.row_sum: np.zeros((4,), "f"),
        op.probabilities: np.zeros((4, 8), op.probabilities.dtype.numpy),
    }


def test_steps_make_the_softmax_of_all_tiles(ops):
    op = operator(ops, scale=0.5)
    rng = np.random.default_rng(0)
    scores, values = 10 * rng.standard_normal((4, 40)).astype("f"), rng.standard_normal((40, 6)).astype("f")
    scores[1, :9] = -np.inf
    state = start(op)
    for k in range(0, 40, 8):
        tile = scores[:, k : k + 8].copy()
        ops.apply(op, {op.scores: tile, **state})
        np.testing.assert_allclose(state[op.probabilities], tile, rtol=1e-3, atol=1e-7)
        state[op.output] += tile @ values[k : k + 8]
    exponentials = np.exp(0.5 * (scores.astype("d") - scores.max(axis=1, keepdims=True)))
    total = exponentials.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(state[op.output] / state[op.row_sum][:, None], exponentials / total @ values, rtol=1e-4)
    np.testing.assert_allclose(state[op.row_max], scores.max(axis=1))
    np.testing.assert_allclose(state[op.row_sum], total[:, 0], rtol=1e-5)


def test_a_row_without_scores_stays_as_it_is(ops):
    op = operator(ops)
    state = start(op)
    ops.apply(op, {op.scores: np.full((4, 8), -np.inf, "f"), **state})
    assert not state[op.row_sum].any()
    assert not state[op.output].any()
    assert np.isneginf(state[op.row_max]).all()


def test_nan_spoils_its_row_alone(ops):
    op = operator(ops)
    state, scores = start(op), np.ones((4, 8), "f")
    scores[2, 3] = np.nan
    ops.apply(op, {op.scores: scores, **state})
    assert [False, False, True, False] == np.isnan(state[op.row_sum]).tolist()


@pytest.mark.parametrize(("dtype", "most"), [("float16", 8), ("bfloat16", 8), ("float8_e4m3fn", 8), ("float8_e4m3fnuz", 7)])
def test_exponentials_never_exceed_what_probabilities_hold(ops, dtype, most):
    op = operator(ops, dtype)
    assert most == op.max_growth
    assert 2.0**most <= op.probabilities.dtype.limits[1]


@pytest.mark.parametrize(("dtype", "most"), [("float16", 15), ("bfloat16", 48), ("float32", 48), ("float8_e4m3fn", 8)])
def test_sums_reach_further_in_dtypes_that_end_where_float32_does(ops, dtype, most):
    op = operator(ops, dtype)
    assert 2.0**most == op.max_sum
    assert 2.0**most <= op.probabilities.dtype.limits[1]


def test_sums_fit_float16_where_the_program_converts_the_scores(ops):
    assert 2.0**15 == dataclasses.replace(operator(ops), probabilities=None).max_sum


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": (4, 9)}, "T.online_softmax: 'Scores' is (4, 9) but 'Probabilities' is (4, 8)"),
        ({"scores": (4, 8, 2)}, "T.online_softmax: 'Scores' is (4, 8, 2), not a matrix"),
        ({"output": (5, 6)}, "T.online_softmax: 'Scores' is (4, 8) but 'Output' is (5, 6)"),
        ({"row_max": (4, 8)}, "T.online_softmax: 'Scores' is (4, 8) but 'Row_max' is (4, 8)"),
        ({"row_sum": (8,)}, "T.online_softmax: 'Scores' is (4, 8) but 'Row_sum' is (8,)"),
        ({"dtype": "int8"}, "T.online_softmax: 'Probabilities' holds int8, not a floating-point dtype"),
        ({"scale": 0.0}, "T.online_softmax: scale is 0.0, but it must be positive and finite"),
        ({"scale": -1.0}, "T.online_softmax: scale is -1.0, but it must be positive and finite"),
        ({"scale": math.inf}, "T.online_softmax: scale is inf, but it must be positive and finite"),
    ],
)
def test_what_does_not_fit_is_refused(ops, change, message):
    with pytest.raises(ProgramError) as raised:
        operator(ops, **change).check()
    assert message == raised.value.message


def test_all_but_the_probabilities_have_one_dtype(ops):
    op = operator(ops)
    wrong = OnlineSoftmax(op.scores, op.output, ops.tile("M", (4,), "float16"), op.row_sum, op.scale)
    with pytest.raises(ProgramError, match=r"'M' holds float16 and 'Scores' holds float32, but both must be float32"):
        wrong.check()


def test_operands_are_tiles_on_chip_of_their_own(ops):
    op = operator(ops)
    far = ops.tile("G", (4, 8), "float32", Scope.GLOBAL)
    with pytest.raises(ProgramError, match=r"'G' is \(4, 8\) in global memory, but operands are tiles of constant ext"):
        OnlineSoftmax(far, op.output, op.row_max, op.row_sum, op.scale).check()
    with pytest.raises(ProgramError, match="two operands share memory"):
        OnlineSoftmax(op.scores, op.output, op.row_max, op.row_sum, op.scale, op.scores).check()
