import inspect

import pytest

from tilelang.dtypes import SCALARS, as_dtype
from tilelang.errors import ProgramError
from tilelang.isa.catalogue import INTRINSICS
from tilelang.isa.common.bits import BITS
from tilelang.isa.common.math import MATH


def test_names_are_unique_keys():
    assert len(MATH) + len(BITS) == len(INTRINSICS)
    assert all(name == record.name for name, record in INTRINSICS.items())


@pytest.mark.parametrize("name", list(INTRINSICS))
def test_results_are_scalars(name):
    record = INTRINSICS[name]
    for dtype in SCALARS.values():
        operands = (dtype,) * record.arity
        try:
            record.compute(operands)
        except ProgramError:
            continue
        assert record.result(operands) in SCALARS.values()


@pytest.mark.parametrize("name", list(INTRINSICS))
def test_each_meaning_takes_as_many_operands_as_the_intrinsic(name):
    record = INTRINSICS[name]
    try:
        signature = inspect.signature(record.meaning)
    except ValueError:
        return  # a NumPy function that hides its parameters
    signature.bind(*range(record.arity))


def test_fast_variants_have_an_accurate_counterpart():
    fast = [name.removeprefix("__") for name in INTRINSICS if name.startswith("__") and name != "__fdividef"]
    assert [] == [name for name in fast if name not in INTRINSICS]


def test_results_keep_narrow_floats_and_turn_integers_into_float32():
    exp = INTRINSICS["exp"]
    expected = {"float16": "float16", "bfloat16": "bfloat16", "float64": "float64", "int32": "float32", "bool": "float32"}
    assert expected == {name: str(exp.result((as_dtype(name),))) for name in expected}
