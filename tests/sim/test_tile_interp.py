"""The meaning of the language, statement by statement, and the promises of its first section."""

import numpy as np
import pytest

from tilelang.dtypes import INT32, as_dtype
from tilelang.errors import CompilerBug, DeviceAssertError, OutOfBounds, ReadBeforeWrite, SimulationError
from tilelang.ir.buffer import Scope
from tilelang.ir.expr import Var, as_expr, binary, cast, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Assert, Atomic, AtomicOp, Break, Continue, ForKind, LaunchHints, Print, Seq, Stmt, Store
from tilelang.ops.copy import Copy
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm
from tilelang.records import record


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


# -- memory -------------------------------------------------------------------------------------------------------
def test_an_allocation_in_a_loop_is_new_in_every_iteration(program):
    out = program.tensor("out", (1,))
    with program.launch(1), program.serial(0, 2) as i:
        acc = program.alloc("acc", (1,), scope=Scope.FRAGMENT)
        with program.branch(i == 0):
            program.store(acc, (0,), 1.0)
        program.store(out, (0,), program.load(acc, 0))
    with pytest.raises(ReadBeforeWrite) as error:
        program.run(zeros(1))
    assert "acc[0] is read before anything was written there" == error.value.message
    assert 4 == error.value.loc.line


def test_every_block_has_its_own_on_chip_memory(program):
    out = program.tensor("out", (2,))
    with program.launch(2) as (bx,):
        shared = program.alloc("S", (1,))
        with program.branch(bx == 0):
            program.store(shared, (0,), 1.0)
        program.store(out, (bx,), program.load(shared, 0))
    with pytest.raises(ReadBeforeWrite, match=r"S\[0\] is read before anything was written there"):
        program.run(zeros(2))


def test_accumulating_into_a_fragment_that_was_not_cleared_is_reported(program):
    a, c = program.tensor("A", (4, 4)), program.tensor("C", (4, 4))
    with program.launch(1):
        a_s, c_f = program.alloc("A_s", (4, 4)), program.alloc("C_f", (4, 4), scope=Scope.FRAGMENT)
        program.emit(Copy(program.region(a), program.region(a_s)))
        program.emit(Gemm(program.region(a_s), program.region(a_s), program.region(c_f)))
        program.emit(Copy(program.region(c_f), program.region(c)))
    with pytest.raises(ReadBeforeWrite) as error:
        program.run(zeros(4, 4), zeros(4, 4))
    assert "C_f[0, 0] is read before anything was written there" == error.value.message
    assert "write all of it first, for example with T.clear(C_f)" == error.value.hint
    assert 4 == error.value.loc.line


def test_moving_undefined_contents_is_no_read_of_them(program):
    out = program.tensor("out", (4,))
    with program.launch(1):
        half, copy = program.alloc("half", (4,)), program.alloc("copy", (4,), "float16", Scope.FRAGMENT)
        with program.parallel(2) as (i,):
            program.store(half, (i,), 3.0)
        program.emit(Copy(program.region(half), program.region(copy)))
        with program.parallel(4) as (i,):
            program.store(out, (i,), program.load(copy, i))
    result = zeros(4)
    with pytest.raises(ReadBeforeWrite, match=r"copy\[2\] is read before anything was written there"):
        program.run(result)
    assert [3, 3] == result[:2].tolist()


def test_a_mutable_scalar_without_a_first_value_is_undefined(program):
    out = program.tensor("out", (1,))
    with program.launch(1):
        x = program.var("x")
        program.store(out, (0,), program.load(x))
    with pytest.raises(ReadBeforeWrite) as error:
        program.run(zeros(1))
    assert "x is read before anything was written there" == error.value.message
    assert "give it a first value: x = T.alloc_var(dtype, init=0)" == error.value.hint


def test_a_workspace_is_undefined_until_it_is_written(program):
    out = program.tensor("out", (1,))
    work = program.alloc("work", (1,), scope=Scope.GLOBAL)
    with program.launch(1):
        program.store(out, (0,), program.load(work, 0))
    with pytest.raises(ReadBeforeWrite, match="a workspace is undefined until a kernel writes it"):
        program.run(zeros(1))


def test_global_accesses_out_of_bounds_read_zero_and_drop(program):
    a, out = program.tensor("A", (3,)), program.tensor("out", (5,))
    with program.launch(1), program.parallel(9) as (i,):
        program.store(out, (i - 2,), program.load(a, i - 3) + 1)
    result = np.full(5, 9, "f")
    program.run(np.array([4, 5, 6], "f"), result)
    assert [1, 5, 6, 7, 1] == result.tolist()


def test_safe_values_are_read_out_of_bounds(program):
    a, out = program.tensor("A", (2, 2)), program.tensor("out", (2, 4))
    with program.launch(1, hints=LaunchHints(safe_values=((a, as_expr(-7)),))):
        tile = program.alloc("tile", (1, 4))
        program.emit(Copy(program.region(a, (0, 1), (0, 4)), program.region(tile)))
        program.emit(Copy(program.region(tile), program.region(out, (0, 1), (0, 4))))
        with program.parallel(4) as (i,):
            program.store(out, (1, i), program.load(a, 1, i - 1))
    result = zeros(2, 4)
    program.run(np.array([[1, 2], [3, 4]], "f"), result)
    assert [[1, 2, -7, -7], [-7, 3, 4, -7]] == result.tolist()


def test_safe_values_end_with_their_launch(program):
    a, out = program.tensor("A", (1,)), program.tensor("out", (1,))
    with program.launch(1, hints=LaunchHints(safe_values=((a, as_expr(-7)),))):
        program.store(out, (0,), program.load(a, 5))
    with program.launch(1):
        program.store(out, (0,), program.load(out, 0) + program.load(a, 5))
    result = zeros(1)
    program.run(zeros(1), result)
    assert -7 == result[0]


