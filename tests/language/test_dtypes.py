import ml_dtypes
import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.language import dtypes


def test_every_dtype_of_the_language_is_a_name() -> None:
    assert T.float16 is dtypes.float16
    assert T.int8x4 is tilelang.dtypes.int8x4
    assert T.dtypes is dtypes
    assert {"float16", "bfloat16x2", "int4"} <= dtypes._all_dtypes


@pytest.mark.parametrize(
    ("value", "name"), [("half", "float16"), (float, "float32"), (int, "int32"), (np.int8, "int8"), (T.bool, "bool")]
)
def test_a_dtype_in_any_spelling_is_the_object(value: object, name: str) -> None:
    found = dtypes.get_tvm_dtype(value)
    assert getattr(T, name) is found
    assert isinstance(found, dtypes.dtype)


@pytest.mark.parametrize("value", [None, 3, "float17"])
def test_what_is_no_dtype_is_a_type_error(value: object) -> None:
    with pytest.raises(TypeError, match="dtype"):
        dtypes.get_tvm_dtype(value)


def test_floats_of_4_bits_are_known() -> None:
    assert [True, True, False] == [dtypes.is_float4(d) for d in ("float4_e2m1fn", "float4_e2m1fnx2", "float16")]
    assert dtypes.is_float4_e2m1fn(ml_dtypes.float4_e2m1fn)
    assert not dtypes.is_float4_e2m1_unpacked("float4_e2m1fn")


def test_torch_holds_dtypes_in_what_it_has() -> None:
    torch = pytest.importorskip("torch")
    names = ("float16", "int4", "tfloat32", "uint4")
    assert ["float16", "int8", "float32", "uint8"] == [dtypes.resolve_torch_storage_dtype(n) for n in names]
    packed = "float4_e2m1fnx2" if hasattr(torch, "float4_e2m1fn_x2") else "int8"
    assert packed == dtypes.resolve_torch_storage_dtype("float4_e2m1fn")
    assert "bfloat16" == dtypes._TORCH_DTYPE_TO_STR[torch.bfloat16]
