"""Tests for tilelang.level1.functions.notation."""

from typing import Any

import numpy as np
import pytest
from array_functions import assert_close, numbers, run, trace, traced

import tilelang.language as T
import tilelang.numpy as tnp
from tilelang.dtypes import DType
from tilelang.errors import ProgramIndexError, ProgramTypeError, ProgramValueError, StagingError
from tilelang.level1.graph import Map, Parameter, Reduction, define
from tilelang.level1.values import TracedArray


def _conv2d(x: Any, w: Any, stride: int = 1) -> Any:
    N, H, W, C = x.shape
    KH, KW, _, F = w.shape
    kh, kw, c = tnp.reduce_axis(KH), tnp.reduce_axis(KW), tnp.reduce_axis(C)
    return tnp.compute(
        (N, (H - KH) // stride + 1, (W - KW) // stride + 1, F),
        lambda n, h, y, f: tnp.sum(x[n, h * stride + kh, y * stride + kw, c] * w[kh, kw, c, f], axis=(kh, kw, c)),
    )


@pytest.mark.parametrize("stride", [1, 2])
def test_convolution(stride: int) -> None:
    x, w = numbers(2, 7, 8, 3), numbers(3, 2, 3, 4, seed=1)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 2), (1, 2))[:, ::stride, ::stride]
    assert_close(run(lambda a, b: _conv2d(a, b, stride), x, w), np.einsum("nhwcij,ijcf->nhwf", windows, w))


def test_a_reduction_alone_is_the_array() -> None:
    graph = trace(_conv2d, numbers(1, 5, 5, 2, dtype="float16"), numbers(3, 3, 2, 4, dtype="float16"))
    (result,) = graph.results
    assert isinstance(result.definition, Reduction)
    assert ["n", "h", "y", "f"] == [axis.name for axis in result.definition.axes]
    assert ("float32", "float16") == (result.dtype, result.stored_dtype)


def test_expressions_around_reductions() -> None:
    x, b = numbers(4, 5), numbers(4, seed=1)
    k = lambda: tnp.reduce_axis(5)  # noqa: E731

    def f(a: Any, c: Any) -> Any:
        j = k()
        return tnp.compute((4,), lambda i: tnp.exp(tnp.sum(a[i, j] * 2, axis=j)) + c[i] * i)

    assert_close(run(f, x, b), np.exp((x * 2).sum(1)) + b * np.arange(4))


def test_reductions_of_reductions() -> None:
    x = numbers(3, 4, 5)

    def f(a: Any) -> Any:
        j, k = tnp.reduce_axis(4), tnp.reduce_axis(5)
        return tnp.compute((3,), lambda i: tnp.max(tnp.sum(a[i, j, k], axis=k), axis=j))

    assert_close(run(f, x), x.astype(np.float64).sum(2).max(1))


def test_other_reductions() -> None:
    x = numbers(3, 4)

    def f(a: Any) -> Any:
        j = tnp.reduce_axis(4)
        return [
            tnp.compute((3,), lambda i: tnp.argmin(a[i, j], axis=j)), tnp.compute((3,), lambda i: tnp.mean(a[i, j], axis=j)),
            tnp.compute((3,), lambda i: tnp.any(a[i, j] > 1, axis=j)), tnp.compute((), lambda: tnp.prod(a[0, j], axis=j)),
        ]  # fmt: skip

    for found, expected in zip(run(f, x), [x.argmin(1), x.mean(1), (x > 1).any(1), x[0].prod()], strict=True):
        assert_close(found, expected)


def test_elements_outside_are_0() -> None:
    x = numbers(5)
    padded = np.pad(x, 1)
    assert_close(run(lambda a: tnp.compute((5,), lambda i: a[i - 1] + a[i + 1]), x), padded[:5] + padded[2:])


def test_elements_that_are_inside_have_no_test() -> None:
    graph = trace(lambda a: tnp.compute((3, 2), lambda i, j: a[i * 2 + j]), numbers(6))
    assert "x0[i * 2 + j]" in str(graph)
    assert "if_then_else" not in str(graph)


