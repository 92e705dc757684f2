import pickle

import ml_dtypes
import numpy as np
import pytest

import tilelang.language as T
from tilelang.errors import OptionError, ProgramError, StagingError
from tilelang.ir.expr import Const, Var
from tilelang.language.types import DTYPES, as_shape, user_dtype


@pytest.mark.parametrize("spelling", ["float16", "half", T.float16, np.float16, np.dtype("float16")])
def test_dtypes_in_every_spelling_are_one(spelling: object) -> None:
    assert T.float16 == T.Tensor((4,), spelling).dtype


def test_dtype_objects_behave_like_their_names() -> None:
    assert T.float16 == "float16"
    assert {T.bfloat16: 1}["bfloat16"] == 1
    assert np.dtype(getattr(ml_dtypes, T.bfloat16)) == T.bfloat16.numpy
    assert T.float16 == T.dtype("float16")
    assert T.int32 is user_dtype(int)


def test_dtype_objects_are_pickled_by_name() -> None:
    again = pickle.loads(pickle.dumps(T.float8_e4m3fn))
    assert T.float8_e4m3fn == again
    assert callable(again)


def test_every_family_has_its_names() -> None:
    for name in ("bool", "int4", "uint64", "tfloat32", "float8_e5m2", "float4_e2m1fn", "float16x2", "int8x4", "float"):
        assert DTYPES[name] == getattr(T, name)


def test_a_dtype_called_on_a_number_is_a_constant_of_it() -> None:
    value = T.float16(0.1)
    assert isinstance(value, Const)
    assert (float(np.float16(0.1)), "float16", False) == (value.value, value.dtype, value.weak)
    assert -1 == T.int8(255).value  # type: ignore[attr-defined]


def test_a_dtype_called_on_text_is_an_infinity_or_nan() -> None:
    assert float("-inf") == T.float32("-inf").value  # type: ignore[attr-defined]
    with pytest.raises(ProgramError, match="'five' is not a number"):
        T.float32("five")
    with pytest.raises(ProgramError, match="'inf' is not a number"):
        T.int32("inf")


def test_a_dtype_called_on_an_expression_converts_it() -> None:
    assert "float32" == T.float32(Var("x", T.int8)).dtype


def test_a_dtype_called_without_a_value_is_an_unnamed_variable() -> None:
    value = T.int32()
    assert isinstance(value, Var)
    assert value.is_index


def test_lanes_cannot_be_converted() -> None:
    with pytest.raises(ProgramError, match="they differ in lanes"):
        T.float32(Var("x", T.dtype("float16x2")))


def test_unknown_dtypes_name_the_construct_and_the_nearest_name() -> None:
    with pytest.raises(OptionError) as caught:
        T.Tensor((4,), "float17")
    assert "T.Tensor: dtype: unknown name 'float17'" == caught.value.message
    assert "did you mean 'float16'?" == caught.value.hint


def test_shapes_in_every_spelling() -> None:
    n = T.dynamic("n")
    for shape in ((4, n), [4, n]):
        assert ["4", "n"] == [str(getattr(e, "value", getattr(e, "name", ""))) for e in T.Tensor(shape, "int8").shape]
    assert 1 == len(T.Tensor(4, "int8").shape)
    assert 1 == len(T.Tensor(n, "int8").shape)
    assert () == T.Tensor((), "int8").shape
    assert T.Tensor is T.Buffer
    assert "T.Tensor((4, n), 'int8')" == repr(T.Tensor[(4, n), "int8"])


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((3, -1), "T.Tensor: extent -1 is negative"),
        ((3, 2.5), "T.Tensor: extent 2.5 is a float32, not an integer"),
        (("M",), "T.Tensor: 'M' is not an extent"),
        (None, "T.Tensor: None is not an extent"),
        (([1],), "T.Tensor: [1] is not an extent"),
    ],
)
def test_bad_extents(shape: object, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        T.Tensor(shape, "int8")  # type: ignore[arg-type]
    assert message == caught.value.message


def test_strided_tensors_have_a_stride_per_extent() -> None:
    kind = T.StridedTensor((4, 8), (T.dyn["ld"], 1), "float16")
    assert kind.strides is not None
    assert 2 == len(kind.strides)
    with pytest.raises(ProgramError, match="2 extents .* but 1 strides"):
        T.StridedTensor((4, 8), (1,), "float16")


def test_pointers_name_what_they_point_to() -> None:
    assert "float32" == T.ptr(T.float32).dtype


def test_one_name_is_one_dimension() -> None:
    assert T.dyn["K"] is T.dynamic("K")
    assert T.dynamic("K", "int64") is not T.dynamic("K")
    assert [T.dyn["M"].name, T.dyn["N"].name] == [dim.name for dim in T.dynamic("M, N")]
    assert T.dyn["K"].is_index


def test_bad_dimensions() -> None:
    with pytest.raises(ProgramError, match="'2x' is not a name"):
        T.dynamic("2x")
    with pytest.raises(ProgramError, match="a dimension has an integer dtype, not float32"):
        T.dynamic("x", "float32")


def test_symbolic_is_deprecated() -> None:
    with pytest.warns(DeprecationWarning, match="write T.dynamic") as caught:
        assert T.symbolic("K") is T.dynamic("K")
    assert __file__ == caught[0].filename


def test_variables_are_their_own() -> None:
    assert T.Var("i") is not T.Var("i")
    assert "int64" == T.Var("i", "int64").dtype


def test_an_extent_cannot_be_a_tile() -> None:
    with pytest.raises((ProgramError, StagingError), match="is not an extent"):
        as_shape((object(),), "T.Tensor")  # type: ignore[arg-type]
