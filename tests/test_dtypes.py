"""The dtype table: names, other spellings, facts, promotion."""

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.dtypes import ALIASES, SCALARS, DType, Kind, as_dtype, lane_dtype, promote, unknown_name
from tilelang.errors import OptionError

scalars = st.sampled_from(sorted(SCALARS)).map(as_dtype)


@pytest.mark.parametrize("name", SCALARS)
def test_a_dtype_is_its_name(name: str) -> None:
    dtype = as_dtype(name)
    assert name == dtype
    assert hash(name) == hash(dtype)
    assert {name: 1}[dtype] == 1
    assert repr(name) == repr(dtype)


@pytest.mark.parametrize("name", SCALARS)
def test_a_dtype_survives_copying_and_pickling(name: str) -> None:
    dtype = as_dtype(name)
    for twin in (copy.deepcopy(dtype), pickle.loads(pickle.dumps(dtype))):
        assert (dtype, dtype.kind, dtype.bits) == (twin, twin.kind, twin.bits)


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_an_alias_means_its_name(alias: str, name: str) -> None:
    assert name == as_dtype(alias)


@pytest.mark.parametrize("name", [name for name in SCALARS if name not in ("tfloat32", "float4_e2m1_unpacked")])
def test_the_numpy_dtype_of_a_row_means_the_row(name: str) -> None:
    storage = as_dtype(name).numpy
    assert name == as_dtype(storage)
    assert name == as_dtype(storage.type)


@pytest.mark.parametrize(("given_type", "name"), [(bool, "bool"), (int, "int32"), (float, "float32")])
def test_python_types_are_dtypes(given_type: type, name: str) -> None:
    assert name == as_dtype(given_type)


def test_torch_dtypes_are_dtypes_and_back() -> None:
    torch = pytest.importorskip("torch")
    for name in ("bool", "int8", "int64", "float16", "bfloat16", "float32", "float8_e4m3fn"):
        assert name == as_dtype(getattr(torch, name))
        assert getattr(torch, name) is as_dtype(name).as_torch()
    assert torch.float32 is as_dtype("tfloat32").as_torch()
    with pytest.raises(OptionError, match="dtype int4x3: torch .* has no such dtype"):
        as_dtype("int4x3").as_torch()


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(OptionError) as caught:
        as_dtype("flaot16")
    assert "dtype: unknown name 'flaot16'" == caught.value.message
    assert "did you mean 'float16'?" == caught.value.hint
    assert "" == unknown_name("target", "q", ["cpu"]).hint


@pytest.mark.parametrize("value", [None, object(), np.complex64, "float16x0", "nothingx4", "x4"])
def test_what_is_no_dtype_is_refused(value: object) -> None:
    with pytest.raises(OptionError, match="dtype: "):
        as_dtype(value)


def test_vectors_have_lanes() -> None:
    vector = as_dtype("float16x4")
    assert (4, 16, 8, Kind.FLOAT) == (vector.lanes, vector.bits, vector.storage_bytes, vector.kind)
    assert "float16" == lane_dtype(vector)
    assert "float16" == as_dtype("float16x1")
    assert "float16x2" == as_dtype("halfx2")
    assert "int32" == lane_dtype(as_dtype("int32"))


def test_calling_the_class_looks_a_dtype_up() -> None:
    assert as_dtype("float16") is DType("half")


@given(scalars)
def test_kinds_are_exclusive(dtype: DType) -> None:
    assert 1 == dtype.is_float + dtype.is_int + dtype.is_bool


def test_limits_are_the_extreme_finite_values() -> None:
    assert (0, 1) == as_dtype("bool").limits
    assert (-128, 127) == as_dtype("int8").limits
    assert (-8, 7) == as_dtype("int4").limits
    assert (0, 2**64 - 1) == as_dtype("uint64").limits
    assert (-65504.0, 65504.0) == as_dtype("float16").limits
    assert (-448.0, 448.0) == as_dtype("float8_e4m3fn").limits
    low, high = as_dtype("tfloat32").limits
    assert -low == high
    assert 0 == np.float32(high).view(np.uint32) & 0x1FFF  # the 13 bits that tf32 does not keep


@given(scalars)
def test_limits_fit_the_storage(dtype: DType) -> None:
    for limit in dtype.limits:
        assert limit == np.array(limit).astype(dtype.numpy).item()


@given(scalars, scalars)
def test_promotion_does_not_depend_on_the_order(a: DType, b: DType) -> None:
    assert promote(a, b) == promote(b, a)


@given(scalars)
def test_promotion_with_itself_changes_nothing(dtype: DType) -> None:
    assert dtype == promote(dtype, dtype)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("float16", "bfloat16", "float32"),
        ("float16", "float32", "float32"),
        ("int64", "float16", "float16"),
        ("int32", "uint32", "uint32"),
        ("int8", "int32", "int32"),
        ("bool", "int4", "int4"),
        ("bool", "float16", "float16"),
        ("float64", "float32", "float64"),
    ],
)
def test_promotion(a: str, b: str, expected: str) -> None:
    assert expected == promote(as_dtype(a), as_dtype(b))


def test_storage_of_narrow_dtypes_is_that_of_ml_dtypes() -> None:
    assert np.dtype(ml_dtypes.bfloat16) == as_dtype("bfloat16").numpy
    assert 1 == as_dtype("int4").storage_bytes
