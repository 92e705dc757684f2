"""C++ types of dtypes."""

import pytest

from tilelang.dtypes import as_dtype
from tilelang.targets.cpu.codegen.cpp_dialect import CPP


@pytest.mark.parametrize(
    ("name", "storage", "value"),
    [
        ("bool", "bool", "bool"),
        ("int8", "int8_t", "int8_t"),
        ("uint64", "uint64_t", "uint64_t"),
        ("int4", "tl::int4", "int32_t"),
        ("float16", "tl::float16", "float"),
        ("bfloat16", "tl::bfloat16", "float"),
        ("tfloat32", "float", "float"),
        ("float64", "double", "double"),
        ("float16x2", "tl_vector<tl::float16, 2>", "tl_vector<tl::float16, 2>"),
    ],
)
def test_types_of_elements_and_of_values(name, storage, value):
    dtype = as_dtype(name)
    assert (storage, value) == (CPP.storage_type(dtype), CPP.value_type(dtype))


def test_packed_and_vector_dtypes_need_a_definition():
    assert CPP.c_type(as_dtype("int32")).helper is None
    assert ["tl_vector", "bfloat16"] == [h.name for h in CPP.c_type(as_dtype("bfloat16x4")).helper.needs]
