import pytest

from tilelang.dtypes import as_dtype
from tilelang.errors import ProgramError
from tilelang.isa.catalogue import INTRINSICS


def test_bits_are_counted_in_the_unsigned_dtype():
    count = INTRINSICS["popcount"]
    expected = {"int4": "uint4", "int8": "uint8", "uint16": "uint16", "int64": "uint64", "bool": "uint8"}
    assert expected == {name: str(count.compute((as_dtype(name),))) for name in expected}
    assert "int32" == count.result((as_dtype("int64"),))


def test_counting_bits_of_a_float_is_refused_with_a_hint():
    with pytest.raises(ProgramError) as caught:
        INTRINSICS["clz"].compute((as_dtype("float32"),))
    assert "counting bits: needs an integer, got float32" == caught.value.message
    assert "write T.reinterpret(x, 'uint32')" == caught.value.hint


def test_packed_products_are_unsigned_only_when_both_operands_are():
    def result(*names):
        return INTRINSICS["dp4a"].result(tuple(as_dtype(name) for name in names))

    assert ("uint32", "int32", "int32") == (
        result("uint32", "uint32", "uint32"),
        result("int32", "uint32", "int32"),
        result("int32", "int32", "int32"),
    )
    with pytest.raises(ProgramError, match="T.dp4a: needs 32-bit integers"):
        result("int64", "int64", "int64")
