"""What dialects say of dtypes."""

import pytest

from tilelang.codegen.dialect import is_packed
from tilelang.dtypes import SCALARS, as_dtype
from tilelang.errors import NoLowering
from tilelang.isa.catalogue import INTRINSICS
from tilelang.targets.cpu.codegen.cpp_dialect import CPP


def test_packed_dtypes_are_those_whose_values_have_another_type_than_their_elements():
    packed = {d for d in SCALARS.values() if CPP.storage_type(d) != CPP.value_type(d)}
    assert packed == {d for d in SCALARS.values() if is_packed(d)}


def test_short_vectors_are_not_packed():
    assert not is_packed(as_dtype("float16x8"))


def test_a_dtype_without_text_is_an_error_that_names_both():
    assert "tl::exp({0})" == CPP.template(INTRINSICS["exp"], as_dtype("float32")).text
    with pytest.raises(NoLowering, match="T.exp: has no cpp form for int32"):
        CPP.template(INTRINSICS["exp"], as_dtype("int32"))
