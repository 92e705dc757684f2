"""Tests for tilelang.level1.functions.linear."""

from typing import Any

import numpy as np
import pytest
from array_functions import assert_close, numbers, run, trace, traced
from hypothesis import given, settings
from hypothesis import strategies as st

import tilelang.numpy as tnp
from tilelang.errors import ProgramTypeError, ProgramValueError


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)),
        ((2, 1, 3, 4), (6, 4, 5)), ((4,), (2, 4, 5)), ((2, 3, 4), (4,)), ((3, 0), (0, 5)), ((0, 4), (4, 5)), ((1, 1), (1, 1)),
    ],
)  # fmt: skip
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = numbers(*a), numbers(*b, seed=1)
    expected = x.astype(np.float64) @ y
    assert_close(run(tnp.matmul, x, y), expected)
    assert_close(run(lambda p, q: p @ q, x, y), expected)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk->ik", ((2, 3), (3, 4))), ("ij,jk", ((2, 3), (3, 4))), ("ij->ji", ((2, 3),)), ("ij->", ((2, 3),)),
        ("ii->i", ((3, 3),)), ("ii", ((3, 3),)), ("bhqd,bhkd->bhqk", ((2, 3, 4, 5), (2, 3, 6, 5))),
        ("...ij,...jk->...ik", ((2, 3, 4), (5, 2, 4, 6))), ("...i,i->...", ((2, 3, 4), (4,))), ("i...->...", ((2, 3, 4),)),
        ("i,j->ij", ((2,), (3,))), ("ij,ij->ij", ((2, 3), (2, 3))), ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 5))),
        ("ab,bc,cd,de->ae", ((2, 9), (9, 2), (2, 9), (9, 2))), ("ij,j,j->i", ((2, 3), (3,), (3,))), ("i->i", ((0,),)),
        ("ij,jk->ik", ((2, 0), (0, 4))), ("ij,jk->ik", ((2, 1), (3, 4))), ("b...d,d->...b", ((2, 3, 4), (4,))),
        ("ijj->i", ((2, 3, 3),)), ("...->...", ((2, 3),)),
    ],
)  # fmt: skip
def test_einsum(subscripts: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    arrays = [numbers(*shape, seed=n) for n, shape in enumerate(shapes)]
    expected = np.einsum(subscripts, *[a.astype(np.float64) for a in arrays])
    assert_close(run(lambda *x: tnp.einsum(subscripts, *x), *arrays), expected)


@st.composite
def _contractions(draw: Any) -> tuple[str, list[tuple[int, ...]]]:
    letters = "abcd"
    sizes = {letter: draw(st.integers(1, 4)) for letter in letters}
    terms = draw(st.lists(st.text(letters, min_size=0, max_size=3), min_size=1, max_size=3))
    used = sorted({letter for term in terms for letter in term})
    output = "".join(draw(st.lists(st.sampled_from(used), unique=True))) if used else ""
    return f"{','.join(terms)}->{output}", [tuple(sizes[letter] for letter in term) for term in terms]


@given(_contractions())
@settings(max_examples=60, deadline=None)
def test_any_contraction(contraction: tuple[str, list[tuple[int, ...]]]) -> None:
    subscripts, shapes = contraction
    arrays = [numbers(*shape, dtype="int64", seed=n) for n, shape in enumerate(shapes)]
    assert_close(run(lambda *x: tnp.einsum(subscripts, *x), *arrays), np.einsum(subscripts, *arrays))


@pytest.mark.parametrize("axes", [0, 1, 2, ((1, 2), (1, 0)), (2, 0), ((0,), (2,))])
def test_tensordot(axes: Any) -> None:
    shapes = {0: ((2, 3), (4,)), 1: ((2, 3), (3, 4)), 2: ((2, 3, 4), (3, 4, 5))}
    a, b = shapes.get(axes if isinstance(axes, int) else -1, ((2, 3, 4), (4, 3, 2)))
    x, y = numbers(*a), numbers(*b, seed=1)
    assert_close(run(lambda p, q: tnp.tensordot(p, q, axes=axes), x, y), np.tensordot(x.astype(np.float64), y, axes))


@pytest.mark.parametrize(("a", "b", "axis"), [((4,), (4,), -1), ((2, 4), (4,), -1), ((3, 1, 4), (2, 4), -1), ((4, 3), (4, 3), -2)])
def test_vecdot(a: tuple[int, ...], b: tuple[int, ...], axis: int) -> None:
    x, y = numbers(*a), numbers(*b, seed=1)
    assert_close(run(lambda p, q: tnp.vecdot(p, q, axis=axis), x, y), np.sum(x.astype(np.float64) * y, axis))


def test_outer() -> None:
    x, y = numbers(3), numbers(4, seed=1)
    assert_close(run(tnp.outer, x, y), np.outer(x, y))


def test_products_of_narrow_floats_are_summed_in_float32() -> None:
    x, y = np.ones((1, 4096), np.float16), np.ones((4096, 1), np.float16)
    result = trace(tnp.matmul, x, y).results[0]
    assert ("float32", "float16") == (result.dtype, result.stored_dtype)
    assert 4096 == run(tnp.matmul, x, y)
    assert "float32" == run(lambda a, b: tnp.matmul(a, b, dtype="float32"), x, y).dtype
    assert "float16" == trace(lambda a, b: tnp.matmul(a, b, accumulate="float16"), x, y).results[0].dtype


def test_products_of_small_integers_are_int32() -> None:
    x, y = np.full((2, 64), 100, np.int8), np.full((64, 3), 100, np.int8)
    assert_close(run(tnp.matmul, x, y), x.astype(np.int32) @ y.astype(np.int32))
    assert "int32" == trace(lambda a, b: tnp.matmul(a, b, dtype="float32"), x, y).results[0].dtype
    assert "int8" == run(lambda a: tnp.einsum("ij->ji", a), x).dtype


def test_a_transpose_by_einsum_is_a_view() -> None:
    graph = trace(lambda a: tnp.einsum("ij->ji", a), np.zeros((2, 3), np.float16))
    assert "float16" == graph.results[0].dtype


# -- errors --------------------------------------------------------------------------------------------------
def test_matrices_that_do_not_fit() -> None:
    with pytest.raises(ProgramValueError) as error:
        traced(3, 4) @ traced(3, 4)
    assert str(error.value) == (
        "tnp.matmul: shapes (3, 4) and (3, 4) do not fit: the axes that are summed have the extents 4 and 3\n"
        "hint: they are equal; write x.mT for the transposes of matrices"
    )


def test_a_number_as_a_matrix() -> None:
    with pytest.raises(ProgramValueError) as error:
        traced(3, 4) @ 2
    assert str(error.value) == "tnp.matmul: an operand has no dimensions\nhint: write x * y for numbers"


_FORM = '\nhint: write a letter for each dimension of each array, as in "bhqd,bhkd->bhqk"'


@pytest.mark.parametrize(
    ("subscripts", "found"),
    [
        ("ij,jk->ik", "there are 2 terms for 1 arrays"),
        ("ijk->i", "'ijk' names 3 dimensions of an array of 2"),
        ("i1->i", "'1' is neither a letter nor '...'"),
        ("ij->ik", "the result has 'k', and no array has"),
        ("ij->ii", "the result names 'i' twice"),
        ("i...->i", "the result lacks '...', which arrays have"),
    ],
)
def test_subscripts_that_do_not_fit(subscripts: str, found: str) -> None:
    with pytest.raises(ProgramValueError) as error:
        tnp.einsum(subscripts, traced(3, 4))
    assert str(error.value) == f"tnp.einsum: in {subscripts!r}, {found}{_FORM}"


def test_extents_that_differ() -> None:
    with pytest.raises(ProgramValueError) as error:
        tnp.einsum("ij,jk->ik", traced(3, 4), traced(5, 6))
    assert str(error.value) == (
        "tnp.einsum: shapes (3, 4) and (5, 6) do not fit: an axis has the extents 4 and 5 ('j')\n"
        "hint: axes that are multiplied with each other have equal extents"
    )


def test_subscripts_that_are_no_text() -> None:
    with pytest.raises(ProgramTypeError) as error:
        tnp.einsum(traced(3, 4), "ij")
    assert str(error.value) == "tnp.einsum: subscripts are TracedArray, not a string"


def test_the_outer_product_of_a_matrix() -> None:
    with pytest.raises(ProgramValueError) as error:
        tnp.outer(traced(3, 4), traced(3))
    assert str(error.value) == "tnp.outer: takes vectors, got shape (3, 4)\nhint: write tnp.reshape(x, -1), or tnp.einsum"
