"""`T.reduce_*`: every operator along every axis."""

import math

import numpy as np
import pytest
from harness import run_everywhere
from hypothesis import given
from hypothesis import strategies as st

import tilelang.language as T
from tilelang.dtypes import as_dtype
from tilelang.errors import ProgramError
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.expr import as_expr
from tilelang.ir.func import PrimFunc, TensorParam
from tilelang.ops.reduce import Reduce, ReduceOp, neutral
from tilelang.sim.tile_interp import run_reference

PYTHON = {
    ReduceOp.SUM: lambda old, new: old + new,
    ReduceOp.MAX: max,
    ReduceOp.MIN: min,
    ReduceOp.ABSSUM: lambda old, new: abs(old) + abs(new),
    ReduceOp.ABSMAX: lambda old, new: max(abs(old), abs(new)),
    ReduceOp.BITAND: lambda old, new: old & new,
    ReduceOp.BITOR: lambda old, new: old | new,
    ReduceOp.BITXOR: lambda old, new: old ^ new,
}


def fold(op, numbers):
    """The fold in plain Python."""
    total = numbers[0]
    for number in numbers[1:]:
        total = PYTHON[op](total, number)
    return abs(total) if op.takes_absolute else total


DTYPES = ("int32", "int8", "uint16", "float32", "bfloat16", "float64", "int4")


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize(
    ("op", "dtype"), [(op, name) for op in ReduceOp for name in DTYPES if not (op.is_bitwise and as_dtype(name).is_float)]
)
def test_every_operator_reduces_every_axis(ops, draw, op, dim, dtype):
    shape = (2, 3, 5)
    left = shape[:dim] + shape[dim + 1 :]
    src, dst = ops.tile("S", shape, dtype), ops.tile("D", left, "int32" if op.is_bitwise else "float64")
    values, result = draw(shape, dtype), np.zeros(left, dst.dtype.numpy)
    expected = np.apply_along_axis(lambda row: fold(op, [int(v) for v in row]), dim, values.astype("i8"))
    ops.apply(Reduce(op, src, dst, dim), {src: values, dst: result})
    np.testing.assert_array_equal(expected, result)


@pytest.mark.parametrize("op", list(ReduceOp))
def test_without_clear_the_old_value_is_combined(ops, draw, op):
    src, dst = ops.tile("S", (3, 4), "int32"), ops.tile("D", (3,), "int32")
    values, old = draw((3, 4), "int32"), np.array([5, -7, 1], np.int32)
    rows = [fold(op, [int(v) for v in row]) for row in values]
    plain = PYTHON[{ReduceOp.ABSSUM: ReduceOp.SUM, ReduceOp.ABSMAX: ReduceOp.MAX}.get(op, op)]
    expected = [plain(int(o), row) for o, row in zip(old, rows, strict=True)]
    ops.apply(Reduce(op, src, dst, 1, clear=False), {src: values, dst: old})
    assert expected == old.tolist()


@given(st.integers(0, 17), st.integers(0, 5), st.sampled_from([0, 1]))
def test_extents_of_any_size(rows, columns, dim):

    values = np.random.default_rng(5).integers(-9, 9, (rows, columns)).astype(np.int64)
    result = np.full((rows, columns)[1 - dim], 77, np.int64)
    src, dst = (
        Buffer(name, tuple(map(as_expr, array.shape)), as_dtype("int64"), Scope.SHARED)
        for name, array in (("S", values), ("D", result))
    )
    whole = [Region(b, tuple(as_expr(0) for _ in b.shape), b.shape) for b in (src, dst)]
    op = Reduce(ReduceOp.SUM, *whole, dim)
    op.check()
    run_reference(PrimFunc("f", (TensorParam(src), TensorParam(dst)), op), [values, result])
    np.testing.assert_array_equal(values.sum(dim), result)


@pytest.mark.parametrize(
    ("op", "dtype", "expected"),
    [
        (ReduceOp.SUM, "float32", 0),
        (ReduceOp.MAX, "float16", -math.inf),
        (ReduceOp.MIN, "float32", math.inf),
        (ReduceOp.MAX, "float8_e4m3fn", -448),
        (ReduceOp.MAX, "int8", -128),
        (ReduceOp.MIN, "uint8", 255),
        (ReduceOp.ABSMAX, "float32", 0),
        (ReduceOp.BITAND, "int32", -1),
        (ReduceOp.BITAND, "uint8", 255),
        (ReduceOp.BITAND, "bool", True),
        (ReduceOp.BITXOR, "int32", 0),
    ],
)
def test_an_empty_dimension_gives_the_neutral_element(ops, op, dtype, expected):
    assert expected == neutral(op, as_dtype(dtype))
    src, dst = ops.tile("S", (2, 0), dtype), ops.tile("D", (2,), dtype)
    result = np.ones(2, as_dtype(dtype).numpy)
    ops.apply(Reduce(op, src, dst, 1), {src: np.zeros((2, 0), result.dtype), dst: result})
    assert [expected, expected] == result.astype(np.float64).tolist()


