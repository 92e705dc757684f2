import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import index_expressions, places

from tilelang.dtypes import BOOL, FLOAT32, INT32, INT64, SCALARS
from tilelang.errors import CompilerBug
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.callee import Callee
from tilelang.ir.evaluate import as_exact, evaluate
from tilelang.ir.expr import Call, Const, Expr, Load, Reinterpret, Select, Var, binary, cast, const, select, unary
from tilelang.ir.scalar import BinaryOp, UnaryOp

i, j = Var("i", INT32, index=True), Var("j", INT32, index=True)
d8, u8, d32 = Var("d", SCALARS["int8"]), Var("u", SCALARS["uint8"]), Var("d", INT32)
f, h, b16 = Var("f", FLOAT32), Var("h", SCALARS["float16"]), Var("b", SCALARS["bfloat16"])
p = Var("p", BOOL)
A = Buffer("A", (const(8, INT32),), INT32, Scope.GLOBAL)


def test_index_arithmetic_is_exact():
    assert 2**62 == evaluate(i * i * 4, {i: 2**30})
    assert 2**40 + 1 == evaluate(i + 1, {i: np.int64(2**40)})


def test_data_wraps_at_its_width():
    assert -128 == evaluate(d8 + 1, {d8: 127})
    assert 255 == evaluate(u8 - 1, {u8: 0})


def test_index_arithmetic_beside_data_takes_the_width_of_data():
    assert 1 == evaluate(d32 + i, {d32: 0, i: 2**32 + 1})


def test_in_index_position_nothing_wraps():
    assert 128 == evaluate(d8 + 1, {d8: 127}, exact=True)
    assert 2**32 + 1 == evaluate(d32 + i, {d32: 0, i: 2**32 + 1}, exact=True)
    assert -1 == evaluate(cast(u8, SCALARS["int8"]), {u8: 255}, exact=True)


def test_comparisons_of_index_arithmetic_are_exact():
    assert evaluate(i < j, {i: 1, j: 2**32}) is True
    assert evaluate(d32 < j, {d32: 1, j: 2**32}) is False


def test_narrow_floats_are_rounded_after_every_operation():
    assert np.float16(2048) == evaluate(h + 1.0, {h: 2048})
    assert 256 == float(evaluate(b16 + 1.0, {b16: 256}))
    assert np.float32(0.1) == evaluate(Const(0.1, FLOAT32, weak=True), {})


@pytest.mark.parametrize("op", [BinaryOp.FLOORDIV, BinaryOp.FLOORMOD, BinaryOp.TRUNCDIV, BinaryOp.TRUNCMOD])
@pytest.mark.parametrize("x", [i, d8, u8, d32])
def test_division_by_zero_gives_zero(op, x):
    assert 0 == evaluate(binary(op, x, x - x), {x: 7})


@pytest.mark.parametrize(("op", "expected"), [(BinaryOp.MIN, np.nan), (BinaryOp.MAX, np.nan)])
def test_nan_propagates(op, expected):
    np.testing.assert_equal(evaluate(binary(op, f, 1.0), {f: np.nan}), np.float32(expected))
    np.testing.assert_equal(evaluate(binary(op, 1.0, f), {f: np.nan}), np.float32(expected))


def test_select_evaluates_only_the_selected_side():
    guarded = Select(i < 8, Load(A, (i,), INT32), const(-1, INT32), INT32)
    assert -1 == evaluate(guarded, {i: 9}, load=lambda node, at: pytest.fail("loaded"))
    assert 40 == evaluate(guarded, {i: 4}, load=lambda node, at: np.int32(10 * at[0]))


def test_and_and_or_stop_early():
    loads = binary(BinaryOp.NE, Load(A, (i,), INT32), 0)
    for first, op in ((i < 0, BinaryOp.AND), (i >= 0, BinaryOp.OR)):
        assert isinstance(evaluate(binary(op, first, loads), {i: 1}), bool)
    assert evaluate(binary(BinaryOp.AND, i >= 0, loads), {i: 1}, load=lambda node, at: np.int32(3)) is True


def test_indices_of_loads_are_exact():
    seen = []
    evaluate(Load(A, (d8 + 1,), INT32), {d8: 127}, load=lambda node, at: seen.append(at) or np.int32(0))
    assert [(128,)] == seen


def test_calls_convert_their_operands():
    callee = Callee("twice", 1, lambda t: FLOAT32, lambda x: x + x, lambda t: FLOAT32)
    value = evaluate(Call(callee, (i,), FLOAT32), {i: 3})
    assert np.float32(6) == value
    assert np.float32 is type(value)


def test_casts_truncate_towards_zero_and_wrap():
    assert -3 == evaluate(cast(f, INT32), {f: -3.7})
    assert 44 == evaluate(cast(d32, SCALARS["uint8"]), {d32: 300})
    assert evaluate(cast(f, BOOL), {f: 0.5})


def test_reinterpretation_keeps_the_bits():
    assert 0x3F800000 == evaluate(Reinterpret(f, INT32), {f: 1.0})
    assert 0x3F800000 == evaluate(Reinterpret(f, INT32), {f: 1.0}, exact=True)


def test_bits_and_signs():
    assert -6 == evaluate(~i, {i: 5})
    assert 250 == evaluate(~u8, {u8: 5})
    assert evaluate(unary(UnaryOp.NOT, p), {p: False})
    assert -5 == evaluate(-i, {i: 5})


@given(st.data(), st.integers(0, 99))
def test_arrays_give_what_their_elements_give(data, seed):
    place = data.draw(places())
    expr = data.draw(index_expressions(list(place.ranges), 2))
    points = list(place.points(seed, 12))
    if not points or any(abs(evaluate(node, point)) > 2**60 for node in _integers(expr) for point in points):
        return
    columns = {var: np.array([point[var] for point in points]) for var in place.ranges}
    expected = [evaluate(expr, point) for point in points]
    assert expected == np.broadcast_to(evaluate(expr, columns), len(points)).tolist()


def _integers(expr: Expr) -> list[Expr]:
    from tilelang.ir.visit import walk_expr

    return [node for node in walk_expr(expr) if node.dtype.is_int]


def test_on_arrays_both_sides_are_evaluated():
    n = np.arange(6)
    assert [0, 1, 2, 7, 7, 7] == evaluate(select(i < 3, i, 7), {i: n}).tolist()
    both = binary(BinaryOp.OR, i < 1, i > 4)
    assert [True, False, False, False, False, True] == evaluate(both, {i: n}).tolist()
    assert [127, -128] == evaluate(d8 + 1, {d8: np.array([126, 127], np.int8)}).tolist()
    assert [1.5, 0.0] == evaluate(select(p, f, 0.0), {p: np.array([True, False]), f: 1.5}).tolist()


def test_a_variable_without_a_value_is_a_compiler_bug():
    with pytest.raises(CompilerBug, match="variable 'i' has no value"):
        evaluate(i + 1, {})
    with pytest.raises(CompilerBug, match="no value for Load"):
        evaluate(Load(A, (i,), INT32), {i: 0})


def test_shared_nodes_are_evaluated_once():
    expr: Expr = i
    for _ in range(60):
        expr = (expr + expr) % 1000003
    assert pow(2, 60, 1000003) == evaluate(expr, {i: 1})


def test_exact_values_are_python_integers_or_int64():
    assert int is type(as_exact(np.uint8(3)))
    assert int is type(as_exact(True))
    assert np.int64 == as_exact(np.array([1], np.uint8)).dtype
    assert INT64 == cast(i, INT64).dtype
