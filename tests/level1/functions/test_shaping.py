"""Tests for tilelang.level1.functions.shaping."""

import math
from typing import Any

import numpy as np
import pytest
from array_functions import assert_close, numbers, run, trace, traced
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tilelang
import tilelang.language as T
import tilelang.numpy as tnp
from tilelang.dtypes import DType
from tilelang.errors import ProgramIndexError, ProgramTypeError, ProgramValueError, StagingError
from tilelang.level1.graph import Parameter, define
from tilelang.level1.values import TracedArray

_SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


@given(st.lists(st.integers(1, 4), max_size=5), st.data())
@settings(max_examples=60, deadline=None)
def test_reshape(factors: list[int], data: st.DataObject) -> None:
    def grouped() -> list[int]:
        cuts = sorted(data.draw(st.lists(st.integers(0, len(factors)), max_size=4)))
        return [math.prod(factors[a:b]) for a, b in zip([0, *cuts], [*cuts, len(factors)])]

    old, new = grouped(), grouped()
    if new and data.draw(st.booleans()):
        new[data.draw(st.integers(0, len(new) - 1))] = -1
    x = numbers(*old)
    assert_close(run(lambda a: tnp.reshape(a, tuple(new)), x), x.reshape(new))


@pytest.mark.parametrize(("old", "new"), [((0, 3), (3, 0)), ((0, 3), (0,)), ((2, 0), (-1, 5)), ((), (1, 1)), ((1,), ())])
def test_reshape_of_nothing_and_of_one(old: tuple[int, ...], new: tuple[int, ...]) -> None:
    x = numbers(*old)
    assert_close(run(lambda a: tnp.reshape(a, new), x), x.reshape(new))


def test_dimensions_that_stay_keep_their_index() -> None:
    graph = trace(lambda a: tnp.reshape(a, (4, 6, 5)), numbers(4, 2, 3, 5))
    assert "[i, j, k] = x0[i, j // 3, j % 3, k]" in str(graph)


def test_a_symbolic_extent_that_is_left() -> None:
    n = T.dynamic("n")
    x = TracedArray(define("x", (n, 4, 8), DType("float32"), Parameter(0)))
    assert tnp.reshape(x, (-1, 32)).node.shape[0] is n
    assert 2 == tnp.reshape(x, (x.shape[0], -1)).ndim
    assert 32 == tnp.reshape(x, (x.shape[0], -1)).shape[1]


@given(_SHAPES, st.data())
@settings(max_examples=40, deadline=None)
def test_orders_of_dimensions(shape: tuple[int, ...], data: st.DataObject) -> None:
    x = numbers(*shape)
    order = data.draw(st.permutations(range(len(shape))))
    assert_close(run(lambda a: tnp.permute_dims(a, order), x), np.transpose(x, order))
    if shape:
        source, target = (data.draw(st.integers(-len(shape), len(shape) - 1)) for _ in "ab")
        assert_close(run(lambda a: tnp.moveaxis(a, source, target), x), np.moveaxis(x, source, target))
        axis = data.draw(st.one_of(st.none(), hnp.valid_tuple_axes(len(shape))))
        assert_close(run(lambda a: tnp.flip(a, axis), x), np.flip(x, axis))


@given(_SHAPES, st.data())
@settings(max_examples=40, deadline=None)
def test_new_dimensions(shape: tuple[int, ...], data: st.DataObject) -> None:
    x = numbers(*shape)
    axis = data.draw(st.integers(-len(shape) - 1, len(shape)))
    expanded = np.expand_dims(x, axis)
    assert_close(run(lambda a: tnp.expand_dims(a, axis), x), expanded)
    assert_close(run(lambda a: tnp.squeeze(a, axis), expanded), x)
    target = (*data.draw(hnp.array_shapes(min_dims=1, max_dims=2, max_side=3)), *shape)
    assert_close(run(lambda a: tnp.broadcast_to(a, target), x), np.broadcast_to(x, target))


def test_transposes() -> None:
    x = numbers(2, 3, 4)
    assert_close(run(lambda a: a.mT, x), np.swapaxes(x, 1, 2))
    assert_close(run(lambda a: a[0].T, x), x[0].T)


