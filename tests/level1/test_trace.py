"""Tests for tilelang.level1.trace."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilelang.language as T
import tilelang.numpy as tnp
from tilelang.dtypes import DType
from tilelang.errors import Loc, StagingError, StagingTypeError
from tilelang.ir.expr import as_expr
from tilelang.level1.graph import Graph
from tilelang.level1.structure import Structure
from tilelang.level1.trace import ParameterSpec, is_tracing, require_elements, trace

PLACE = Loc("traced.py", 3)


def traced(function: Callable[..., Any]) -> tuple[Graph, Structure]:
    declared = [ParameterSpec(name, (as_expr(4),), DType("float16")) for name in ("x", "y")]
    return trace("f", PLACE, declared, lambda arrays: function(*arrays))


def test_the_graph_has_all_parameters_in_order() -> None:
    graph, structure = traced(lambda x, y: {"a": y * 2, "b": (x, tnp.arange(3))})
    assert ["x", "y"] == [array.name for array in graph.parameters]
    assert ["result['a']", "result['b'][0]", "result['b'][1]"] == structure.paths("result")
    assert graph.parameters[0] is graph.results[1]
    assert PLACE == graph.loc


def test_numbers_of_the_computation_are_arrays() -> None:
    graph, _ = traced(lambda x, y: tnp.exp(1.0))
    assert () == graph.results[0].shape


def test_what_reductions_require_of_sizes() -> None:
    n, m = T.dynamic("n"), T.dynamic("m")
    declared = [ParameterSpec("x", (n, m), DType("float16"))]
    graph, _ = trace("f", PLACE, declared, lambda arrays: tnp.max(arrays[0], axis=1) + tnp.sum(arrays[0], axis=1))
    assert [(True, 1)] == [(each.extent is m, each.least) for each in graph.required]
    assert __file__ == graph.required[0].loc.file
    require_elements(m, 1, "too few")  # nothing is traced
    assert () == traced(lambda x, y: tnp.max(x))[0].required


def test_tracing_ends_with_the_function() -> None:
    seen = []
    traced(lambda x, y: (seen.append(is_tracing()), x)[1])
    assert ([True], False) == (seen, is_tracing())
    with pytest.raises(ZeroDivisionError):
        traced(lambda x, y: 1 // 0)
    assert not is_tracing()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, y: 3, "f: result is int 3, not an array"),
        (lambda x, y: (x, [None]), "f: result[1][0] is NoneType None, not an array"),
    ],
)
def test_results_that_are_no_arrays(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(StagingTypeError) as error:
        traced(function)
    assert str(error.value) == (
        f"{message}\n --> traced.py:3:1\nhint: return an array, or a tuple, list or dict of arrays"
    )


def test_no_results() -> None:
    with pytest.raises(StagingTypeError) as error:
        traced(lambda x, y: ())
    assert str(error.value) == "f: returns no array\n --> traced.py:3:1\nhint: return what the function computes"


def test_functions_of_numpy() -> None:
    with pytest.raises(StagingError) as error:
        traced(lambda x, y: np.exp(x))
    assert error.value.message == "a function of numpy is given an array of the computation, which has no values yet"
    assert error.value.hint == "write tnp.exp(x) in place of numpy.exp(x), and likewise for other functions"
    assert error.value.loc is not None
    assert __file__ == error.value.loc.file


def test_functions_of_torch() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(StagingError) as error:
        traced(lambda x, y: torch.exp(x))
    assert error.value.message == "a function of torch is given an array of the computation, which has no values yet"
