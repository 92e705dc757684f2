"""Tests for tilelang.level1.calls."""

import inspect
from typing import Any

import numpy as np
import pytest
from array_functions import numbers, trace

import tilelang.language as T
from tilelang.dtypes import DType
from tilelang.errors import NOWHERE, ArgumentError
from tilelang.ir.expr import int_const
from tilelang.language.types import TensorType
from tilelang.level1.calls import Binding, bind_arguments, output_arrays, signature_of, too_few_elements
from tilelang.level1.graph import Graph, Parameter, RequiredExtent, define
from tilelang.level1.structure import flatten

X = np.zeros((2, 3), np.float32)


def function(x: Any, scale: Any = 1.0, *rest: Any, **named: Any) -> Any:
    return x, scale, rest, named


def bound(*args: Any, types: dict[str, TensorType] | None = None, may_omit: bool = False, **keywords: Any) -> Binding:
    return bind_arguments(function, inspect.signature(function), types or {}, args, keywords, may_omit=may_omit)


def test_arrays_become_parameters_and_values_stay() -> None:
    binding = bound(X, 2.0, [X, 5], bias={"b": X})
    assert ["x", "rest_0_0", "named_bias_b"] == [each.name for each in binding.parameters]
    assert ("a", 2.0, (["b", 5],), {"bias": {"b": "c"}}) == binding.call(["a", "b", "c"])
    assert all(array is X for array in binding.arrays)


def test_keys_are_equal_for_calls_of_one_graph() -> None:
    key = bound(X).key
    assert key == bound(np.ones_like(X), scale=1.0).key
    different = [
        bound(X[:1]), bound(X.astype(np.float16)), bound(X, 2.0), bound(X, True), bound([X]), bound(X, 1.0, X), bound(X, scale=X),
    ]  # fmt: skip
    assert len(different) + 1 == len({key, *(each.key for each in different)})


def test_values_are_described_as_in_python() -> None:
    found = bound(X, True, 1, 1.5, None, "a", "float16", [1, (2.0,)], named={"k": (3, 4)}).described()
    assert ("float32 [2, 3]", "True") == (found["x"], found["scale"])
    assert "(1, 1.5, None, 'a', 'float16', [1, (2.0,)])" == found["rest"]
    assert "{'named': {'k': (3, 4)}}" == found["named"]


def test_shapes_are_those_of_arguments_or_of_annotations() -> None:
    n = T.dynamic("n")
    kind = T.Tensor((n, 3), "float32")
    first, second = bound(X, types={"x": kind}), bound(np.zeros((7, 3), np.float32), types={"x": kind})
    assert first.key == second.key
    assert n is first.parameters[0].shape[0]
    assert [2, 3] == [int_const(extent) for extent in bound(X).parameters[0].shape]


def test_annotated_parameters_may_be_left_out_where_nothing_runs() -> None:
    kind = T.Tensor((4, 3), "float16")
    assert "float16" == bound(types={"x": kind}, may_omit=True).parameters[0].dtype
    assert "float16" == bound(kind).parameters[0].dtype


def test_calls_that_do_not_fit() -> None:
    with pytest.raises(ArgumentError) as error:
        bound()
    assert error.value.message == "function: missing a required argument: 'x'"


def test_dtypes_that_are_not_supported() -> None:
    with pytest.raises(ArgumentError) as error:
        bound(np.zeros(3, np.complex64))
    assert str(error.value) == "function: 'x' has no supported dtype, got dtype complex64"


def test_the_signature_of_a_graph_returns_its_results() -> None:
    signature = signature_of(trace(lambda a: [a * 2, a.astype("int8")], numbers(2, 3, dtype="float16")))
    assert ((0,), (1, 2)) == (signature.inputs, signature.outputs)
    assert ["float16", "float16", "int8"] == [str(param.dtype) for param in signature.params]


def test_results_that_are_given_are_made_as_those_that_are_returned() -> None:
    _, structure = flatten({"a": 0, "b": [1, 2]})
    graph = trace(lambda a: [a, a * 2, a.astype("int8")], X)
    first, second, third = X, X.copy(), np.zeros((2, 3), np.int8)
    found = output_arrays(graph, {"a": first, "b": (second, third)}, structure)
    assert [True] * 3 == [one is other for one, other in zip(found, (first, second, third), strict=True)]
    with pytest.raises(ArgumentError) as error:
        output_arrays(graph, [first, second], structure)
    assert str(error.value) == (
        "f: out is a list of 2, but the function returns a dict with 'a', 'b'\n"
        "hint: pass arrays in the form in which they are returned"
    )
    with pytest.raises(ArgumentError) as error:
        output_arrays(graph, (first, second), flatten(1)[1])
    assert str(error.value) == (
        "f: out is a tuple of 2, but the function returns an array\nhint: pass arrays in the form in which they are returned"
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros((2, 3)),
         "f: 'out' has dtype float64, but the result is float32\n"
         "hint: pass an array of float32, or convert the result by x.astype(...) in the function"),
        (np.zeros((3, 2), np.float32), "f: 'out' has shape (3, 2), but the result has (2, 3)"),
        (np.zeros(2, np.float32), "f: 'out' has shape (2,), but the result has (2, 3)"),
        (3, "f: 'out' is int, not an array"),
    ],
)  # fmt: skip
def test_results_that_are_given_fit(given: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as error:
        output_arrays(trace(lambda a: a * 2, X), given, flatten(0)[1])
    assert message == str(error.value)


def test_a_call_with_too_few_elements() -> None:
    n, m = T.dynamic("n"), T.dynamic("m")
    x = define("x", (n, m), DType("float32"), Parameter(0))
    graph = Graph("f", (x,), (x,), required=(RequiredExtent(m, 2, "tnp.topk: too few", "take fewer", NOWHERE),))
    assert too_few_elements(graph, [np.zeros((0, 2), np.float32)]) is None
    assert too_few_elements(graph, [np.zeros(3, np.float32)]) is None  # another error is raised for it
    error = too_few_elements(graph, [np.zeros((3, 1), np.float32)])
    assert "tnp.topk: too few\nhint: take fewer" == str(error)