@pytest.mark.parametrize("index", [-1, 4])
def test_on_chip_accesses_out_of_bounds_are_reported(program, index):
    n = program.scalar("n", "int32", index=True)
    with program.launch(1):
        shared = program.alloc("S", (2, 4))
        program.store(shared, (1, n), 0.0)
    with pytest.raises(OutOfBounds) as error:
        program.run(index)
    assert f"S[1, {index}]: index {index} is outside dimension 1, which has extent 4" == error.value.message
    assert 2 == error.value.loc.line


def test_a_tile_that_leaves_an_on_chip_buffer_is_reported(program):
    a = program.tensor("A", (8,))
    with program.launch(1):
        shared = program.alloc("S", (4,))
        program.emit(Copy(program.region(a, (0, 3)), program.region(shared, (2, 3))))
    with pytest.raises(OutOfBounds, match=r"S\[4\]: index 4 is outside dimension 0, which has extent 4"):
        program.run(zeros(8))


def test_views_share_bytes(program):
    out = program.tensor("out", (4,), "uint32")
    with program.launch(1):
        words = program.alloc("words", (2, 2))
        bits = program.view(words, "bits", (4,), "uint32")
        with program.parallel(2, 2) as (i, j):
            program.store(words, (i, j), 1.0)
        program.store(bits, (3,), as_expr(7))
        program.emit(Copy(program.region(bits), program.region(out)))
    result = zeros(4, dtype="uint32")
    program.run(result)
    assert [0x3F800000] * 3 + [7] == result.tolist()


def test_views_of_narrower_elements_know_which_are_defined(program):
    out = program.tensor("out", (1,), "int32")
    with program.launch(1):
        words = program.alloc("words", (1,), "int32")
        halves = program.view(words, "halves", (2,), "int16")
        program.store(halves, (0,), 5)
        program.store(out, (0,), program.load(halves, 0))
        program.store(out, (0,), program.load(words, 0))
    result = zeros(1, dtype="int32")
    with pytest.raises(ReadBeforeWrite, match=r"words\[0\]"):
        program.run(result)
    assert 5 == result[0]


def test_a_view_of_a_fresh_buffer_is_fresh(program):
    out = program.tensor("out", (2,), "int32")
    with program.launch(1), program.serial(0, 2) as i:
        words = program.alloc("words", (1,))
        bits = program.view(words, "bits", (1,), "int32")
        program.store(bits, (0,), i)
        program.store(out, (i,), program.load(bits, 0))
        program.store(words, (0,), 1.0)
    result = zeros(2, dtype="int32")
    program.run(result)
    assert [0, 1] == result.tolist()


def test_views_of_global_memory_write_the_argument(program):
    n = program.symbol("n")
    out = program.tensor("out", (n, 2))
    flat = program.view(out, "flat", (n * 2,), "float32")
    with program.launch(1), program.parallel(n * 2) as (i,):
        program.store(flat, (i,), cast(i, as_dtype("float32")))
    result = zeros(3, 2)
    program.run(result)
    assert [[0, 1], [2, 3], [4, 5]] == result.tolist()


def test_buffers_without_dimensions_and_without_elements(program):
    scalar, empty, out = program.tensor("s", ()), program.tensor("e", (0, 3)), program.tensor("out", (0, 3))
    with program.launch(1):
        program.store(scalar, (), program.load(scalar) + 1)
        tile = program.alloc("tile", (0, 3))
        program.emit(Copy(program.region(empty), program.region(tile)))
        program.emit(Copy(program.region(tile), program.region(out)))
    value = np.array(2, "f")
    program.run(value, zeros(0, 3), zeros(0, 3))
    assert 3 == value


def test_vectors_are_moved_as_a_whole(program):
    a, out = program.tensor("A", (3,), "float16x2"), program.tensor("out", (3,), "float16x2")
    with program.launch(1):
        tile = program.alloc("tile", (3,), "float16x2")
        program.emit(Copy(program.region(a), program.region(tile)))
        with program.parallel(3) as (i,):
            program.store(out, (2 - i,), program.load(tile, i))
    values = np.arange(6, dtype=np.float16).reshape(3, 2)
    result = zeros(3, 2, dtype="float16")
    program.run(values, result)
    np.testing.assert_array_equal(values[::-1], result)


def test_copies_whose_symbolic_extents_differ_are_reported(program):
    n = program.symbol("n")
    a, out = program.tensor("A", (n,)), program.tensor("out", (4,))
    with program.launch(1):
        program.emit(Copy(program.region(a), program.region(out)))
    with pytest.raises(SimulationError, match=r"'A' has extents \(3,\) but 'out' has \(4,\)"):
        program.run(zeros(3), zeros(4))


def test_a_negative_extent_is_empty(program):
    n = program.symbol("n")
    a, out = program.tensor("A", (n,)), program.tensor("out", (4,))
    with program.launch(1):
        program.emit(Copy(program.region(a, (0, n - 3)), program.region(out, (0, n - 3))))
    result = zeros(4)
    program.run(np.ones(2, "f"), result)
    program.run(np.ones(5, "f"), result)
    assert [1, 1, 0, 0] == result.tolist()


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
    flat = program.view(a, "pairs", (n // 2, 2), "float32")
    with program.launch(1):
        program.store(flat, (0, 0), 1)
    with pytest.raises(Exception, match=r"T.view: 'pairs' is \(1, 2\) of float32, but 'A' has 12 bytes"):
        program.run(zeros(3))