@pytest.mark.parametrize("op", [ReduceOp.MAX, ReduceOp.MIN, ReduceOp.ABSMAX])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_nan_propagates(ops, op, dtype):
    src, dst = ops.tile("S", (3,), dtype), ops.tile("D", (1,), dtype)
    storage = as_dtype(dtype).numpy
    result = np.zeros(1, storage)
    ops.apply(Reduce(op, src, dst, 0), {src: np.array([1, math.nan, 2]).astype(storage), dst: result})
    assert np.isnan(result.astype("f"))[0]


@pytest.mark.parametrize("columns", [1, 5, 40])
def test_the_magnitude_of_the_least_integer_is_below_any_other(columns):
    @T.prim_func
    def main(A: T.Tensor((3, columns), "int32"), B: T.Tensor((3,), "int32")):
        with T.Kernel(1, threads=32):
            a, b = T.alloc_fragment((3, columns), "int32"), T.alloc_fragment((3,), "int32")
            T.copy(A, a)
            T.reduce_absmax(a, b, dim=1)
            T.copy(b, B)

    tiles = np.full((3, columns), -(2**31), np.int32)
    tiles[1, -1] = -7
    expected = [0, 7, 0]
    assert expected == run_everywhere(main, tiles, np.zeros(3, np.int32))[1].tolist()


def test_narrow_floats_accumulate_in_float32(ops):
    src, dst = ops.tile("S", (4096,), "float16"), ops.tile("D", (1,), "float16")
    result = np.zeros(1, np.float16)
    ops.apply(Reduce(ReduceOp.SUM, src, dst, 0), {src: np.ones(4096, np.float16), dst: result})
    assert 4096 == result[0]


def test_sums_of_bool_are_int32(ops):
    src, dst = ops.tile("S", (4,), "bool"), ops.tile("D", (1,), "int32")
    result = np.zeros(1, np.int32)
    ops.apply(Reduce(ReduceOp.SUM, src, dst, 0), {src: np.array([True, True, False, True]), dst: result})
    assert 3 == result[0]


def test_the_reduced_dimension_may_stay_with_extent_one(ops):
    src, dst = ops.tile("S", (3, 4)), ops.tile("D", (3, 1))
    values, result = np.arange(12, dtype="f").reshape(3, 4), np.zeros((3, 1), "f")
    ops.apply(Reduce(ReduceOp.SUM, src, dst, 1), {src: values, dst: result})
    np.testing.assert_array_equal(values.sum(1, keepdims=True), result)


def test_the_destination_must_have_the_remaining_extents(ops):
    with pytest.raises(ProgramError) as error:
        Reduce(ReduceOp.MAX, ops.tile("S", (64, 32)), ops.tile("D", (32,)), 1).check()
    assert "T.reduce_max: 'S' is (64, 32) and is reduced along dimension 1, but 'D' is (32,)" == error.value.message
    assert "give 'D' the shape (64,)" == error.value.hint


@pytest.mark.parametrize("dim", [-1, 2])
def test_the_dimension_must_exist(ops, dim):
    with pytest.raises(ProgramError) as error:
        Reduce(ReduceOp.SUM, ops.tile("S", (64, 32)), ops.tile("D", (64,)), dim).check()
    assert f"T.reduce_sum: 'S' is (64, 32) and has no dimension {dim}" == error.value.message
    assert "dim is one of -2, -1, 0, 1" == error.value.hint


def test_bitwise_reductions_need_integers(ops):
    with pytest.raises(ProgramError, match="T.reduce_bitor: 'S' holds float32, but only integers and bool have bits"):
        Reduce(ReduceOp.BITOR, ops.tile("S", (4, 4)), ops.tile("D", (4,), "int32"), 1).check()


def test_the_destination_is_read_unless_it_is_cleared(ops):
    src, dst = ops.tile("S", (4, 4)), ops.tile("D", (4,))
    assert (src,) == Reduce(ReduceOp.SUM, src, dst, 1).reads()
    assert (src, dst) == Reduce(ReduceOp.SUM, src, dst, 1, clear=False).reads()
    assert (dst,) == Reduce(ReduceOp.SUM, src, dst, 1).writes()