def test_broadcast_arrays() -> None:
    x, y = numbers(3, 1), numbers(4, seed=1)
    for found, expected in zip(run(lambda a, b: tnp.broadcast_arrays(a, b), x, y), np.broadcast_arrays(x, y)):
        assert_close(found, expected)


@given(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3), st.data())
@settings(max_examples=40, deadline=None)
def test_joined_arrays(shape: tuple[int, ...], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 4))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    parts = []
    for n in range(count):
        own = list(shape)
        own[axis] = data.draw(st.integers(0, 3))
        parts.append(numbers(*own, seed=n))
    assert_close(run(lambda *a: tnp.concat(a, axis), *parts), np.concatenate(parts, axis))
    assert_close(run(lambda *a: tnp.concat(a, None), *parts), np.concatenate(parts, None))
    same = [numbers(*shape, seed=n) for n in range(count)]
    assert_close(run(lambda *a: tnp.stack(a, axis), *same), np.stack(same, axis))
    assert_close(run(lambda *a: tnp.stack(a, len(shape)), *same), np.stack(same, len(shape)))


def test_joined_dtypes() -> None:
    assert "float32" == tnp.concat([traced(2), traced(2, dtype="float16")]).dtype
    graph = trace(lambda a, b: tnp.concat([a, b]), numbers(2, dtype="float16"), numbers(2, dtype="float16"))
    assert "float16" == graph.results[0].dtype


@pytest.mark.parametrize(("sections", "axis"), [(2, 0), (3, 1), ([1, 3], 0), ([2], -1), ([], 0), ([0, 4], 0)])
def test_split(sections: Any, axis: int) -> None:
    x = numbers(4, 6)
    expected = np.split(x, sections, axis)
    found = run(lambda a: tnp.split(a, sections, axis), x)
    for part, other in zip(found if isinstance(found, list) else [found], expected, strict=True):
        assert_close(part, other)


def test_unstack() -> None:
    x = numbers(2, 3)
    for part, other in zip(run(lambda a: tnp.unstack(a, 1), x), x.T, strict=True):
        assert_close(part, other)


@pytest.mark.parametrize(("axis", "n"), [(-1, 1), (0, 2), (1, 0), (1, 5)])
def test_diff(axis: int, n: int) -> None:
    x = numbers(3, 4)
    assert_close(run(lambda a: tnp.diff(a, axis=axis, n=n), x), np.diff(x, axis=axis, n=n))
    assert_close(run(lambda a: tnp.diff(a, axis=axis, prepend=a, append=a), x), np.diff(x, axis=axis, prepend=x, append=x))


@pytest.mark.parametrize(("shift", "axis"), [(1, 0), (-2, 1), (7, None), (0, 0), (5, -1)])
def test_roll(shift: int, axis: Any) -> None:
    x = numbers(3, 4)
    assert_close(run(lambda a: tnp.roll(a, shift, axis), x), np.roll(x, shift, axis))


def test_repeat_and_tile() -> None:
    x = numbers(2, 3)
    assert_close(run(lambda a: tnp.repeat(a, 3, axis=1), x), np.repeat(x, 3, 1))
    assert_close(run(lambda a: tnp.repeat(a, 2), x), np.repeat(x, 2))
    for times in (2, (2, 1), (3, 1, 2), (0, 2)):
        assert_close(run(lambda a, times=times: tnp.tile(a, times), x), np.tile(x, times))


# -- errors --------------------------------------------------------------------------------------------------
def test_a_shape_with_other_elements() -> None:
    with pytest.raises(ProgramValueError) as error:
        tnp.reshape(traced(4, 5), (3, -1))
    assert str(error.value) == (
        "tnp.reshape: an array of shape (4, 5) has 20 elements, which do not fill (3, -1)\n"
        "hint: one extent may be -1, which stands for what is left"
    )


def test_an_extent_that_is_no_integer() -> None:
    with pytest.raises(ProgramTypeError) as error:
        tnp.reshape(traced(4, 5), (2.5, 8))
    assert str(error.value) == (
        "tnp.reshape: an extent is 2.5, not an int\nhint: extents are ints and symbolic sizes, x.shape[0]"
    )


