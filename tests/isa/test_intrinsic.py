import pytest

from tilelang.dtypes import as_dtype
from tilelang.errors import NoLowering
from tilelang.isa.catalogue import INTRINSICS
from tilelang.isa.intrinsic import Helper, Spelling, ordered_helpers


def test_a_spelling_puts_operands_in_their_places():
    assert "f(b, a)" == Spelling("f({1}, {0})").of("a", "b")


def test_helpers_come_once_and_after_what_they_need():
    base = Helper("base", "")
    left, right = Helper("left", "", needs=(base,)), Helper("right", "", needs=(base,))
    assert ["base", "left", "right"] == [helper.name for helper in ordered_helpers([left, right, base, left])]


def test_a_dtype_without_text_is_an_error_that_names_both():
    with pytest.raises(NoLowering, match="T.exp: has no cpp form for int32"):
        INTRINSICS["exp"].spelling("cpp", as_dtype("int32"))
    with pytest.raises(NoLowering, match="T.exp: has no ptx form for float32"):
        INTRINSICS["exp"].spelling("ptx", as_dtype("float32"))
