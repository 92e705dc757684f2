"""The meaning of the language, statement by statement, and the promises of its first section."""

import numpy as np
import pytest

from tilelang.dtypes import INT32, as_dtype
from tilelang.errors import CompilerBug, DeviceAssertError, SimulationError
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Var, as_expr, binary, cast, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Assert, Atomic, AtomicOp, Break, Continue, ForKind, Print, Seq, Stmt, Store
from tilelang.ops.copy import Copy
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm
from tilelang.records import record
from tilelang.sim import violations


def zeros(*shape, dtype="float32"):
    return np.zeros(shape, as_dtype(dtype).numpy)


# -- whole kernels --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("size", [0, 1, 127, 128, 129, 300])
@pytest.mark.parametrize("seed", [None, 1])
def test_vector_add_of_any_size(program, size, seed):
    n = program.symbol("N")
    a, b, c = (program.tensor(name, (n,)) for name in "ABC")
    with program.launch((n + 127) // 128) as (bx,), program.parallel(128) as (i,):
        at = bx * 128 + i
        program.store(c, (at,), program.load(a, at) + program.load(b, at))
    x, y = np.random.rand(2, size).astype("f")
    z = zeros(size)
    program.run(x, y, z, seed=seed)
    np.testing.assert_array_equal(x + y, z)


@pytest.mark.parametrize(("m", "n", "k"), [(32, 32, 32), (33, 17, 50), (1, 1, 1), (5, 64, 0)])
def test_tiled_gemm_with_sizes_that_tiles_do_not_divide(program, m, n, k):
    a, b, c = program.tensor("A", (m, k)), program.tensor("B", (k, n)), program.tensor("C", (m, n))
    with program.launch((n + 15) // 16, (m + 15) // 16) as (bx, by):
        a_s, b_s = program.alloc("A_s", (16, 16)), program.alloc("B_s", (16, 16))
        c_f = program.alloc("C_f", (16, 16), scope=Scope.FRAGMENT)
        program.emit(Fill(program.region(c_f), as_expr(0.0)))
        with program.serial(0, (k + 15) // 16, kind=ForKind.PIPELINED) as ko:
            program.emit(Copy(program.region(a, (by * 16, 16), (ko * 16, 16)), program.region(a_s)))
            program.emit(Copy(program.region(b, (ko * 16, 16), (bx * 16, 16)), program.region(b_s)))
            program.emit(Gemm(program.region(a_s), program.region(b_s), program.region(c_f)))
        program.emit(Copy(program.region(c_f), program.region(c, (by * 16, 16), (bx * 16, 16))))
    x, y, z = (np.random.randint(-3, 4, shape).astype("f") for shape in ((m, k), (k, n), (m, n)))
    program.run(x, y, z)
    np.testing.assert_array_equal(x @ y, z)


def test_launches_run_in_order_and_share_a_workspace(program):
    a, c = program.tensor("A", (8,)), program.tensor("C", (1,))
    parts = program.alloc("parts", (2,), scope=Scope.GLOBAL)
    with program.launch(2) as (bx,):
        acc = program.var("acc", init=0)
        with program.serial(0, 4) as i:
            program.store(acc, (), program.load(acc) + program.load(a, bx * 4 + i))
        program.store(parts, (bx,), program.load(acc))
    with program.launch(1):
        program.store(c, (0,), program.load(parts, 0) + program.load(parts, 1))
    result = zeros(1)
    program.run(np.arange(8, dtype="f"), result)
    assert 28 == result[0]


# -- section 1: a block is a sequential program -------------------------------------------------------------------
def test_a_serial_loop_at_block_level_runs_once_per_iteration(program):
    out = program.tensor("out", (4,))
    with program.launch(1):
        shared = program.alloc("S", (4,))
        program.emit(Fill(program.region(shared), as_expr(0.0)))
        with program.serial(0, 4) as i:
            program.store(shared, (i,), program.load(shared, i) + 5)
        program.emit(Copy(program.region(shared), program.region(out)))
    result = zeros(4)
    program.run(result)
    assert [5, 5, 5, 5] == result.tolist()


def test_an_associative_update_in_a_parallel_loop_is_a_reduction(program):
    src, out = program.tensor("src", (3, 7)), program.tensor("out", (2,))
    with program.launch(1):
        most, total = program.alloc("m", (1,), scope=Scope.FRAGMENT), program.var("acc", init=0)
        program.store(most, (0,), -1000.0)
        with program.parallel(3) as (i,):
            with program.parallel(7) as (j,):
                value = program.load(src, i, j)
                program.store(most, (0,), binary(BinaryOp.MAX, program.load(most, 0), value))
                program.store(total, (), program.load(total) + value)
        program.store(out, (0,), program.load(most, 0))
        program.store(out, (1,), program.load(total))
    values, result = np.random.randint(-9, 9, (3, 7)).astype("f"), zeros(2)
    program.run(values, result)
    assert [values.max(), values.sum()] == result.tolist()


def test_statements_of_one_parallel_loop_run_in_order_per_iteration(program):
    out = program.tensor("out", (4,))
    with program.launch(1):
        total = program.var("acc", init=0)
        with program.parallel(4) as (i,):
            program.store(total, (), program.load(total) + cast(i, as_dtype("float32")))
            program.store(out, (i,), program.load(total))
    result = zeros(4)
    program.run(result)
    assert [0, 1, 3, 6] == result.tolist()


@pytest.mark.parametrize("scope", [Scope.SHARED, Scope.FRAGMENT, Scope.LOCAL, Scope.GLOBAL])
def test_a_read_after_a_write_sees_it_whatever_the_scope(program, scope):
    out = program.tensor("out", (4,))
    with program.launch(1):
        buffer = out if scope is Scope.GLOBAL else program.alloc("buffer", (4,), scope=scope)
        with program.parallel(4) as (i,):
            program.store(buffer, (i,), cast(i, as_dtype("float32")))
        program.store(out, (3,), program.load(buffer, 2) + 10)
    result = zeros(4)
    program.run(result)
    assert 12 == result[3]


def test_blocks_may_run_in_any_order(program):
    out = program.tensor("out", (2, 3, 4), "int32")
    with program.launch(4, 3, 2) as (bx, by, bz):
        program.store(out, (bz, by, bx), bz * 100 + by * 10 + bx)
    expected = [[[z * 100 + y * 10 + x for x in range(4)] for y in range(3)] for z in range(2)]
    for seed in (None, 0, 1):
        result = zeros(2, 3, 4, dtype="int32")
        program.run(result, seed=seed)
        assert expected == result.tolist()


def test_a_kernel_without_blocks_does_nothing(program):
    n, out = program.symbol("n"), program.tensor("out", (1,))
    program.tensor("A", (n,))
    with program.launch(n):
        program.store(out, (0,), 1)
    result = zeros(1)
    program.run(result, zeros(0))
    assert 0 == result[0]


# -- loops and branches -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("steps", [(0, 5, 1), (5, 0, -2), (3, 3, 1), (2, 9, 3)])
def test_for_loops_count_like_range(program, steps):
    out = program.tensor("out", (16,), "int32")
    with program.launch(1):
        n = program.var("n", "int32", init=0)
        with program.serial(*steps) as i:
            program.store(out, (program.load(n),), i)
            program.store(n, (), program.load(n) + 1)
    result = np.full(16, -1, np.int32)
    program.run(result)
    expected = list(range(*steps))
    assert expected + [-1] * (16 - len(expected)) == result.tolist()


def test_the_trip_count_is_fixed_on_entry(program):
    out = program.tensor("out", (1,), "int32")
    with program.launch(1):
        n, count = program.var("n", "int32", init=3), program.var("count", "int32", init=0)
        with program.serial(0, program.load(n)):
            program.store(n, (), 100)
            program.store(count, (), program.load(count) + 1)
        program.store(out, (0,), program.load(count))
    result = zeros(1, dtype="int32")
    program.run(result)
    assert 3 == result[0]


@pytest.mark.parametrize("kind", ["serial", "parallel", "while"])
def test_break_and_continue_concern_the_innermost_loop(program, kind):
    out = program.tensor("out", (10,), "int32")
    with program.launch(1), program.serial(0, 2):
        n = program.var("n", "int32", init=-1)
        inner = {
            "serial": lambda: program.serial(0, 10),
            "parallel": lambda: program.parallel(10),
            "while": lambda: program.loop(program.load(n) < 9),
        }[kind]()
        with inner:
            program.store(n, (), program.load(n) + 1)
            with program.branch(program.load(n) % 2 == 0):
                program.emit(Continue())
            with program.branch(program.load(n) > 6):
                program.emit(Break())
            program.store(out, (program.load(n),), program.load(out, program.load(n)) + 1)
    result = zeros(10, dtype="int32")
    program.run(result)
    assert [0, 2, 0, 2, 0, 2, 0, 0, 0, 0] == result.tolist()


def test_a_while_loop_that_does_not_end_is_reported(program, monkeypatch):
    out = program.tensor("out", (1,), "int32")
    with program.launch(1), program.loop(program.load(out, 0) < 100):
        program.store(out, (0,), (program.load(out, 0) + 1) % 7)
    monkeypatch.setattr(violations, "MAX_ITERATIONS", 20)
    with pytest.raises(SimulationError, match="while: its condition still holds after 20 iterations"):
        program.run(zeros(1, dtype="int32"))


def test_a_parallel_nest_runs_in_row_major_order(program):
    out = program.tensor("out", (6,), "int32")
    with program.launch(1):
        n = program.var("n", "int32", init=0)
        with program.parallel(2, 3) as (i, j):
            program.store(out, (program.load(n),), i * 10 + j)
            program.store(n, (), program.load(n) + 1)
    result = zeros(6, dtype="int32")
    program.run(result)
    assert [0, 1, 2, 10, 11, 12] == result.tolist()


def test_branches_take_one_side(program):
    out = program.tensor("out", (4,), "int32")
    with program.launch(1), program.parallel(4) as (i,), program.branch(
        i < 2, otherwise=Store(out, (i,), as_expr(7, INT32))
    ):
        program.store(out, (i,), 5)
    result = zeros(4, dtype="int32")
    program.run(result)
    assert [5, 5, 7, 7] == result.tolist()


def test_a_binding_keeps_its_value(program):
    out = program.tensor("out", (2,), "int32")
    with program.launch(1):
        x = program.var("x", "int32", init=1)
        before = program.bind("before", program.load(x))
        exact = program.bind("exact", program.load(x) + 4, index=True)
        program.store(x, (), 10)
        program.store(out, (0,), before)
        program.store(out, (1,), exact)
    result = zeros(2, dtype="int32")
    program.run(result)
    assert [1, 5] == result.tolist()


# -- atomics, assertions, prints ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("op", "expected"),
    [
        (AtomicOp.ADD, 6 + 5),
        (AtomicOp.MAX, 6),
        (AtomicOp.MIN, 5),
        (AtomicOp.AND, 4),
        (AtomicOp.OR, 7),
        (AtomicOp.XOR, 3),
        (AtomicOp.EXCHANGE, 5),
        (AtomicOp.STORE, 5),
        (AtomicOp.LOAD, 6),
    ],
)
@pytest.mark.parametrize("scope", [Scope.GLOBAL, Scope.SHARED])
def test_atomics_change_one_element_and_give_its_old_value(program, op, expected, scope):
    out = program.tensor("out", (2,), "int32")
    with program.launch(1):
        cell = out if scope is Scope.GLOBAL else program.alloc("cell", (1,), "int32")
        program.store(cell, (0,), 6)
        old = Var("old", INT32)
        wants_old = op is not AtomicOp.STORE
        value = None if op is AtomicOp.LOAD else as_expr(5, INT32)
        program.emit(Atomic(op, cell, (as_expr(0),), value, old if wants_old else None))
        program.store(out, (1,), old if wants_old else 6)
        program.store(out, (0,), program.load(cell, 0))
    result = zeros(2, dtype="int32")
    program.run(result)
    assert [expected, 6] == result.tolist()


def test_an_atomic_out_of_global_bounds_is_dropped_and_reads_zero(program):
    out = program.tensor("out", (1,), "int32")
    with program.launch(1):
        old = Var("old", INT32)
        program.emit(Atomic(AtomicOp.ADD, out, (as_expr(3),), as_expr(5, INT32), old))
        program.store(out, (0,), old + 1)
    result = np.full(1, 9, np.int32)
    program.run(result)
    assert 1 == result[0]


def test_an_exchange_without_a_result_may_be_the_first_write(program):
    out = program.tensor("out", (1,), "int32")
    with program.launch(1):
        cell = program.alloc("cell", (1,), "int32")
        program.emit(Atomic(AtomicOp.EXCHANGE, cell, (as_expr(0),), as_expr(5, INT32)))
        program.store(out, (0,), program.load(cell, 0))
    result = zeros(1, dtype="int32")
    program.run(result)
    assert 5 == result[0]


def test_a_failed_assertion_names_its_message_and_line(program):
    n = program.scalar("n", "int32", index=True)
    with program.launch(1):
        program.emit(Assert(n > 0, "n must be positive"))
    program.run(1)
    with pytest.raises(DeviceAssertError) as error:
        program.run(0)
    assert ("n must be positive", 1) == (error.value.message, error.value.loc.line)


def test_prints_appear_once_per_execution(program):
    with program.launch(2) as (bx,):
        tile = program.alloc("tile", (2, 2), "int32")
        x = program.var("x", init=1.5)
        program.store(tile, (0, 0), bx)
        program.emit(Print(program.load(tile, 0, 0), "tile[0, 0] = "))
        program.emit(Print(program.region(tile), "tile:"))
        program.emit(Print(program.region(x), ""))
    program.run()
    texts = [
        f"tile[0, 0] = {block}\ntile: tile (2, 2) int32\n[[{block}, ?],\n [?, ?]]\nx = 1.5" for block in (0, 1)
    ]
    assert "\n".join(texts) == "\n".join(program.printed)


# -- errors carry lines ----------------------------------------------------------------------------------------------
def test_statements_that_it_does_not_know_are_our_fault(program):
    @record(eq=False)
    class Strange(Stmt):
        pass

    program.emit(Strange())
    with pytest.raises(CompilerBug, match="cannot run Strange"):
        program.run()


def test_integers_wrap_as_data_and_do_not_as_indices(program):
    a, out = program.tensor("A", (1,), "int32"), program.tensor("out", (3,), "int32")
    with program.launch(1):
        big = program.load(a, 0)
        product = big * big
        program.store(out, (0,), product)  # data: wraps to 0
        with program.branch(product == 0):
            program.store(out, (1,), 1)
        program.store(out, (product,), 5)  # index: exact, so far out of bounds
        program.store(out, (select(big > 0, big * big // (2**31), 0),), 7)  # exact again: 2
    result = zeros(3, dtype="int32")
    program.run(np.array([2**16], np.int32), result)
    assert [0, 1, 7] == result.tolist()


def test_a_sequence_ends_where_a_loop_is_left(program):
    out = program.tensor("out", (1,), "int32")
    inner = Seq((Break(), Store(out, (as_expr(0),), as_expr(1, INT32))))
    with program.launch(1), program.serial(0, 3):
        program.emit(inner)
        program.store(out, (0,), 2)
    result = zeros(1, dtype="int32")
    program.run(result)
    assert 0 == result[0]


def test_a_view_of_another_size_is_reported(program):
    n = program.symbol("n")
    a = program.tensor("A", (n,))
    flat = program.view(a, "pairs", (n // 2 + 1, 2), "float32")
    with program.launch(1):
        program.store(flat, (0, 0), 1)
    with pytest.raises(Exception, match=r"'pairs' is \(2, 2\) of float32, but 'A' has 12 bytes"):
        program.run(zeros(3))