def test_an_order_that_lacks_an_axis() -> None:
    with pytest.raises(ProgramValueError) as error:
        tnp.permute_dims(traced(4, 5), (0, 0))
    assert str(error.value) == (
        "tnp.permute_dims: axes (0, 0) do not name each of the 2 axes once\n"
        "hint: write tnp.matrix_transpose(x) to exchange the last two"
    )


def test_the_transpose_of_a_vector() -> None:
    with pytest.raises(ProgramValueError) as error:
        tnp.matrix_transpose(traced(4))
    assert str(error.value) == (
        "tnp.matrix_transpose: an array of 1 dimensions has no transpose\nhint: write x[:, None]"
    )


def test_an_axis_that_cannot_go() -> None:
    with pytest.raises(ProgramValueError) as error:
        tnp.squeeze(traced(4, 1), 0)
    assert str(error.value) == "tnp.squeeze: axis 0 has extent 4, not 1"


def test_a_shape_that_is_not_reached() -> None:
    with pytest.raises(ProgramValueError) as error:
        tnp.broadcast_to(traced(4, 5), (4, 6))
    assert str(error.value) == (
        "tnp.broadcast_to: shape (4, 5) does not broadcast to (4, 6)\n"
        "hint: counted from the last, extents are equal, or that of x is 1"
    )


def test_arrays_that_do_not_join() -> None:
    with pytest.raises(ProgramValueError) as error:
        tnp.concat([traced(4, 5), traced(4, 6)])
    assert str(error.value) == "tnp.concat: shapes (4, 5) and (4, 6) differ beyond axis 0\nhint: all other extents are equal"
    with pytest.raises(ProgramValueError) as error:
        tnp.stack([])
    assert str(error.value) == "tnp.stack: there are no arrays"


def test_parts_that_are_not_equal() -> None:
    with pytest.raises(ProgramValueError) as error:
        tnp.split(traced(5), 2)
    assert str(error.value) == (
        "tnp.split: axis 0 of extent 5 has no 2 equal parts\nhint: write a list of positions: tnp.split(x, [a, b], axis)"
    )


def test_an_axis_beyond_the_result() -> None:
    with pytest.raises(ProgramIndexError) as error:
        tnp.expand_dims(traced(4), 2)
    assert str(error.value) == (
        "tnp.expand_dims: axis 2 is out of range of an array of shape (4,)\nhint: axes go from -2 to 1"
    )


def test_as_many_arrays_as_a_symbolic_size() -> None:
    x = TracedArray(define("x", (T.dynamic("n"), 4), DType("float32"), Parameter(0)))
    with pytest.raises(StagingError) as error:
        tnp.unstack(x)
    assert str(error.value) == (
        "a symbolic size is used as a Python integer, but its value is known only when the computation runs\n"
        "hint: make the size static: leave it out of the annotation, or give the annotation a number"
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: tnp.repeat(x, n, axis=0), lambda x, n: tnp.tile(x, (n, 1)), lambda x, n: tnp.roll(x, n, axis=0),
        lambda x, n: tnp.tril(x, k=n) + tnp.zeros(n)[:, None],
    ],
)  # fmt: skip
def test_symbolic_sizes_are_numbers_of_repetitions_and_positions(function: Any) -> None:
    n = T.dynamic("n")

    def f(x: T.Tensor((n, 3), "float32"), size: Any) -> Any:  # type: ignore[valid-type]
        return function(x, size if size is not None else x.shape[0])

    x = numbers(5, 3)
    expected = run(lambda a: function(a, 5), x)
    for size in (n, None):
        computation = tilelang.compute(execution_backend="reference")(f)
        assert_close(computation(x, size=size), expected)


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (lambda x, n: tnp.topk(x, n), "topk: k"), (lambda x, n: tnp.split(x, n), "split: the number of parts"),
        (lambda x, n: tnp.diff(x, n=n), "diff: n"), (lambda x, n: tnp.linspace(0, 1, n), "linspace: num"),
    ],
)  # fmt: skip
def test_sizes_that_functions_need_while_they_are_traced(function: Any, what: str) -> None:
    with pytest.raises(ProgramTypeError) as error:
        function(traced(4), T.dynamic("n"))
    assert str(error.value) == (
        f"tnp.{what} is n, but must be known when the function is traced\n"
        "hint: make the size static: leave it out of the annotation, or give the annotation a number"
    )
