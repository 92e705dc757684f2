"""Expressions as C++: what they compute is what `ir.scalar` says, and their text is readable."""

import numpy as np
import pytest
from cuda_host import needs_compiler, run_source, sequential_source
from elementwise import ARITHMETIC, EIGHT_BITS, FLOATS, INTEGERS, Elementwise, global_buffer, pairs
from harness import run_everywhere
from programs import index_var

from tilelang.codegen.c_expr import ExprPrinter, float_literal
from tilelang.codegen.names import Names
from tilelang.dtypes import BOOL, FLOAT32, INT32, as_dtype
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.expr import Call, Cast, Load, Reinterpret, Var, as_expr, binary, cast, const, select, unary
from tilelang.ir.func import PrimFunc, TensorParam
from tilelang.ir.scalar import BITWISE, COMPARISONS, INTEGER_ONLY, BinaryOp, UnaryOp
from tilelang.ir.stmt import Launch, ParallelLoop, Seq, Store
from tilelang.isa.catalogue import INTRINSICS
from tilelang.targets.cpu.codegen.cpp_dialect import CPP
from tilelang.targets.nvidia.codegen.cuda_dialect import CUDA


def integer_operators():
    kernel = Elementwise()
    for dtype in INTEGERS:
        low, high = as_dtype(dtype).limits
        values = [v for v in (low, low + 1, -7, -2, -1, 0, 1, 2, 3, 7, high // 2, high) if low <= v <= high]
        kernel.add(dtype, lambda a, b: [binary(op, a, b) for op in ARITHMETIC], *pairs(values, dtype))
    return kernel


def test_integer_operators_wrap_floor_and_never_trap():
    integer_operators().check()


@needs_compiler
def test_integer_operators_wrap_without_undefined_overflow(capfd):
    integer_operators().check_cuda()
    assert "" == capfd.readouterr().err


def test_float_operators_round_once_and_propagate_nan():
    kernel = Elementwise()
    operators = [op for op in ARITHMETIC if op not in INTEGER_ONLY | BITWISE]
    for dtype in (*FLOATS, *EIGHT_BITS):
        values = [0.0, -0.0, 1.0, -1.0, 1.5, -2.25, 0.1, 3.0, 7.7, 100.0, np.nan]
        values += [] if dtype in EIGHT_BITS else [np.inf, -np.inf, 1e4]
        kernel.add(dtype, lambda a, b: [binary(op, a, b) for op in operators], *pairs(values, dtype))
    kernel.check()


def test_casts_agree_with_numpy():
    kernel = Elementwise()
    for source in ("bool", "int8", "uint32", "int64", "float16", "bfloat16", "float32", "float64"):
        dtype = as_dtype(source)
        values = [0, 1, 2, 100, 127] if not dtype.is_bool else [0, 1]
        values += [-1, -3] if dtype.kind.value in ("int", "float") else []
        values += [0.1, -1.7, 65.5] if dtype.is_float else []
        x = np.array(values).astype(dtype.numpy)
        targets = [as_dtype(t) for t in (*INTEGERS, *FLOATS, *EIGHT_BITS, "bool", "int4", "tfloat32")]
        if dtype.is_float:  # a negative float has no unsigned value
            targets = [t for t in targets if t.kind.value != "uint"]
        kernel.add(source, lambda a, _, targets=targets: [cast(a, t) for t in targets], x, x)
    kernel.check()


def test_four_bit_integers_wrap():
    kernel = Elementwise()
    operators = [BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.MAX, BinaryOp.BITXOR]
    kernel.add("int4", lambda a, b: [binary(op, a, b) for op in operators], *pairs(list(range(-8, 8)), "int4"))
    kernel.check()


def unary_operators_selections_and_bits():
    values = np.array([-(2**31), -5, -1, 0, 1, 9, 2**31 - 1], np.int32)

    def make(a, b):
        return [
            unary(UnaryOp.NEG, a),
            unary(UnaryOp.INVERT, a),
            unary(UnaryOp.NOT, a > 0),
            select(a > b, a, const(3, INT32)),
            Reinterpret(a, FLOAT32),
            abs(Reinterpret(a, FLOAT32)),
            binary(BinaryOp.AND, a > 0, b < 0),
            binary(BinaryOp.OR, a > 0, b < 0),
            binary(BinaryOp.BITAND, a > 0, b < 0),
            a << 3,
            a >> 2,
        ]

    kernel = Elementwise()
    kernel.add("int32", make, values, values[::-1].copy())
    return kernel


def test_unary_operators_selections_and_bits():
    unary_operators_selections_and_bits().check()


def the_least_integer():
    kernel = Elementwise()
    x, y = pairs([0, 1, -1, 2**31 - 1, -(2**31)], "int32")
    low = const(-(2**31), INT32)
    kernel.add("int32", lambda a, b: [a + low < b, a * low > b, low - a == b, Reinterpret(low, as_dtype("uint32"))], x, y)
    return kernel


def test_the_least_integer_does_not_widen_what_it_meets():
    the_least_integer().check()


def wide_floats_and_casts():
    """Operators and casts of dtypes whose elements are numbers in both languages."""
    kernel = Elementwise()
    operators = [op for op in ARITHMETIC if op not in INTEGER_ONLY | BITWISE]
    for dtype in ("float32", "float64"):
        values = [0.0, -0.0, 1.0, -1.0, 1.5, -2.25, 0.1, 3.0, 7.7, 1e4, np.nan, np.inf, -np.inf]
        kernel.add(dtype, lambda a, b: [binary(op, a, b) for op in operators], *pairs(values, dtype))
    for source in ("bool", "int8", "uint16", "int32", "uint32", "int64", "float32", "float64"):
        x = np.array([0, 1, 1] if source == "bool" else [0, 1, 2, 100, 127]).astype(as_dtype(source).numpy)
        targets = [as_dtype(t) for t in (*INTEGERS, "float32", "float64", "bool", "int4", "tfloat32")]
        kernel.add(source, lambda a, _, targets=targets: [cast(a, t) for t in targets], x, x)
    return kernel


@needs_compiler
@pytest.mark.parametrize("make", [unary_operators_selections_and_bits, the_least_integer, wide_floats_and_casts])
def test_cuda_computes_the_same(make, capfd):
    make().check_cuda()
    assert "" == capfd.readouterr().err


@pytest.mark.parametrize(("source", "dtype"), [("int8", "uint8"), ("uint16", "float16"), ("int16", "bfloat16")])
def test_literals_of_narrow_integers_are_read_as_other_dtypes_of_their_width(source, dtype):
    kernel = Elementwise()
    x = np.array([1, 2], as_dtype(source).numpy)
    kernel.add(source, lambda a, _: [Reinterpret(const(100, as_dtype(source)), as_dtype(dtype))], x, x)
    kernel.check()


def test_common_intrinsics_have_a_text_that_agrees_with_their_meaning():
    names = ("exp", "exp2", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "floor", "isnan")
    kernel = Elementwise()
    for dtype in ("float32", "int32"):
        x = np.array([0.25, 0.5, 1.0, 2.0, 3.0]).astype(as_dtype(dtype).numpy)
        kernel.add(dtype, lambda a, _: [_call(INTRINSICS[name], a) for name in names], x, x)
    kernel.check(rtol=1e-6, atol=1e-6)


def test_intrinsics_on_a_narrow_float_round_once():
    kernel = Elementwise()
    x = np.array([0.25, 0.5, 1.0, 2.0, 3.0]).astype(as_dtype("bfloat16").numpy)
    kernel.add("bfloat16", lambda a, _: [_call(INTRINSICS[name], a) for name in ("exp", "log", "sqrt", "tanh")], x, x)
    kernel.check()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int4"])
def test_intrinsics_on_narrow_integers_wrap_before_they_are_used(dtype):
    kernel = Elementwise()
    x, y = pairs([*range(-8, 8)] if dtype == "int4" else [0, 1, 3, 100, 127], dtype)
    low = const(as_dtype(dtype).limits[0], as_dtype(dtype))
    kernel.add(dtype, lambda a, b: [_call(INTRINSICS["fma"], a, b, a) > b, _call(INTRINSICS["abs"], a + low) < b], x, y)
    kernel.check()


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32"])
def test_rounding_an_integer_leaves_no_trace(dtype):
    """In parentheses, a type around a type around a name would be the type of a function."""

    def rounded(a):
        return _call(INTRINSICS["abs"], _call(INTRINSICS["floor"], a))

    kernel = Elementwise()
    x, y = pairs([0, 1, 200], dtype)
    kernel.add(dtype, lambda a, b: [_call(INTRINSICS["fma"], rounded(a), rounded(b), a)], x, y)
    kernel.check()
    a = Var("a", as_dtype(dtype))
    assert "a" == printer(a).value(rounded(a))


def _call(callee, *args):
    return Call(callee, args, callee.result(tuple(a.dtype for a in args)))


@pytest.mark.parametrize("language", ["cpp", "cuda"])
def test_index_arithmetic_is_exact_and_wraps_only_where_it_meets_data(language, capfd):
    i = index_var("i")
    out = global_buffer("O", (4,), "int64")
    narrow = global_buffer("P", (4,), "int32")
    big = (i + 1) * 70000 * 70000
    body = Seq((Store(out, (i,), cast(big, as_dtype("int64"))), Store(narrow, (i,), cast(big // 3, INT32) + Load(narrow, (i,), INT32))))
    loop = ParallelLoop((i,), (as_expr(4),), body)
    launch = Launch((index_var("bx"),), (as_expr(1),), (1, 1, 1), loop)
    func = PrimFunc("exact", (TensorParam(out), TensorParam(narrow)), launch)
    arguments = [np.zeros(4, np.int64), np.ones(4, np.int32)]
    if language == "cpp":
        values = run_everywhere(func, *arguments, compile_flags="-O1")[0]
    else:
        run_source(func, sequential_source(func), arguments)
        values = arguments[0]
    assert "" == capfd.readouterr().err
    assert [4_900_000_000 * n for n in (1, 2, 3, 4)] == values.tolist()


def printer(*nodes):
    names = Names()
    for node in nodes:
        names.declare(node)
    return ExprPrinter(names, CPP)


def test_parentheses_stand_only_where_cpp_needs_them():
    i, j = index_var("i"), index_var("j")
    show = printer(i, j).index
    assert "(i + 1) * 4 + j" == show((i + 1) * 4 + j)
    assert "i - (j - 1)" == show(i - (j - 1))
    assert "-(i + j)" == show(-(i + j))
    assert "tl_floordiv<int64_t>(i, 3)" == show(i // 3)
    assert "(i + j) / 3" == show(binary(BinaryOp.TRUNCDIV, i + j, 3))
    assert "i < j && j < 5 || i == 0" == printer(i, j).condition(
        binary(BinaryOp.OR, binary(BinaryOp.AND, i < j, j < 5), binary(BinaryOp.EQ, i, 0))
    )


def test_offsets_use_the_strides_of_the_buffer():
    n, i, j = index_var("n"), index_var("i"), index_var("j")
    dense = Buffer("A", (as_expr(4), n, as_expr(8)), FLOAT32, Scope.GLOBAL)
    strided = Buffer("B", (as_expr(4), n), FLOAT32, Scope.GLOBAL, strides=(n, as_expr(2)))
    show = printer(dense, strided, n, i, j)
    assert "A[i * n * 8 + j * 8 + 3]" == show.element(dense, (i, j, as_expr(3)))
    assert "B[i * n + j * 2]" == show.element(strided, (i, j))
    assert "A[0]" == show.element(dense, (as_expr(0), as_expr(0), as_expr(0)))


def test_a_copy_within_a_packed_dtype_moves_bits():
    a = Buffer("A", (as_expr(4),), as_dtype("bfloat16"), Scope.GLOBAL)
    i = index_var("i")
    show = printer(a, i)
    assert "A[i]" == show.stored(Load(a, (i,), a.dtype), a.dtype)
    x = Var("x", FLOAT32)
    show.names.declare(x)
    assert "tl::bfloat16((float)(x))" == show.stored(cast(x, a.dtype), a.dtype)


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1.0, "float32", "1.0f"),
        (-0.0, "float32", "-0.0f"),
        (0.1, "float64", "0.1"),
        (1e-05, "float32", "1e-05f"),
        (float("inf"), "float32", "__builtin_inff()"),
        (float("-inf"), "float64", "-__builtin_inf()"),
        (float("nan"), "float32", '__builtin_nanf("")'),
        (1e300, "float32", "__builtin_inff()"),
        (-1e300, "bfloat16", "-__builtin_inff()"),
        (1e300, "float64", "1e+300"),
    ],
)
def test_float_literals(value, dtype, expected):
    assert expected == float_literal(value, CPP, as_dtype(dtype))[0]


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (5, "int32", "5"),
        (2**31, "uint32", "2147483648u"),
        (2**63, "uint64", "9223372036854775808ULL"),
        (-(2**63), "int64", "INT64_MIN"),
        (7, "int64", "7LL"),
    ],
)
def test_integer_literals(value, dtype, expected):
    assert expected == printer().value(Reinterpret(const(value, as_dtype(dtype)), as_dtype(dtype)))


def test_comparisons_give_truth_values():
    assert {BOOL} == {binary(op, Var("x", INT32), Var("y", INT32)).dtype for op in COMPARISONS}
    assert Cast(Var("x", INT32), BOOL).dtype.is_bool


def test_both_values_of_a_choice_are_computed_where_cuda_would_branch():
    held, far = Buffer("h", (as_expr(4),), FLOAT32, Scope.LOCAL), Buffer("F", (as_expr(4),), FLOAT32, Scope.GLOBAL)
    first, x, y = (Load(buffer, (as_expr(i),), FLOAT32) for buffer, i in ((held, 0), (held, 1), (far, 2)))
    zero, test = const(0.0, FLOAT32), binary(BinaryOp.LT, first, x)
    larger = binary(BinaryOp.MAX, x, const(1.0, FLOAT32))
    cases = {
        select(test, larger, zero): "tl_choose(h[0] < h[1], tl_max(h[1], 1.0f), 0.0f)",
        select(test, x, zero): "h[0] < h[1] ? h[1] : 0.0f",
        select(test, binary(BinaryOp.ADD, y, larger), zero): "h[0] < h[1] ? F[2] + tl_max(h[1], 1.0f) : 0.0f",
    }
    for expr, text in cases.items():
        names = Names()
        for buffer in (held, far):
            names.declare(buffer)
        assert text == ExprPrinter(names, CUDA).value(expr)


@pytest.mark.parametrize(
    ("last", "own", "scope", "text"),
    [
        (31, False, Scope.LOCAL, "tl_divide(h[i], t[0])"),
        (7, False, Scope.LOCAL, "h[i] / t[0]"),  # few
        (31, True, Scope.LOCAL, "h[i] / t[i]"),
        (31, False, Scope.GLOBAL, "h[i] / t[0]"),
    ],
)
def test_many_are_divided_by_one_without_branches(last, own, scope, text):
    held, total = Buffer("h", (as_expr(32),), FLOAT32, Scope.LOCAL), Buffer("t", (as_expr(32),), FLOAT32, scope)
    i = index_var("i")
    names = Names()
    for name in (held, total, i):
        names.declare(name)
    quotient = binary(BinaryOp.DIV, Load(held, (i,), FLOAT32), Load(total, (i if own else as_expr(0),), FLOAT32))
    for dialect, expected in ((CUDA, text), (CPP, text.replace("tl_divide(h[i], t[0])", "h[i] / t[0]"))):
        printer = ExprPrinter(names, dialect)
        printer.unrolled[i] = last
        assert expected == printer.value(quotient)
