"""`T.gemm`: scopes, shapes, dtypes and reference."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.dtypes import BOOL, as_dtype
from tilelang.errors import ProgramError
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import Const, as_expr
from tilelang.ir.func import PrimFunc, TensorParam
from tilelang.ir.request import Request
from tilelang.ops.gemm import Gemm, matrix_extents
from tilelang.sim.tile_interp import run_reference
from tilelang.targets.machine import NOTHING

TRUE = Const(True, BOOL)


def message_of(op):
    with pytest.raises(ProgramError) as error:
        op.check()
    return error.value.message, error.value.hint


def test_inner_extents_must_agree(ops):
    op = Gemm(ops.tile("A", (64, 32)), ops.tile("B", (64, 48)), ops.tile("C", (64, 48)))
    message, hint = message_of(op)
    assert "T.gemm: A is (64, 32) and B is (64, 48), so K is 32 on one side and 64 on the other" == message
    assert "write transpose_A=True, and give C the shape (32, 48)" == hint


def test_the_hint_names_the_transpose_flag_to_change(ops):
    op = Gemm(ops.tile("A", (64, 32)), ops.tile("B", (48, 32)), ops.tile("C", (64, 48)))
    assert "write transpose_B=True" == message_of(op)[1]
    op = Gemm(ops.tile("A", (64, 32)), ops.tile("B", (32, 48)), ops.tile("C", (64, 48)), transpose_b=True)
    message, hint = message_of(op)
    assert "so K is 32 on one side and 48 on the other" in message
    assert "B is (32, 48) transposed" in message
    assert "write transpose_B=False" == hint
    op = Gemm(ops.tile("A", (64, 32)), ops.tile("B", (48, 16)), ops.tile("C", (64, 48)))
    assert message_of(op)[1].startswith("A is (M, K)")


@pytest.mark.parametrize("a", [(64, 32), (32, 64), (48, 16)])
@pytest.mark.parametrize("b", [(64, 48), (32, 64), (64, 32)])
@pytest.mark.parametrize("c", [(64, 64), (64, 48), (32, 32)])
def test_following_the_hint_gives_a_valid_gemm(ops, a, b, c):
    def product(shape, **flags):
        return Gemm(ops.tile("A", a), ops.tile("B", b), ops.tile("C", shape), **flags)

    try:
        product(c).check()
    except ProgramError as error:
        hint = error.hint
        if hint.startswith("A is"):
            assert not {*a} & {*b}
            return
        flags = {f"transpose_{name.lower()}": value == "True" for name, value in re.findall(r"transpose_(.)=(\w+)", hint)}
        shape = re.search(r"give C the shape \((\d+), (\d+)\)", hint)
        product((int(shape[1]), int(shape[2])) if shape else c, **flags).check()


def test_outer_extents_must_fit_the_accumulator(ops):
    op = Gemm(ops.tile("A", (64, 32)), ops.tile("B", (32, 48)), ops.tile("C", (64, 64)))
    message, hint = message_of(op)
    assert (
        "T.gemm: A is (64, 32) and B is (32, 48), but C is (64, 64): N is 48 on one side and 64 on the other" == message
    )
    assert "give C the shape (64, 48)" == hint


@pytest.mark.parametrize("letter", "ABC")
def test_global_operands_are_refused(ops, letter):
    scopes = {key: Scope.GLOBAL if key == letter else Scope.SHARED for key in "ABC"}
    message, hint = message_of(Gemm(*(ops.tile(f"{key}_x", (16, 16), scope=scopes[key]) for key in "ABC")))
    assert (
        f"T.gemm: {letter} '{letter}_x' is in scope 'global', but a shared or fragment tile is needed" == message
    )
    expected = "accumulate in a fragment" if letter == "C" else "T.copy the tile into a buffer of T.alloc_shared"
    assert hint.startswith(expected)


def test_local_operands_are_refused_in_blocks_of_threads(ops):
    tiles = [ops.tile("A", (4, 4), scope=Scope.LOCAL), ops.tile("B", (4, 4)), ops.tile("C", (4, 4))]
    product = Gemm(*tiles)
    product.check()
    with pytest.raises(ProgramError, match="A 'A' is in scope 'local', but a shared or fragment tile is needed") as error:
        product.check_scopes(Scope.SHARED, Scope.FRAGMENT)
    assert "allocate it with T.alloc_shared or T.alloc_fragment" == error.value.hint


def test_operands_are_matrices(ops):
    message, _ = message_of(Gemm(ops.tile("A", (32,)), ops.tile("B", (32, 8)), ops.tile("C", (1, 8))))
    assert "T.gemm: A 'A' is (32,), but a matrix of two dimensions is needed" == message


@pytest.mark.parametrize(
    ("a", "b", "c", "expected"),
    [
        ("float16", "bfloat16", "float32", "A is float16 and B is bfloat16, but both must have one dtype"),
        ("float16", "bfloat16", "float16", "A is float16 and B is bfloat16, but both must have one dtype"),
        ("float16", "float16", "int32", "the product of float16 tiles cannot be accumulated in int32"),
        ("int8", "int8", "float32", "the product of int8 tiles cannot be accumulated in float32"),
        ("float8_e4m3fn", "float8_e4m3fnuz", "float32", "A is float8_e4m3fn and B is float8_e4m3fnuz, but both must"),
        ("float8_e5m2", "float8_e5m2", "float16", "the product of float8_e5m2 tiles cannot be accumulated in float16"),
        ("bool", "bool", "int32", "operands of dtype bool cannot be multiplied"),
        ("float16x2", "float16x2", "float32", "'A' holds float16x2, and vector dtypes have no arithmetic"),
    ],
)
def test_unsupported_dtypes_are_refused(ops, a, b, c, expected):
    op = Gemm(*(ops.tile(name, (8, 8), dtype) for name, dtype in zip("ABC", (a, b, c), strict=True)))
    assert message_of(op)[0].startswith(f"T.gemm: {expected}")


def test_leading_units_are_dropped_and_a_single_row_is_kept(ops):
    assert "(64, 32)" == text(matrix_extents(ops.tile("A", (1, 64, 32))))
    assert "(1, 32)" == text(matrix_extents(ops.tile("A", (1, 32))))
    assert "(1, 32)" == text(matrix_extents(ops.tile("A", (1, 1, 32))))
    assert "(64, 32)" == text(matrix_extents(ops.tile("A", (64, 1, 32))))


def text(extents):
    return f"({', '.join(str(extent.value) for extent in extents)})"


def test_c_is_read_unless_it_is_always_cleared(ops):
    a, b, c = (ops.tile(name, (4, 4)) for name in "ABC")
    assert (a, b, c) == Gemm(a, b, c).reads()
    assert (a, b) == Gemm(a, b, c, clear_accum=TRUE).reads()
    assert (c,) == Gemm(a, b, c).writes()


@pytest.mark.parametrize(
    ("operand", "result"),
    [
        ("float64", "float64"),
        ("float32", "float32"),
        ("float32", "float64"),
        ("tfloat32", "float32"),
        ("float16", "float32"),
        ("float16", "float16"),
        ("bfloat16", "bfloat16"),
        ("float8_e4m3fn", "float32"),
        ("float8_e5m2", "float32"),
        ("int8", "int32"),
        ("uint8", "int32"),
        ("int4", "int32"),
    ],
)
def test_every_pair_of_dtypes_multiplies(ops, draw, operand, result):
    a, b, c = (
        ops.tile(name, shape, dtype)
        for name, shape, dtype in (("A", (3, 5), operand), ("B", (5, 2), operand), ("C", (3, 2), result))
    )
    x, y, z = draw((3, 5), operand), draw((5, 2), operand), draw((3, 2), result)
    expected = (np.einsum("ik,kj->ij", x.astype("d"), y.astype("d")) + z.astype("d")).astype(z.dtype)
    ops.apply(Gemm(a, b, c), {a: x, b: y, c: z})
    np.testing.assert_array_equal(expected, z)


@pytest.mark.parametrize("family", ["fn fn", "fnuz fnuz"])
@pytest.mark.parametrize("wide_is_left", [True, False])
def test_8_bit_floats_of_one_encoding_may_be_mixed(ops, draw, family, wide_is_left):
    digits, exponents = ("float8_e4m3fn", "float8_e5m2") if family == "fn fn" else ("float8_e4m3fnuz", "float8_e5m2fnuz")
    dtypes = (exponents, digits) if wide_is_left else (digits, exponents)
    a, b, c = (
        ops.tile(name, shape, dtype)
        for name, shape, dtype in zip("ABC", ((3, 5), (5, 2), (3, 2)), (*dtypes, "float32"), strict=True)
    )
    x, y, z = draw((3, 5), dtypes[0]), draw((5, 2), dtypes[1]), draw((3, 2), "float32")
    op = Gemm(a, b, c)
    op.check()
    assert " by ".join(dtypes) == op.multiplied
    expected = x.astype("f") @ y.astype("f") + z
    ops.apply(op, {a: x, b: y, c: z})
    np.testing.assert_allclose(expected, z, rtol=1e-5)


@given(
    st.integers(0, 5), st.integers(0, 5), st.integers(0, 5), st.booleans(), st.booleans(), st.sampled_from([0, 1, 2])
)
def test_any_sizes_and_transpositions(m, n, k, transpose_a, transpose_b, clear):

    random = np.random.default_rng(3)
    x, y, z = (random.integers(-4, 5, shape).astype("f") for shape in ((m, k), (k, n), (m, n)))
    expected = np.einsum("ik,kj->ij", x, y) + (z if clear != 1 else 0)
    arrays = [x.T.copy() if transpose_a else x, y.T.copy() if transpose_b else y, z]
    buffers = [
        Buffer(name, tuple(map(as_expr, array.shape)), as_dtype("float32"), Scope.SHARED)
        for name, array in zip("ABC", arrays, strict=True)
    ]
    regions = [Region(b, tuple(as_expr(0) for _ in b.shape), b.shape) for b in buffers]
    flag = (None, TRUE, Const(False, BOOL))[clear]
    op = Gemm(*regions, transpose_a=transpose_a, transpose_b=transpose_b, clear_accum=flag)
    op.check()
    run_reference(PrimFunc("gemm", tuple(map(TensorParam, buffers)), op), arrays)
    np.testing.assert_array_equal(expected, z)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("has_first", "has_last"), [(True, False), (False, True), (True, True)])
def test_the_first_step_may_come_from_fragments_and_the_last_one_goes_to_some(ops, transposed, has_first, has_last):
    def stored(rows, columns):
        return (columns, rows) if transposed else (rows, columns)

    def kept(array):
        return np.ascontiguousarray(array.T if transposed else array)

    shapes = {"A": stored(2, 6), "B": stored(6, 3), "C": (2, 3)}
    shapes |= {"first_A": stored(2, 2), "first_B": stored(2, 3), "last_A": stored(2, 2), "last_B": stored(2, 3)}
    tile = {name: ops.tile(name, shape) for name, shape in shapes.items()}
    op = Gemm(
        tile["A"], tile["B"], tile["C"], transpose_a=transposed, transpose_b=transposed,
        first=(tile["first_A"], tile["first_B"]) if has_first else None,
        last=(tile["last_A"], tile["last_B"]) if has_last else None,
    )  # fmt: skip
    assert tuple(tile[name] for name in "ABC") == op.reads()[:3]
    assert op.reads()[3:] == (op.first or ())
    assert op.writes() == (tile["C"], *(op.last or ()))

    random = np.random.default_rng(2)
    a, b, first_a, first_b = (random.integers(-4, 5, shape).astype("f") for shape in ((2, 6), (6, 3), (2, 2), (2, 3)))
    z, last_a, last_b = np.ones((2, 3), "f"), np.zeros(shapes["last_A"], "f"), np.zeros(shapes["last_B"], "f")
    values = {"A": kept(a), "B": kept(b), "C": z, "first_A": kept(first_a), "first_B": kept(first_b)}
    values |= {"last_A": last_a, "last_B": last_b}
    used = [region for region in (*op.reads(), *op.writes())]
    ops.apply(op, {region: values[name] for name, region in tile.items() if region in used})
    expected = 1 + a[:, 2:4] @ b[2:4]
    expected += first_a @ first_b if has_first else a[:, :2] @ b[:2]
    expected += 0 if has_last else a[:, 4:] @ b[4:]
    np.testing.assert_array_equal(expected, z)
    np.testing.assert_array_equal(kept(a[:, 4:]) * has_last, last_a)
    np.testing.assert_array_equal(kept(b[4:]) * has_last, last_b)


@pytest.mark.parametrize("wide_is_left", [True, False])
def test_a_wide_operand_is_rounded_to_the_narrow_one(ops, wide_is_left):
    dtypes = ("float32", "bfloat16") if wide_is_left else ("bfloat16", "float32")
    a, b, c = (ops.tile(n, (2, 2), d) for n, d in zip("ABC", (*dtypes, "float32"), strict=True))
    narrow = as_dtype("bfloat16").numpy
    wide = np.array([[1.001, 2.003], [-3.1, 0.7]], "f")
    eye = np.eye(2).astype(narrow)
    z = np.zeros((2, 2), "f")
    op = Gemm(a, b, c)
    assert ("bfloat16", "bfloat16") == op.operands
    assert "bfloat16" == op.multiplied
    ops.apply(op, {a: wide if wide_is_left else eye, b: eye if wide_is_left else wide, c: z})
    np.testing.assert_array_equal(wide.astype(narrow).astype("f"), z)


def test_narrow_results_accumulate_in_float32(ops):
    a, b, c = ops.tile("A", (1, 4096), "float16"), ops.tile("B", (4096, 1), "float16"), ops.tile("C", (1, 1), "float16")
    z = np.zeros((1, 1), np.float16)
    ops.apply(Gemm(a, b, c), {a: np.ones((1, 4096), np.float16), b: np.ones((4096, 1), np.float16), c: z})
    assert 4096 == z[0, 0]  # float16 sums would stop growing at 2048


def test_integer_gemms_wrap_at_32_bits(ops):
    a, b, c = (ops.tile(name, (1, 1), "int32") for name in "ABC")
    z = np.ones((1, 1), np.int32)
    ops.apply(Gemm(a, b, c), {a: np.full((1, 1), 2**16, np.int32), b: np.full((1, 1), 2**15, np.int32), c: z})
    assert -(2**31) + 1 == z[0, 0]


def test_a_request_by_name_is_a_gemms_name_and_only_lowering(ops):
    a, b, c = (ops.tile(name, (64, 64), scope=Scope.SHARED) for name in "ABC")
    assert ("T.gemm", "") == (Gemm(a, b, c).name, Gemm(a, b, c).required_lowering)
    op = Gemm(a, b, c, request=Request("T.fast_gemm", "gemm.fast", NOTHING, "T.gemm"))
    assert ("T.fast_gemm", "gemm.fast") == (op.name, op.required_lowering)


def test_sizes_are_m_n_k(ops):
    op = Gemm(ops.tile("A", (8, 3)), ops.tile("B", (5, 8)), ops.tile("C", (3, 5)), transpose_a=True, transpose_b=True)
    assert [3, 5, 8] == [size.value for size in op.sizes]
