import pytest

from tilelang.dtypes import as_dtype
from tilelang.errors import NoLowering
from tilelang.isa.intrinsic import Helper, ordered_helpers
from tilelang.targets.nvidia.isa.access import SIZES, access, as_bits, as_value

MOVER = Helper("move", "void move();\n")


def named(helper):
    return [each.name for each in ordered_helpers([helper])]


@pytest.mark.parametrize(
    ("name", "kind", "operands"),
    [
        ("uint8", "u8", "%3"),
        ("bfloat16", "u16", "%3"),
        ("float32", "u32", "%3"),
        ("float64", "v2.u32", "{%3, %4}"),
        ("float16x8", "v4.u32", "{%3, %4, %5, %6}"),
    ],
)
def test_a_value_is_moved_in_one_access_of_its_size(name, kind, operands):
    how = access(as_dtype(name), "ld")
    assert (as_dtype(name).storage_bytes, kind, operands) == (how.size, how.kind, how.operands(3))
    assert len(how.registers) == how.outputs.count("=") == how.inputs.count('"') // 2


def test_a_byte_moves_through_a_register_of_16_bits():
    how = access(as_dtype("int8"), "ld")
    assert ("uint16_t", '"=h"(value)', '"h"((uint16_t)value)', "(uint8_t)value") == (
        how.variable, how.outputs, how.inputs, how.result,
    )  # fmt: skip


def test_other_sizes_are_refused_with_the_instruction_and_the_dtype():
    with pytest.raises(NoLowering, match="ld: no access of 32 bytes, which float32x8 has"):
        access(as_dtype("float32x8"), "ld", SIZES)
    with pytest.raises(NoLowering, match="st.async: no access of 2 bytes, which float16 has"):
        access(as_dtype("float16"), "st.async", (4, 8, 16))


def test_an_element_is_made_of_bits_and_a_vector_is_bits():
    text, helper = as_value(as_dtype("float32"), "move()", MOVER)
    assert "(float)tl_bits<float>(move())" == text
    assert ["move", "tl_bits"] == [name for name in named(helper) if name in ("move", "tl_bits")]
    assert ("move()", MOVER) == as_value(as_dtype("float32x4"), "move()", MOVER)


def test_bits_are_made_of_an_element_and_a_vector_is_bits():
    text, helper = as_bits(as_dtype("float32"), "{1}", MOVER)
    assert "tl_bits<uint32_t>(float({1}))" == text
    assert {"move", "tl_bits"} <= set(named(helper))
    assert ("{1}", MOVER) == as_bits(as_dtype("float32x4"), "{1}", MOVER)
