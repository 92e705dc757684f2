"""Expressions on 32 lanes at once: the same as the scalar evaluator in every lane, and no load that nobody asked for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import data_variables, index_conditions, index_expressions, mixed_conditions, mixed_expressions

from tilelang.dtypes import BOOL, FLOAT32, INT32, INT64, SCALARS, as_dtype
from tilelang.errors import NOWHERE, OutOfBounds, ReadBeforeWrite
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.callee import Callee
from tilelang.ir.expr import (
    Binary,
    Call,
    Cast,
    Const,
    Load,
    Reinterpret,
    Select,
    Unary,
    Var,
    as_expr,
    cast,
    const,
    select,
)
from tilelang.ir.scalar import BinaryOp, UnaryOp, convert, exact_binary
from tilelang.sim.expressions import Evaluator
from tilelang.sim.lane_expressions import LaneCompiler, Slots, converter, per_lane, uniform_int
from tilelang.sim.local_memory import Registers

LANES = 32


class Frame:
    """A warp of which expressions see only variables and registers."""

    def __init__(self, slots, values, mask=None, memory=()):
        self.env = [None] * slots.variables
        for var, value in values.items():
            if slots.has_slot(var):
                self.env[slots.var(var)] = value
        memory = dict(memory)
        self.cells = [memory.get(buffer) for buffer in slots.buffers]
        self.size, self.lane = LANES, np.arange(LANES)
        self.threads = self.lane
        self.loc, self.counters, self.footprint = NOWHERE, None, None
        self.fences, self.completing = 0, False
        self.set_mask(np.ones(LANES, bool) if mask is None else mask)

    def set_mask(self, mask):
        self.mask = mask
        self.lanes = None if mask.all() else np.flatnonzero(mask)

    def changed(self):
        pass


def evaluate(expr, values=None, *, index=False, mask=None, memory=(), invariant=()):
    slots = Slots()
    slots.invariant.update(invariant)
    compiler = LaneCompiler(slots, LANES)
    closure = compiler.index(expr) if index else compiler.data(expr)
    return closure(Frame(slots, values or {}, mask, memory))


def lane_values(var, low, high, seed, uniform):
    chooser = np.random.default_rng(seed)
    numbers = [int(n) for n in chooser.integers(low, high + 1, LANES)]
    if uniform:
        numbers = [numbers[0]] * LANES
    return numbers


def assert_lanes_agree(expr, numbers, index, uniform):
    """Every lane has what the scalar evaluator gives for that lane's numbers."""
    values = {}
    for var, column in numbers.items():
        array = np.array(column, np.int64) if var.index else np.array([convert(n, var.dtype) for n in column])
        values[var] = (column[0] if var.index else array[0]) if var in uniform else array
    got = np.broadcast_to(np.asarray(evaluate(expr, values, index=index)), (LANES,))
    for lane in range(LANES):
        scalar = Evaluator(lambda buffer, where: None)
        for var, column in numbers.items():
            scalar.env[var] = column[lane] if var.index else convert(column[lane], var.dtype)
        with np.errstate(all="ignore"):  # as around a whole program
            expected = scalar.index(expr) if index else scalar.data(expr)
        if index and not -(2**63) <= expected < 2**63:
            continue
        np.testing.assert_equal(got[lane], expected)


@settings(max_examples=2 * settings().max_examples)
@given(data=st.data(), seed=st.integers(0, 99))
def test_index_arithmetic_is_that_of_the_scalar_evaluator(data, seed):
    variables = [Var(name, dtype, index=True) for name, dtype in (("i", INT32), ("j", INT64), ("k", INT32))]
    build = data.draw(st.sampled_from([index_expressions, index_conditions]))
    expr = data.draw(build(variables, 3))
    uniform = data.draw(st.sets(st.sampled_from(variables)))
    numbers = {var: lane_values(var, -9, 20, seed + n, var in uniform) for n, var in enumerate(variables)}
    assert_lanes_agree(expr, numbers, expr.dtype.is_int, uniform)


