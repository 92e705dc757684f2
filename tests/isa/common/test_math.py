import numpy as np

from tilelang.dtypes import as_dtype
from tilelang.isa.catalogue import INTRINSICS


def dtypes(*names):
    return tuple(as_dtype(name) for name in names)


def test_floats_narrower_than_32_bits_are_computed_in_float32():
    compute = INTRINSICS["tanh"].compute
    assert ["float32"] * 3 == [compute(dtypes(name)) for name in ("float16", "bfloat16", "float8_e5m2")]
    assert "float64" == compute(dtypes("float64"))


def test_the_wider_operand_decides():
    power = INTRINSICS["pow"]
    assert "float64" == power.compute(dtypes("float32", "float64"))
    assert "float16" == power.result(dtypes("float16", "int32"))
    assert "float32" == power.result(dtypes("float16", "bfloat16"))


def test_rounding_and_magnitude_leave_integers_integers():
    for name in ("floor", "ceil", "trunc", "round", "abs"):
        record = INTRINSICS[name]
        assert ("int32", "int32") == (record.result(dtypes("int32")), record.compute(dtypes("int32")))
        assert np.int32 == np.asarray(record.meaning(np.int32(3))).dtype


def test_round_is_half_to_even():
    assert [0.0, 2.0, 2.0, -0.0, -2.0] == INTRINSICS["round"].meaning(np.float32([0.5, 1.5, 2.5, -0.5, -1.5])).tolist()


def test_classification_functions_return_bool():
    assert ["bool"] * 3 == [INTRINSICS[name].result(dtypes("float16")) for name in ("isnan", "isinf", "isfinite")]
    assert not INTRINSICS["isnan"].meaning(np.float32(3))