def test_gathers() -> None:
    x, p = numbers(5, 3), np.array([4, 0, -1], np.int32)
    assert_close(run(lambda a, n: tnp.compute((3, 3), lambda i, j: a[n[i], j]), x, p), x[p])


def test_where_and_axes_as_numbers() -> None:
    x = numbers(4, 4)
    found = run(lambda a: tnp.compute((4, 4), lambda i, j: tnp.where(i >= j, a[i, j] * i, -tnp.inf)), x)
    assert_close(found, np.where(np.tri(4, dtype=bool), x * np.arange(4)[:, None], -np.inf))


def test_constants_and_no_axes() -> None:
    assert_close(run(lambda: tnp.compute((2, 0), lambda i, j: 1)), np.ones((2, 0), np.int32))
    assert_close(run(lambda: tnp.compute((), lambda: 2.5)), np.array(2.5))
    assert_close(run(lambda: tnp.compute((2, 2), lambda *ij: ij[0] * 2 + ij[1])), np.arange(4).reshape(2, 2))


def test_symbolic_sizes() -> None:
    n = T.dynamic("n")
    x = TracedArray(define("x", (n, n), DType("float32"), Parameter(0)))
    k = tnp.reduce_axis(x.shape[1])
    result = tnp.compute((x.shape[0],), lambda i: tnp.sum(x[i, k], axis=k))
    assert result.node.shape[0] is n
    assert isinstance(result.node.definition, Reduction)
    assert result.node.definition.extents[0] is n


def test_definitions_have_axes_of_their_own() -> None:
    result = tnp.compute((3,), lambda i: traced(3)[i] + i)
    assert isinstance(result.node.definition, Map)
    assert "Var" == type(result.node.definition.axes[0]).__name__


# -- errors --------------------------------------------------------------------------------------------------
def test_too_few_parameters() -> None:
    with pytest.raises(ProgramTypeError) as error:
        tnp.compute((3, 4), lambda i: i)
    assert str(error.value) == (
        "tnp.compute: the shape has 2 dimensions, and the function takes (i)\n"
        "hint: it takes one parameter for each dimension"
    )


def test_an_axis_that_is_not_reduced() -> None:
    k = tnp.reduce_axis(4)
    with pytest.raises(ProgramValueError) as error:
        tnp.compute((3,), lambda i: traced(3, 4)[i, k])
    assert str(error.value) == (
        "tnp.compute: the function gives an expression over an axis that is none of the array's\n"
        "hint: reduce axes of tnp.reduce_axis inside the function, as in tnp.sum(x[i, k], axis=k)"
    )


def test_an_index_that_leaves_dimensions() -> None:
    with pytest.raises(ProgramIndexError) as error:
        tnp.compute((3,), lambda i: tnp.sum(traced(3, 4)[i]))
    assert str(error.value) == (
        "x[...]: inside tnp.compute, an index of an array of shape (3, 4) names one element\n"
        "hint: write 2 indices without slices, None and arrays, such as axes and sums of them"
    )


def test_an_array_among_elements() -> None:
    with pytest.raises(ProgramValueError) as error:
        tnp.compute((3,), lambda i: traced(3)[i] + traced(3))
    assert str(error.value) == (
        "tnp.add: an array (3,) is combined with an element\n"
        "hint: inside tnp.compute, index every dimension of an array: x[i, j]"
    )


def test_an_array_as_the_element() -> None:
    with pytest.raises(ProgramTypeError) as error:
        tnp.compute((3,), lambda i: traced(3))
    assert str(error.value) == (
        "tnp.compute: the function gives an array of 1 dimensions, not a number\n"
        "hint: index every dimension of arrays by axes: x[i, j]"
    )


def test_a_branch_on_an_axis() -> None:
    with pytest.raises(StagingError) as error:
        tnp.compute((3,), lambda i: 1 if i > 1 else 0)
    assert str(error.value) == (
        "an array is used as a truth value, but its values are known only when the computation runs\n"
        "hint: write tnp.where(condition, x, y) in place of `if`, `x & y` in place of `and`, `x | y` in place of `or`, "
        "and `~x` in place of `not`"
    )