@settings(max_examples=2 * settings().max_examples)
@given(data=st.data(), seed=st.integers(0, 99))
def test_data_is_that_of_the_scalar_evaluator(data, seed):
    ranges = data_variables()
    index = [Var("i", INT32, index=True)]
    build = data.draw(st.sampled_from([mixed_expressions, mixed_conditions]))
    expr = data.draw(build(list(ranges), index, 3))
    uniform = data.draw(st.sets(st.sampled_from([*ranges, *index])))
    bounds = {**ranges, index[0]: (-9, 20)}
    numbers = {var: lane_values(var, *bounds[var], seed + n, var in uniform) for n, var in enumerate(bounds)}
    assert_lanes_agree(expr, numbers, False, uniform)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "tfloat32"])
@pytest.mark.parametrize("op", [BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV, BinaryOp.MIN, BinaryOp.MAX])
def test_floats_round_once_per_operation(dtype, op):
    kind = as_dtype(dtype)
    a, b = Var("a", kind), Var("b", kind)
    chooser = np.random.default_rng(0)
    x = np.asarray(convert(chooser.normal(size=LANES) * 3, kind))
    y = np.asarray(convert(chooser.normal(size=LANES), kind))
    y[3], x[5] = convert(float("nan"), kind), convert(0.0, kind)
    expr = Binary(op, a, Binary(BinaryOp.ADD, b, a, kind), kind)
    with np.errstate(all="ignore"):
        got = evaluate(expr, {a: x, b: y})
        for lane in range(LANES):
            scalar = Evaluator(lambda buffer, where: None)
            scalar.env.update({a: x[lane], b: y[lane]})
            expected = scalar.data(expr)
            assert expected.dtype == got.dtype
            np.testing.assert_equal(got[lane].tobytes(), expected.tobytes())


@pytest.mark.parametrize("source", ["bool", "int8", "uint8", "int32", "int64", "uint32", "float16", "bfloat16", "float32", "float64"])
def test_conversions_are_those_of_convert(source):
    a = as_dtype(source)
    numbers = np.asarray(convert(np.array([0, 1, 2, 3, 5, 7, 100, 127] * 4), a))
    for target in "bool int4 int8 uint16 int32 int64 float16 bfloat16 float32 float64 tfloat32 float8_e5m2".split():
        b = as_dtype(target)
        with np.errstate(all="ignore"):
            got, expected = np.asarray(converter(a, b)(numbers)), np.asarray(convert(numbers, b))
        assert (target, expected.dtype, expected.tobytes()) == (target, got.dtype, got.tobytes())


def test_what_all_lanes_share_stays_one_number():
    k = Var("k", INT32, index=True)
    assert 35 == evaluate(k * 8 + 3, {k: 4}, index=True)
    assert isinstance(evaluate(k * 8 + 3, {k: 4}, index=True), int)


