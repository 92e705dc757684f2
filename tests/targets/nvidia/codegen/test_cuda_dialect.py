"""The words of CUDA, and what they say in expressions of every dtype."""

import re

import pytest
from device_text import compile_cuda, needs_cuda_compiler
from thread_kernels import buffer

from tilelang.codegen.c_expr import ExprPrinter, float_literal
from tilelang.codegen.dialect import is_packed
from tilelang.codegen.names import Names, identifier
from tilelang.dtypes import SCALARS, as_dtype
from tilelang.errors import CompilerBug
from tilelang.ir.expr import Call, Cast, Const, Load, Reinterpret, Var, as_expr, binary, cast, const
from tilelang.ir.scalar import COMPARISONS, INTEGER_ONLY, LOGICAL, BinaryOp
from tilelang.isa.catalogue import INTRINSICS
from tilelang.isa.intrinsic import ordered_helpers
from tilelang.targets.nvidia.codegen.cuda_dialect import CUDA, RESERVED

ZERO = as_expr(0)


@pytest.mark.parametrize(
    ("name", "storage", "value"),
    [
        ("int32", "int32_t", "int32_t"),
        ("float16", "half_t", "float"),
        ("tfloat32", "float", "float"),
        ("int4", "int4_t", "int32_t"),
        ("float16x2", "uint32_t", "uint32_t"),
        ("float16x8", "uint4", "uint4"),
        ("int8x2", "uint16_t", "uint16_t"),
    ],
)
def test_types_of_elements_and_of_values(name, storage, value):
    dtype = as_dtype(name)
    assert (storage, value) == (CUDA.storage_type(dtype), CUDA.value_type(dtype))


def test_packed_dtypes_are_the_same_in_all_languages():
    assert {d for d in SCALARS.values() if CUDA.storage_type(d) != CUDA.value_type(d)} == {d for d in SCALARS.values() if is_packed(d)}


def test_packed_dtypes_need_a_definition():
    assert CUDA.c_type(as_dtype("float32")).helper is None
    assert "half_t" == CUDA.c_type(as_dtype("float16")).helper.name


def printer(*nodes):
    names = Names(RESERVED)
    for node in nodes:
        names.declare(node)
    return ExprPrinter(names, CUDA)


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1.0, "float16", "1.0f"),
        (float("inf"), "float32", "__int_as_float(0x7f800000)"),
        (float("-inf"), "float64", "-__longlong_as_double(0x7ff0000000000000LL)"),
        (float("nan"), "bfloat16", "__int_as_float(0x7fc00000)"),
    ],
)
def test_float_literals(value, dtype, expected):
    assert expected == float_literal(value, CUDA, as_dtype(dtype))[0]


def test_signed_sums_and_products_are_computed_in_unsigned_types():
    a, b = (Var(name, as_dtype("int32")) for name in "ab")
    narrow, small = Var("n", as_dtype("int8")), Var("s", as_dtype("uint16"))
    wide = Var("w", as_dtype("int64"))
    show = printer(a, b, narrow, small, wide).value
    assert "int32_t(uint32_t(a) + uint32_t(b) * 3u)" == show(a + b * 3)
    assert "int32_t(-uint32_t(a))" == show(-a)
    assert "int32_t(uint32_t(a) << 4)" == show(a << 4)
    assert "int64_t(uint64_t(w) - 1ULL)" == show(wide - 1)
    assert "int8_t(n + 1)" == show(narrow + 1)
    assert "uint16_t(uint32_t(s) * s)" == show(small * small)
    assert "a < b" == show(a < b)


def test_narrow_floats_round_after_each_operation():
    a, b = (Var(name, as_dtype("float16")) for name in "ab")
    out = buffer("O", (1,), "float16")
    show = printer(a, b, out)
    assert "half_t::rounded(half_t::rounded(a / b) / a)" == show.value(a / b / a)
    assert "half_t(half_t::rounded(a / b) / a)" == show.stored(a / b / a, out.dtype)


