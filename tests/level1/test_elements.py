"""Tests for tilelang.level1.elements."""

import numpy as np
import pytest
from array_functions import traced

import tilelang.language as T
import tilelang.numpy as tnp
from tilelang.dtypes import DType
from tilelang.errors import ProgramValueError, StagingTypeError
from tilelang.ir.expr import as_expr
from tilelang.level1.elements import as_array, as_operand, broadcast_shapes, extents_of, read
from tilelang.level1.graph import Map
from tilelang.level1.values import Scalar


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(True, "bool"), (np.bool_(False), "bool"), (3, "int32"), (2**40, "int64"), (1.5, "float32"), (np.float64(2), "float32")],
)
def test_numbers_are_weak_scalars(value: object, dtype: str) -> None:
    operand = as_operand(value, "tnp.f")
    assert isinstance(operand, Scalar)
    assert (dtype, True) == (operand.dtype, operand.weak)


def test_symbolic_sizes_are_weak_scalars() -> None:
    assert ("int32", True) == (as_operand(T.dynamic("n"), "tnp.f").dtype, as_operand(T.dynamic("n"), "tnp.f").weak)


def test_what_is_no_operand() -> None:
    with pytest.raises(StagingTypeError) as error:
        as_operand([1, 2], "tnp.f")
    assert str(error.value) == (
        "tnp.f: list [1, 2] is neither an array of the computation nor a number\n"
        "hint: write tnp.stack([...]) to make one array of several"
    )
    with pytest.raises(StagingTypeError) as error:
        as_operand(None, "tnp.f")
    assert str(error.value) == "tnp.f: NoneType None is neither an array of the computation nor a number"


def test_shapes_are_broadcast() -> None:
    n = T.dynamic("n")
    shape = broadcast_shapes("tnp.f", extents_of(traced(4, 1)), (as_expr(1), n))
    assert (4, n) == (int(shape[0]), shape[1])  # type: ignore[call-overload]
    assert () == broadcast_shapes("tnp.f")


def test_symbols_are_equal_to_themselves_only() -> None:
    n, m = T.dynamic("n, m")
    broadcast_shapes("tnp.f", (n * 2,), (n + n,))
    with pytest.raises(ProgramValueError) as error:
        broadcast_shapes("tnp.f", (n,), (m,))
    assert str(error.value) == (
        "tnp.f: shapes (n,) and (m,) do not broadcast: axis -1 has the extents n and m\n"
        "hint: counted from the last, extents are equal or 1; x[:, None] adds one of 1"
    )


def test_dimensions_of_extent_1_are_read_at_0() -> None:
    i, j, k = (T.dynamic(name) for name in "ijk")
    assert "x[0, k]" == repr(read(traced(1, 5), (i, j, k)))


def test_arrays_are_called_after_what_is_assigned(calling_line: None) -> None:
    x = traced(3)
    total = x + 1
    assert "total" == total.node.name
    weights = tnp.softmax(x)
    assert ["weights_max", "weights_sum"] == [a.name for a in _reductions(weights.node)]
    assert "add" == (x + 1).node.name
    assert "test_elements.py" in total.node.loc.file


def _reductions(array: object) -> list[object]:
    found: dict[object, None] = {}
    stack = [array]
    while stack:
        node = stack.pop()
        stack += node.sources  # type: ignore[attr-defined]
        if node.name.endswith(("_max", "_sum")) and "Reduction" == type(node.definition).__name__:  # type: ignore[attr-defined]
            found[node] = None
    return sorted(found, key=lambda node: node.name)  # type: ignore[attr-defined]


def test_a_number_becomes_an_array() -> None:
    node = as_array(as_operand(2.5, "tnp.f")).node
    assert isinstance(node.definition, Map)
    assert ("float32", ()) == (node.dtype, node.shape)
    assert node.definition.body.dtype == DType("float32")
