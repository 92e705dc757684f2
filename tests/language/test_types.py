import pickle

import ml_dtypes
import numpy as np
import pytest

import tilelang.language as T
from tilelang.errors import OptionError, ProgramError, StagingError
from tilelang.ir.expr import Const, Var
from tilelang.ir.vector import packed_lanes
from tilelang.language import deprecation
from tilelang.language.dtypes import DTYPES, user_dtype
from tilelang.language.extents import shape_text
from tilelang.language.types import as_shape


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


def test_the_dtype_of_a_vector_called_packs_its_lanes() -> None:
    x, y = Var("x", T.float32), Var("y", T.float16)
    pair = T.float16x2(x, y)
    assert "float16x2" == pair.dtype
    assert ["T.float16(x)", "y"] == [str(part) for part in packed_lanes(pair)]
    assert [y] * 4 == list(packed_lanes(T.float16x4(y)))
    assert "float32x2" == T.float32x2(pair).dtype
    with pytest.raises(TypeError, match="T.float16x4: 2 values do not make float16x4"):
        T.float16x4(x, y)


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


def test_subscripts_are_extents_or_the_arguments_of_a_call() -> None:
    n = T.dynamic("n")
    kinds = {
        "(8, 16) float32": (T.Tensor[8, 16],),
        "(8,) float32": (T.Tensor[8], T.Tensor[(8,)], T.Tensor[[8]], T.Tensor[[8], "float32"]),
        "(n,) float32": (T.Tensor[n], T.Tensor[(n,)]),
        "(n, n * 2) float32": (T.Tensor[n, n * 2],),
        "(8, n) float16": (T.Tensor[[8, n], T.float16], T.Tensor[(8, n), np.float16], T.Tensor[(8, n), "half"]),
        "(n,) int32": (T.Tensor[n, T.int32], T.Tensor[n, int]),
    }
    for expected, found in kinds.items():
        assert [expected] * len(found) == [f"{shape_text(kind.shape)} {kind.dtype}" for kind in found]
    strided = T.StridedTensor[[8, n], [T.dyn["ld"], 1], T.float16]
    assert ("(8, n)", "(ld, 1)", "float16") == (shape_text(strided.shape), shape_text(strided.strides), strided.dtype)


def test_the_dtype_of_a_tensor_is_float32_where_nothing_is_said() -> None:
    assert ["float32"] * 3 == [T.Tensor((4,)).dtype, T.StridedTensor((4,), (1,)).dtype, T.Tensor[4].dtype]


def test_buffer_is_a_deprecated_name_with_older_arguments() -> None:
    deprecation._TOLD.clear()
    with pytest.warns(DeprecationWarning, match="T.Buffer is deprecated; write T.Tensor") as caught:
        kind = T.Buffer((4, 8), "float16", None, (16, 1), 0, "global", 64, 1, "", None)
        assert "T.Tensor((4,), 'float16')" == repr(T.Buffer[(4,), "float16"])
    assert [__file__] == [warning.filename for warning in caught]
    assert ("(16, 1)", "float16") == (shape_text(kind.strides), kind.dtype)
    with pytest.raises(ValueError, match="T.Buffer: a tensor begins at its first element, not at elem_offset=4"):
        T.Buffer((4,), elem_offset=4)


def test_strided_tensors_have_a_stride_per_extent() -> None:
    kind = T.StridedTensor((4, 8), (T.dyn["ld"], 1), "float16")
    assert kind.strides is not None
    assert 2 == len(kind.strides)
    with pytest.raises(ValueError, match="2 extents .* but 1 strides"):
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
    deprecation._TOLD.clear()
    with pytest.warns(DeprecationWarning, match="write T.dynamic") as caught:
        assert T.symbolic("K") is T.dynamic("K")
    assert __file__ == caught[0].filename


def test_an_extent_cannot_be_a_tile() -> None:
    with pytest.raises((ProgramError, StagingError), match="is not an extent"):
        as_shape((object(),), "T.Tensor")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [T.handle, T.void])
def test_handles_and_nothing_are_dtypes_without_values(kind: T.dtype) -> None:
    assert kind == T.dtype(str(kind)) and isinstance(kind, T.DataType)
    with pytest.raises(TypeError, match=f"T.{kind}: no value has the dtype {kind}"):
        kind(1)
    with pytest.raises(OptionError, match=f"T.Tensor: dtype: unknown name '{kind}'"):
        T.Tensor((4,), kind)


def test_sizes_of_dtypes_are_rounded_up_to_bytes() -> None:
    kinds = (T.float16, T.int4, T.float4_e2m1fn, T.float16x4, T.float4_e2m1_unpacked, T.float6_e2m3fn, T.bool, T.int4x2)
    assert [2, 1, 1, 8, 1, 1, 1, 1] == [kind.bytes for kind in kinds] == [kind.itemsize for kind in kinds]
    assert [16, 4, 4, 16, 8, 6, 8, 4] == [kind.bits for kind in kinds]
    assert [True, True, False] == [kind.is_float4() for kind in (T.float4_e2m1_unpacked, T.float4_e2m1fnx8, T.float16)]
    assert [False, True] == [T.float4_e2m1_unpacked.is_float4_e2m1fn(), T.float4_e2m1fnx2.is_float4_e2m1fn()]


def test_names_of_dtypes_reach_64_lanes() -> None:
    assert [2, 4, 8, 16, 32, 64] == [getattr(T, f"float8_e3m4x{lanes}").lanes for lanes in (2, 4, 8, 16, 32, 64)]


def test_what_is_no_dtype_is_a_value_error_or_a_type_error() -> None:
    with pytest.raises(ValueError, match="unknown name 'foo'"):
        T.dtype("foo")
    for other in (3, None, object()):
        with pytest.raises(TypeError, match="is not a dtype"):
            T.dtype(other)
