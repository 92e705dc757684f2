import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilelang.language as T
from tilelang.dtypes import INT32
from tilelang.errors import ProgramError, ProgramTypeError
from tilelang.ir.expr import Binary, Call, Cast, Const, Expr, Reinterpret, Select, Var
from tilelang.isa.catalogue import INTRINSICS
from tilelang.language.math import FUNCTIONS, apply
from tilelang.language.proxy import BufferProxy

Tensor = Callable[..., BufferProxy]
i = Var("i", INT32, index=True)
x16 = Var("x", T.float16)
x32 = Var("x", T.float32)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_intrinsic_is_a_function_of_the_language(name: str) -> None:
    callee = INTRINSICS[name]
    operand = Var("x", T.int32 if name in ("popcount", "clz") else T.float32)
    call = getattr(T, name)(*[operand] * callee.arity)
    assert isinstance(call, Call)
    assert callee is call.callee
    assert FUNCTIONS[name].__doc__


@pytest.mark.parametrize("name", sorted(name for name in FUNCTIONS if name.startswith("__")))
def test_a_fast_function_names_what_it_is_a_variant_of(name: str) -> None:
    with pytest.raises(ProgramTypeError) as raised:
        getattr(T, name)(*[i] * INTRINSICS[name].arity)
    exact = raised.value.hint.removeprefix("write ")
    assert "x / y" == exact or hasattr(T, exact.removeprefix("T."))
    assert f"The fast variant of `{exact}`" in str(FUNCTIONS[name].__doc__)


def test_constants_fold_in_their_dtype() -> None:
    value = T.sqrt(T.float32(128))
    assert isinstance(value, Const)
    assert (float(np.sqrt(np.float32(128))), "float32") == (value.value, value.dtype)
    half = T.exp(T.float16(1))
    assert (float(np.float16(np.exp(np.float32(1)))), "float16") == (half.value, half.dtype)
    assert T.isnan(T.float32("nan")).value is True


def test_python_numbers_stay_python_numbers_in_double_precision() -> None:
    assert math.log2(math.e) == pytest.approx(T.log2(math.e), rel=1e-15)
    assert isinstance(T.exp(1), float)
    assert (3, 2.0, 64) == (T.abs(-3), T.floor(2.5), T.popcount(-1) * 2)


def test_literals_take_the_dtype_of_their_partners() -> None:
    assert "float16" == T.pow(x16, 2).dtype
    assert "float16" == T.fma(x16, 0.5, 1).dtype
    assert "float32" == T.pow(i, 0.5).dtype


def test_intrinsics_check_their_operands(tensor: Tensor) -> None:
    with pytest.raises(ProgramError, match="T.exp: takes 1 operand, got 2"):
        T.exp(x32, x32)
    assert "float16x2" == T.exp(Var("v", T.float16x2)).dtype
    assert isinstance(T.exp(tensor("s", ())), Call)
    assert isinstance(apply(INTRINSICS["exp"], x32), Call)


def test_max_and_min_take_any_number_of_operands() -> None:
    assert (3, 1) == (T.max(1, 3, 2), T.min(1, 3, 2))
    assert isinstance(T.max(x32, 0), Binary)
    assert "float16" == T.max(x16, 0, 1.5).dtype
    with pytest.raises(ProgramError, match="T.max: takes at least two operands, got 1"):
        T.max(1)


def test_nan_wins_in_max_min_and_clamp() -> None:
    nan = float("nan")
    assert all(math.isnan(v) for v in (T.max(nan, 1.0), T.min(1.0, nan), T.clamp(nan, 0.0, 1.0)))
    assert math.isnan(T.max(T.float32(nan), T.float32(1)).value)
    assert math.isnan(T.clamp(T.float32(nan), 0, 1).value)


def test_clamp_holds_between_bounds() -> None:
    assert [0, 5, 9] == [T.clamp(v, 0, 9) for v in (-3, 5, 12)]
    assert isinstance(T.clamp(x32, 0, 1), Binary)


def test_choices() -> None:
    assert isinstance(T.if_then_else(i < 3, x32, 0), Select)
    assert T.if_then_else(True, x32, 0) is x32
    assert 2 == T.Select(1 > 2, 1, 2)


def test_casts_in_both_orders() -> None:
    for made in (T.cast(x32, "float16"), T.cast("float16", x32), T.Cast(T.float16, x32), T.Cast(x32, np.float16)):
        assert isinstance(made, Cast)
        assert "float16" == made.dtype
    assert 3 == T.cast(3.7, "int32").value  # type: ignore[attr-defined]
    assert -128 == T.cast(128, "int8").value  # type: ignore[attr-defined]


