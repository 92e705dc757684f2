"""Tests for tilelang.level1.functions.normalization."""

import numpy as np
import pytest
from array_functions import assert_close, numbers, run, trace, traced

import tilelang.numpy as tnp
from tilelang.errors import ProgramTypeError
from tilelang.level1.graph import Combiner, Reduction


def _logsumexp(x: np.ndarray, axis: object, keepdims: bool = True) -> np.ndarray:
    x = x.astype(np.float64)
    with np.errstate(divide="ignore"):
        return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))  # type: ignore[arg-type]


@pytest.mark.parametrize(("shape", "axis"), [((5,), -1), ((3, 4), 0), ((2, 3, 4), (0, 2)), ((2, 1), 1), ((0, 3), 1), ((3, 0), 1)])
def test_softmax_and_its_logarithm(shape: tuple[int, ...], axis: object) -> None:
    x = numbers(*shape)
    expected = x - _logsumexp(x, axis)
    assert_close(run(lambda a: tnp.log_softmax(a, axis), x), expected)
    assert_close(run(lambda a: tnp.softmax(a, axis), x), np.exp(expected))


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
def test_logsumexp(axis: object) -> None:
    x = numbers(3, 4, 2)
    assert_close(run(lambda a: tnp.logsumexp(a, axis), x), _logsumexp(x, axis, keepdims=False))
    assert_close(run(lambda a: tnp.logsumexp(a, axis, keepdims=True), x), _logsumexp(x, axis))


def test_large_numbers_do_not_overflow() -> None:
    x = np.array([[1e4, 1e4 + 1, -1e4], [-1e30, -1e30, -1e30]], np.float32)
    shifted = x.astype(np.float64) - x.max(1, keepdims=True)
    expected = np.exp(shifted) / np.exp(shifted).sum(1, keepdims=True)
    assert_close(run(tnp.softmax, x), expected)
    assert_close(run(tnp.log_softmax, x), shifted - np.log(np.exp(shifted).sum(1, keepdims=True)))


def test_logsumexp_of_infinities_and_of_nothing() -> None:
    x = np.array([[-np.inf, -np.inf], [np.inf, 1], [1, np.nan]], np.float32)
    assert_close(run(lambda a: tnp.logsumexp(a, 1), x), np.array([-np.inf, np.inf, np.nan]))
    assert_close(run(lambda a: tnp.logsumexp(a, 1), np.zeros((2, 0), np.float32)), np.array([-np.inf, -np.inf]))


def test_softmax_is_a_maximum_and_a_sum() -> None:
    graph = trace(tnp.softmax, np.zeros((3, 4), np.float16))
    found = [a.definition.combiner for a in graph.arrays if isinstance(a.definition, Reduction)]
    assert [Combiner.MAX, Combiner.SUM] == found
    assert ("float32", "float16") == (graph.results[0].dtype, graph.results[0].stored_dtype)


def test_an_expression_of_index_notation() -> None:
    with pytest.raises(ProgramTypeError) as error:
        tnp.compute((4,), lambda i: tnp.softmax(traced(4)[i]))
    assert str(error.value) == (
        "tnp.softmax: takes an array and axes of it, not an expression of tnp.compute\n"
        "hint: write tnp.softmax before or after tnp.compute, or its sum and maximum inside"
    )
