import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.language import operator_classes

# of a = -7 and b = 2
OPERATORS = {
    "Add": -5,
    "Sub": -9,
    "Mul": -14,
    "Div": -3,
    "Mod": -1,
    "FloorDiv": -4,
    "FloorMod": 1,
    "Min": -7,
    "Max": 2,
    "EQ": 0,
    "NE": 1,
    "LT": 1,
    "LE": 1,
    "GT": 0,
    "GE": 0,
    "And": 1,
    "Or": 1,
}


def test_each_class_makes_its_expression_and_knows_it() -> None:
    names = list(OPERATORS)
    a, b = T.Var("a", "int32"), T.Var("b", "int32")
    made = {name: getattr(T, name)(a, b) for name in names if name not in ("And", "Or")}
    made |= {name: getattr(T, name)(a > b, a < b) for name in ("And", "Or")}
    for name, expr in made.items():
        assert [name] == [other for other in names if isinstance(expr, getattr(T, other))]
    assert isinstance(T.Not(a > b), T.Not) or isinstance(T.Not(a > b), T.LE)
    assert not isinstance(3, T.Add)

    @T.prim_func
    def main(A: T.Tensor((2,), "int32"), B: T.Tensor((len(names),), "int32")):
        with T.Kernel(1, threads=32):
            for i, name in enumerate(names):
                B[i] = T.cast(getattr(T, name)(A[0], A[1]), "int32")

    result = np.zeros(len(names), np.int32)
    tilelang.compile(main, target="cpu", execution_backend="reference")(np.array([-7, 2], np.int32), result)
    assert list(OPERATORS.values()) == result.tolist()


def test_division_of_floats_keeps_the_fraction() -> None:
    assert isinstance(T.Div(T.Var("x", "float32"), 2.0), T.Div)
    assert 3.5 == T.Div(T.FloatImm("float32", 7), T.FloatImm("float32", 2)).value


def test_literals_have_their_dtype_and_value() -> None:
    number, fraction = T.IntImm("uint8", 300), T.FloatImm("float16", 0.1)
    assert ("uint8", 44) == (number.dtype, number.value)
    assert ("float16", float(np.float16(0.1))) == (fraction.dtype, fraction.value)
    assert [True, False, True] == [isinstance(v, T.IntImm) for v in (number, fraction, T.IntImm("bool", 1))]
    assert isinstance(fraction, T.FloatImm)
    assert "text" == T.StringImm("text") == T.StringImm("text").value
    assert isinstance(T.StringImm("text"), T.StringImm)


def test_wrong_dtypes_and_arguments_are_told() -> None:
    with pytest.raises(TypeError, match="T.IntImm: float32 has no integers"):
        T.IntImm("float32", 1)
    with pytest.raises(TypeError, match="T.FloatImm: int32 has no fractions"):
        T.FloatImm("int32", 1)
    with pytest.raises(tilelang.StagingError, match="T.Add"):
        T.Add(1)
    assert set(operator_classes.__all__) <= set(T.__all__)