def test_reinterpret_needs_equal_widths() -> None:
    for made in (T.reinterpret(x32, "uint32"), T.reinterpret("uint32", x32)):
        assert isinstance(made, Reinterpret)
    assert T.reinterpret(x32, "float32") is x32
    with pytest.raises(ProgramError, match="T.reinterpret: float32 has 32 bits, uint16 has 16"):
        T.reinterpret(x32, "uint16")


def test_limits() -> None:
    assert float("inf") == T.infinity("float16").value  # type: ignore[attr-defined]
    assert float("-inf") == (-T.infinity("float32")).value  # type: ignore[attr-defined]
    assert (127, -128) == (T.max_value("int8").value, T.min_value("int8").value)  # type: ignore[attr-defined]
    assert 65504.0 == T.max_value(T.float16).value  # type: ignore[attr-defined]
    for dtype in ("int32", "float8_e4m3fn"):
        with pytest.raises(ProgramError, match=f"T.infinity: {dtype} has no infinity"):
            T.infinity(dtype)


@given(st.integers(-50, 50), st.integers(-9, 9).filter(bool))
def test_integer_divisions_on_python_ints(a: int, b: int) -> None:
    assert (a // b, a % b) == (T.floordiv(a, b), T.floormod(a, b))
    assert (int(a / b), int(math.fmod(a, b))) == (T.truncdiv(a, b), T.truncmod(a, b))


@given(st.integers(0, 1000), st.integers(1, 50))
def test_ceildiv_rounds_up(a: int, b: int) -> None:
    assert math.ceil(a / b) == T.ceildiv(a, b)


@pytest.mark.parametrize("function", [T.ceildiv, T.floordiv, T.floormod, T.truncdiv, T.truncmod])
def test_dividing_by_zero_is_told_at_once(function: Callable[[object, int], object]) -> None:
    with pytest.raises(ProgramError, match=f"T.{function.__name__}: division by zero"):
        function(i, 0)


def test_integer_functions_on_expressions_stay_index_arithmetic() -> None:
    for made in (T.ceildiv(i, 32), T.floordiv(i, 2), T.floormod(i, 2), T.truncdiv(i, 2), T.shift_left(i, 1)):
        assert isinstance(made, Expr)
        assert made.is_index


def test_bits() -> None:
    assert (8, 4, 2, 7, 5, -3) == (
        T.shift_left(1, 3), T.shift_right(8, 1), T.bitwise_and(6, 3), T.bitwise_or(6, 3), T.bitwise_xor(6, 3),
        T.bitwise_not(2),
    )  # fmt: skip
    assert isinstance(T.bitwise_and(i, 3), Binary)
    assert isinstance(T.bitwise_not(i), Expr)


def test_powers_with_constant_exponents_are_products() -> None:
    assert isinstance(x32**3, Binary)
    assert (8.0, 1.0, 0.25) == tuple((T.float32(2) ** n).value for n in (3, 0, -2))  # type: ignore[attr-defined]
    with pytest.raises(ProgramError, match="the exponent must be a constant integer"):
        x32**0.5  # type: ignore[operator]
    with pytest.raises(ProgramError, match="an integer to the power -1 is no integer"):
        i**-1


def test_operands_have_the_names_that_programs_give() -> None:
    assert (7, 3) == (T.max(a=3, b=7), T.min(3, b=7, span=None))
    assert (3, 1) == (T.floordiv(a=7, b=2, span=None), T.floormod(a=7, b=2))
    assert (4, 4) == (T.ceildiv(lhs=7, rhs=2, span=None), T.cdiv(lhs=7, rhs=2))
    assert (28, 3, 2, 7, 5) == (
        T.shift_left(x=7, y=2), T.shift_right(x=7, y=1), T.bitwise_and(x=3, y=6), T.bitwise_or(x=3, y=6),
        T.bitwise_xor(x=3, y=6, span=None),
    )  # fmt: skip
    assert (1, 2, -8) == (T.if_then_else(cond=True, t=1, f=2), T.Select(condition=False, true_value=1, false_value=2),
                          T.bitwise_not(x=7))  # fmt: skip
    assert "float32" == T.if_then_else(i > 0, x32, 0.0, dtype="float32").dtype
    assert "int32" == T.shift_left(i, 2, dtype="int32").dtype
    for wrong in (
        lambda: T.if_then_else(i > 0, x32, 0.0, dtype="float16"), lambda: T.shift_left(i, 2, dtype="int64"),
        lambda: T.log2(x32, dtype="float16"), lambda: T.ceil(x32, dtype="int32"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="dtype=(float16|int64|int32), but the value is"):
            wrong()
    with pytest.raises(TypeError, match="unexpected keyword argument 'c'"):
        T.max(1, 2, c=3)
