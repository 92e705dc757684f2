from tilelang.isa.c_type import CType


def test_a_dtype_is_packed_if_its_values_have_another_type() -> None:
    assert CType("half_t", "float").is_packed
    assert not CType("float", "float").is_packed
