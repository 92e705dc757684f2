"""Tests for tilelang.level1.values: what arrays without values answer, and what they refuse."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from array_functions import traced

import tilelang.language as T
import tilelang.numpy as tnp
from tilelang.dtypes import DType
from tilelang.errors import ProgramValueError, StagingError, StagingTypeError, UnknownAttribute
from tilelang.level1.graph import Parameter, define
from tilelang.level1.values import Scalar, TracedArray


def symbolic() -> TracedArray:
    return TracedArray(define("x", (T.dynamic("n"), 4), DType("float32"), Parameter(0)))


def test_static_facts() -> None:
    x = traced(2, 3, dtype="float16")
    assert ((2, 3), 2, 6, "float16") == (x.shape, x.ndim, x.size, x.dtype)
    assert "<array x: float16 (2, 3)>" == repr(x)
    assert 4 == symbolic().shape[1]


def test_sizes_compute_and_compare() -> None:
    n, k = symbolic().shape
    assert isinstance(n, Scalar)
    assert n * k == 4 * n
    assert n - n == 0
    assert 4 == int((n + 4) - n)
    assert 8 == len(range(n - n + 8))
    assert "<n * 2 + 1>" == repr(n * 2 + 1)


_HINT_TRUTH = (
    "hint: write tnp.where(condition, x, y) in place of `if`, `x & y` in place of `and`, `x | y` in place of `or`, "
    "and `~x` in place of `not`"
)
_KNOWN = "but its values are known only when the computation runs"


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda x: bool(x > 0), f"an array is used as a truth value, {_KNOWN}\n{_HINT_TRUTH}"),
        (lambda x: x[0, 0] > 1 and 2, f"an array is used as a truth value, {_KNOWN}\n{_HINT_TRUTH}"),
        (
            lambda x: range(x[0, 0]),
            f"an array is used as a Python integer, {_KNOWN}\nhint: index an array by it, x[i], or pass the number as an argument",
        ),
        (lambda x: int(x[0, 0]), f'an array is converted to a Python int, {_KNOWN}\nhint: write x.astype("int32")'),
        (
            lambda x: math.exp(x[0, 0]),
            f"an array is converted to a Python float, {_KNOWN}\n"
            'hint: write x.astype("float32"), and tnp.exp(x) in place of math.exp(x)',
        ),
        (
            np.asarray,
            f"an array is made a NumPy array, {_KNOWN}\n"
            "hint: write tnp.sum(x) in place of numpy.sum(x), and likewise for other functions",
        ),
        (lambda x: complex(x[0, 0]), f"an array is converted to a Python complex, {_KNOWN}\nhint: there are no complex dtypes"),
    ],
)
def test_values_are_not_known(use: Callable[[TracedArray], object], message: str) -> None:
    with pytest.raises(StagingError) as error:
        use(traced(3, 4))
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("use", "hint"),
    [
        (lambda x: np.sum(x), "write tnp.sum(x) in place of numpy.sum(x)"),
        (lambda x: np.concatenate([x, x]), "write tnp.concat(x) in place of numpy.concatenate(x)"),
        (lambda x: np.median(x), "write tnp.exp(x) in place of numpy.exp(x), and likewise for other functions"),
    ],
)
def test_functions_of_numpy(use: Callable[[TracedArray], object], hint: str) -> None:
    with pytest.raises(StagingError) as error:
        use(traced(3, 4))
    assert str(error.value) == (
        f"a function of numpy is given an array of the computation, which has no values yet\nhint: {hint}"
    )


@pytest.mark.parametrize(
    ("use", "found"),
    [
        (lambda n: bool(n > 4), "is used as a truth value"),
        (lambda n: range(n), "is used as a Python integer"),
        (lambda n: int(n), "is converted to a Python int"),
        (lambda n: math.sqrt(n), "is converted to a Python float"),
    ],
)
def test_symbolic_sizes_are_not_known(use: Callable[[Scalar], object], found: str) -> None:
    with pytest.raises(StagingError) as error:
        use(symbolic().shape[0])
    assert str(error.value) == (
        f"a symbolic size {found}, but its value is known only when the computation runs\n"
        "hint: make the size static: leave it out of the annotation, or give the annotation a number"
    )


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("sum", "write tnp.sum(x)"), ("reshape", "write tnp.reshape(x)"), ("shap", "did you mean x.shape?"),
        ("transpose", "write tnp.permute_dims(x)"),
        ("softmx", "did you mean tnp.softmax(x)?"), ("zzzz", ""),
    ],
)  # fmt: skip
def test_unknown_attributes(name: str, hint: str) -> None:
    with pytest.raises(UnknownAttribute) as error:
        getattr(traced(3), name)
    assert str(error.value) == f"an array of a computation has no attribute '{name}'" + (f"\nhint: {hint}" if hint else "")


def test_attributes_that_torch_asks_for_are_reported_at_the_users_line(calling_line: None) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(UnknownAttribute) as error:
        torch.nn.functional.softmax(traced(3), -1)
    assert f" --> {__file__}:" in str(error.value)


def test_arrays_do_not_change() -> None:
    with pytest.raises(StagingError) as error:
        traced(3)[0] = 1
    assert str(error.value) == (
        "x[...] = y: arrays of a computation do not change\nhint: write x = x.at[...].set(y), or tnp.where"
    )


def test_only_a_matrix_has_a_transpose() -> None:
    with pytest.raises(ProgramValueError) as error:
        traced(2, 3, 4).T
    assert str(error.value) == (
        "array.T: the array has 3 dimensions, and only a matrix has a transpose\n"
        "hint: write x.mT for a stack of matrices, or tnp.permute_dims(x, axes)"
    )


def test_a_number_has_no_length() -> None:
    with pytest.raises(StagingTypeError) as error:
        len(traced())
    assert str(error.value) == "len: the array has no dimensions"


def test_probes_of_protocols_find_nothing() -> None:
    assert not hasattr(traced(3), "__array_interface__")
    assert not hasattr(traced(3), "__dlpack__")
    assert isinstance(tnp.exp(1.0), Scalar)