def test_what_cannot_change_is_computed_once():
    thread = Var("thread", INT32, index=True)
    slots = Slots()
    slots.invariant.add(thread)
    closure = LaneCompiler(slots, LANES).index(thread // 4 * 8)
    frame = Frame(slots, {thread: np.arange(LANES)})
    assert closure(frame) is closure(frame)


def registers(name, dtype, values):
    buffer = Buffer(name, (const(values.shape[1], INT32),), as_dtype(dtype), Scope.LOCAL)
    cells = Registers(buffer, LANES)
    cells.write(Frame(Slots(), {}), 0, values, values.shape[1])
    return buffer, cells


def element(buffer, *indices, lanes=1):
    dtype = buffer.dtype if lanes == 1 else as_dtype(f"{buffer.dtype}x{lanes}")
    return Load(buffer, tuple(as_expr(i) for i in indices), dtype)


def test_a_load_reads_each_lanes_own_registers():
    buffer, cells = registers("r", "int32", np.arange(64).reshape(LANES, 2))
    np.testing.assert_array_equal(evaluate(element(buffer, 1), memory={buffer: cells}), np.arange(LANES) * 2 + 1)


def test_a_vector_has_its_lanes_along_the_second_axis():
    buffer, cells = registers("r", "float16", np.arange(128).reshape(LANES, 4).astype(np.float16))
    got = evaluate(Cast(element(buffer, 2, lanes=2), as_dtype("float32x2")), memory={buffer: cells})
    np.testing.assert_array_equal(got, np.arange(128, dtype=np.float32).reshape(LANES, 4)[:, 2:])


def test_a_vector_is_chosen_or_zero_per_lane():
    buffer, cells = registers("r", "float32", np.ones((LANES, 4), np.float32))
    lane = Var("lane", INT32, index=True)
    value = Select(lane < 3, element(buffer, 0, lanes=4), Const(0.0, as_dtype("float32x4")), as_dtype("float32x4"))
    got = evaluate(value, {lane: np.arange(LANES)}, memory={buffer: cells})
    assert (LANES, 4) == got.shape
    assert 12 == got.sum()


@pytest.mark.parametrize("build", ["select", "index select", "and", "or"])
def test_only_lanes_that_choose_a_side_load_there(build):
    buffer, cells = registers("r", "int32", np.ones((LANES, 8), np.int32))
    lane = Var("lane", INT32, index=True)
    load = Load(buffer, (lane,), INT32)
    expr = {
        "select": select(lane < 8, load, const(0, INT32)),
        "index select": select(lane < 8, load, const(0, INT32)),
        "and": Binary(BinaryOp.AND, lane < 8, Binary(BinaryOp.EQ, load, const(1, INT32), BOOL), BOOL),
        "or": Binary(BinaryOp.OR, lane >= 8, Binary(BinaryOp.NE, load, const(1, INT32), BOOL), BOOL),
    }[build]
    got = evaluate(expr, {lane: np.arange(LANES)}, index=build == "index select", memory={buffer: cells})
    expected = np.arange(LANES) < 8
    np.testing.assert_array_equal(np.asarray(got).astype(bool), expected if build != "or" else ~expected)
    with pytest.raises(OutOfBounds):
        evaluate(load, {lane: np.arange(LANES)}, memory={buffer: cells})


def test_lanes_outside_of_the_mask_load_nothing():
    buffer, cells = registers("r", "int32", np.ones((LANES, 8), np.int32))
    lane = Var("lane", INT32, index=True)
    got = evaluate(Load(buffer, (lane,), INT32), {lane: np.arange(LANES)}, mask=np.arange(LANES) < 8, memory={buffer: cells})
    assert 8 == got[:8].sum()


def test_moved_contents_may_be_undefined_and_say_so():
    buffer = Buffer("r", (const(2, INT32),), FLOAT32, Scope.LOCAL)
    cells = Registers(buffer, LANES)
    slots = Slots()
    load = element(buffer, 0)
    bits = Reinterpret(load, as_dtype("int32"))
    for expr in (cast(load, as_dtype("float16")), bits, cast(bits, as_dtype("int8"))):
        _, defined = LaneCompiler(slots, LANES).moved(expr)(Frame(slots, {}, memory={buffer: cells}))
        assert not defined.any()
    with pytest.raises(ReadBeforeWrite):
        evaluate(load, memory={buffer: cells})
    assert LaneCompiler(Slots(), LANES).moved(Binary(BinaryOp.ADD, load, load, FLOAT32)) is None


def test_the_defined_side_of_a_choice_is_defined():
    buffer = Buffer("r", (const(2, INT32),), FLOAT32, Scope.LOCAL)
    cells, slots, lane = Registers(buffer, LANES), Slots(), Var("lane", INT32, index=True)
    moved = LaneCompiler(slots, LANES).moved(select(lane < 5, element(buffer, 0), const(0.0, FLOAT32)))
    _, defined = moved(Frame(slots, {lane: np.arange(LANES)}, memory={buffer: cells}))
    np.testing.assert_array_equal(defined, np.arange(LANES) >= 5)


def test_bits_are_read_as_another_dtype():
    a = Var("a", FLOAT32)
    x = np.linspace(-2, 2, LANES).astype(np.float32)
    np.testing.assert_array_equal(evaluate(Reinterpret(a, SCALARS["uint32"]), {a: x}), x.view(np.uint32))
    v = Var("v", as_dtype("float16x2"))
    halves = np.arange(64).reshape(LANES, 2).astype(np.float16)
    np.testing.assert_array_equal(
        evaluate(Reinterpret(v, SCALARS["uint32"]), {v: halves}), halves.view(np.uint32)[:, 0]
    )


def test_calls_compute_in_their_own_dtype():
    double = Callee("double", 1, lambda d: d[0], lambda x: x * 2, lambda d: FLOAT32)
    a = Var("a", as_dtype("float16"))
    got = evaluate(Call(double, (a,), as_dtype("float16")), {a: np.full(LANES, 1.5, np.float16)})
    assert (np.float16, 3.0) == (got.dtype, got[0])


def test_negation_and_not():
    a, c = Var("a", FLOAT32), Var("c", BOOL)
    assert -1.5 == evaluate(Unary(UnaryOp.NEG, a, FLOAT32), {a: np.full(LANES, 1.5, np.float32)})[0]
    assert not evaluate(Unary(UnaryOp.NOT, c, BOOL), {c: np.ones(LANES, bool)}).any()


def test_shifts_of_lanes_are_exact():
    i = Var("i", INT32, index=True)
    amounts = np.array([0, 1, 31, 40, 63, 64, -1, 2] * 4)
    got = evaluate(Binary(BinaryOp.SHL, as_expr(1), i, INT32), {i: amounts}, index=True)
    assert [1, 2, 2**31, 2**40, -(2**63), 0, 0, 4] == got[:8].tolist()
    got = evaluate(Binary(BinaryOp.SHR, as_expr(-8), i, INT32), {i: amounts}, index=True)
    assert [-8, -4, -1, -1, -1, -1, -1, -2] == got[:8].tolist()


@pytest.mark.parametrize("op", [BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.FLOORDIV, BinaryOp.FLOORMOD, BinaryOp.BITXOR])
@pytest.mark.parametrize("constant", [2**63, 2**64 - 1, -(2**63) - 1])
def test_constants_beyond_64_bits_leave_the_low_64_bits_of_the_exact_value(op, constant):
    i = Var("i", INT32, index=True)
    numbers = [*range(-16, 16)]
    for swapped in (False, True) if op in (BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.BITXOR) else (False,):
        operands = (Const(constant, INT64), i) if swapped else (i, Const(constant, INT64))
        expr = Binary(op, *operands, INT64)
        exact = [exact_binary(op, *((constant, n) if swapped else (n, constant))) for n in numbers]
        expected = [(value + 2**63) % 2**64 - 2**63 for value in exact]
        assert expected == evaluate(expr, {i: np.array(numbers)}, index=True).tolist()
        assert exact[3] == evaluate(expr, {i: numbers[3]}, index=True)
    is_less = evaluate(Binary(BinaryOp.LT, i, Const(constant, INT64), BOOL), {i: np.array(numbers)})
    assert [n < constant for n in numbers] == is_less.tolist()


def test_equal_lanes_count_as_one_number():
    mask = np.arange(LANES) < 4
    values = np.where(mask, 7, np.arange(LANES))
    assert 7 == uniform_int(values, mask)
    assert isinstance(uniform_int(values, ~mask), np.ndarray)
    assert (LANES,) == per_lane(3, LANES).shape


def test_vectors_are_rounded_to_tf32_as_elements_are():
    change = converter(as_dtype("float32x2"), as_dtype("tfloat32x2"))
    assert [[1.0, 1 + 2.0**-10]] == change(np.array([[1 + 2.0**-12, 1 + 2.0**-10]], np.float32)).tolist()