def test_elements_of_16_bits_are_added_and_multiplied_as_they_lie():
    a, f = Var("a", as_dtype("float16")), Var("f", as_dtype("float32"))
    tile, out = (buffer(name, (8,), "float16") for name in "TO")
    x, y = (Load(tile, (as_expr(n),), tile.dtype) for n in (0, 1))
    show = printer(a, f, tile, out)
    assert "(float)(T[0] * T[1])" == show.value(x * y)
    assert "T[0] * (T[1] - half_t(a))" == show.stored(x * (y - a), out.dtype)
    assert "half_t((float)T[0] / (float)(T[0] + T[1]))" == show.stored(x / (x + y), out.dtype)
    assert "(float)(T[0] * half_t((float)(f)))" == show.value(Cast(x * Cast(f, x.dtype), f.dtype))
    assert "f + (float)(half_t(0.5f) - T[1])" == show.value(f + Cast(0.5 - y, f.dtype))


def test_short_vectors_move_as_words():
    a = buffer("A", (8,), "float16")
    vector = as_dtype("float16x4")
    show = printer(a)
    assert "*(const uint2*)&A[4]" == show.value(Load(a, (as_expr(4),), vector))
    assert "uint2{}" == show.value(Const(0, vector))
    assert "tl_float16x4_to_float32x4(*(const uint2*)&A[0])" == show.value(
        Cast(Load(a, (ZERO,), vector), as_dtype("float32x4"))
    )
    assert "*(const uint2*)&A[0]" == show.value(Reinterpret(Load(a, (ZERO,), vector), as_dtype("int16x4")))
    with pytest.raises(CompilerBug, match="vector literal 1"):
        show.value(Const(1, vector))


@pytest.mark.parametrize(("name", "bits"), [("float8_e4m3fn", 8), ("float8_e5m2", 8), ("float16", 16), ("bfloat16", 16)])
def test_the_bits_of_an_element_are_read_as_they_are(name, bits):
    """On the way through float the bits of NaN would change."""
    a = buffer("A", (8,), name)
    show = printer(a)
    assert f"tl_bits<int{bits}_t>(A[0])" == show.value(Reinterpret(Load(a, (ZERO,), a.dtype), as_dtype(f"int{bits}")))


def test_functions_that_the_text_calls_are_no_names_of_the_users():
    """A user's variable of that name would hide the function."""
    called = set()
    for name in INTRINSICS:
        for spelling in CUDA.intrinsics(name).values():
            called |= set(re.findall(r"(?<![\w:])([a-z]\w*)\s*\(", spelling.text))
    free = {name for name in called if not name.startswith("tl_") and Names(RESERVED).fresh(name) == name}
    assert set() == free


@needs_cuda_compiler
def test_every_operator_cast_and_function_compiles_for_every_dtype():
    lines, show = [], printer()
    for dtype in SCALARS.values():
        source = buffer(f"in_{dtype!s}", (2,), str(dtype))
        show.names.declare(source)
        a, b = (Load(source, (as_expr(n),), dtype) for n in (0, 1))
        exprs = [cast(a, other) for other in SCALARS.values()]
        for op in BinaryOp:
            if op in LOGICAL or op in INTEGER_ONLY and not dtype.is_int or dtype.is_bool and op not in COMPARISONS:
                continue
            exprs.append(binary(op, a, b))
        exprs.append(Reinterpret(a, as_dtype(f"uint{dtype.bits}")) if dtype.bits >= 8 else a)
        exprs.append(const(3, dtype))
        body = [f"    *({show.storage(e.dtype)}*)(out + {16 * n}) = {show.stored(e, e.dtype)};" for n, e in enumerate(exprs)]
        head = f"__device__ void f_{dtype!s}(const {show.storage(dtype)}* {show.names[source]}, char* out) {{"
        lines += [head, *body, "}"]
    x = Var("x", as_dtype("float32"))
    show.names.declare(x)
    calls = [show.value(Call(f, (x,) * f.arity, as_dtype("float32"))) for f in INTRINSICS.values() if f.name not in _BITS]
    lines += ["__device__ void g(float x, float* out) {", *(f"    out[{n}] = {c};" for n, c in enumerate(calls)), "}"]
    text = "\n".join([*(helper.text for helper in ordered_helpers(show.helpers.values())), *lines])
    for architecture in ("sm_75", "sm_90a"):
        compile_cuda(text, architecture)


_BITS = ("popcount", "clz", "dp4a", "fns")


@pytest.mark.parametrize("name", ["threadIdx", "uint4", "float2", "half_t", "expf", "min", "clock64"])
def test_what_cuda_reserves_is_free_in_cpp(name):
    assert (name, f"{name}_") == (identifier(name), identifier(name, RESERVED))
