"""Control flow on 32 lanes: masks, loops of different lengths, and what leaves them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilelang.dtypes import INT32
from tilelang.errors import Deadlock, OutOfBounds, SimulationError
from tilelang.ir.buffer import Scope
from tilelang.ir.builder import as_body
from tilelang.ir.expr import Var, as_expr, binary, cast, select
from tilelang.ir.scalar import BinaryOp
from tilelang.ir.stmt import Atomic, AtomicOp, Break, Continue, Store
from tilelang.sim import violations


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def per_thread(threads, body, count=64):
    """The result of a body that gives a value, run by each thread."""
    out = threads.tensor("out", (count,), "int32")
    with threads.kernel(1, threads=count):
        threads.store(out, (threads.thread,), body(threads.thread))
    result = zeros(count, dtype=np.int32)
    threads.simulate(result)
    return result.tolist()


def test_a_loop_may_have_another_length_in_every_lane(threads):
    def body(t):
        total = threads.var("total", "int32", 0)
        with threads.serial(t % 3, t % 7, 2) as i:
            threads.store(total, (), threads.load(total) + i)
        return threads.load(total)

    assert [sum(range(t % 3, t % 7, 2)) for t in range(64)] == per_thread(threads, body)


def test_a_loop_may_run_down(threads):
    def body(t):
        total = threads.var("total", "int32", 0)
        with threads.serial(t % 5, 0, -2) as i:
            threads.store(total, (), threads.load(total) * 10 + i)
        return threads.load(total)

    expected = []
    for t in range(64):
        total = 0
        for i in range(t % 5, 0, -2):
            total = total * 10 + i
        expected.append(total)
    assert expected == per_thread(threads, body)


def test_lanes_break_and_continue_on_their_own(threads):
    def body(t):
        total = threads.var("total", "int32", 0)
        with threads.serial(0, 10) as i:
            with threads.branch(i > t % 8):
                threads.emit(Break())
            with threads.branch((i + t) % 3 == 0):
                threads.emit(Continue())
            threads.store(total, (), threads.load(total) + (i + 1))
        return threads.load(total)

    def scalar(t):
        total = 0
        for i in range(10):
            if i > t % 8:
                break
            if (i + t) % 3 == 0:
                continue
            total += i + 1
        return total

    assert [scalar(t) for t in range(64)] == per_thread(threads, body)


def test_a_break_leaves_only_the_innermost_loop(threads):
    def body(t):
        total = threads.var("total", "int32", 0)
        with threads.serial(0, 3):
            with threads.serial(0, 5) as j:
                with threads.branch(j == t % 4):
                    threads.emit(Break())
                threads.store(total, (), threads.load(total) + 1)
            threads.store(total, (), threads.load(total) + 100)
        return threads.load(total)

    assert [300 + 3 * (t % 4) for t in range(64)] == per_thread(threads, body)


def test_a_while_loop_runs_until_no_lane_wants_to(threads):
    def body(t):
        n = threads.var("n", "int32", cast(t, INT32) + 1)
        steps = threads.var("steps", "int32", 0)
        with threads.loop(threads.load(n) > 1):
            half = binary(BinaryOp.FLOORDIV, threads.load(n), 2)
            threads.store(n, (), select(threads.load(n) % 2 == 0, half, threads.load(n) * 3 + 1))
            threads.store(steps, (), threads.load(steps) + 1)
            with threads.branch(threads.load(steps) > 50):
                threads.emit(Break())
        return threads.load(steps)

    def collatz(n):
        steps = 0
        while n > 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
            if steps > 50:
                break
        return steps

    assert [collatz(t + 1) for t in range(64)] == per_thread(threads, body)


def test_a_while_loop_waits_for_another_warp(threads):
    for seed in range(3):
        made = type(threads)()
        out = made.tensor("out", (1,), "int32")
        with made.kernel(1, threads=64):
            flag = made.alloc("flag", (1,), "int32")
            with made.branch(made.thread < 1):
                made.emit(Atomic(AtomicOp.STORE, flag, (as_expr(0),), as_expr(0)))
            made.sync()
            with made.branch(made.thread == 32):
                made.emit(Atomic(AtomicOp.STORE, flag, (as_expr(0),), as_expr(7)))
            with made.branch(made.thread == 0):
                seen = made.var("seen", "int32", 0)
                with made.loop(made.load(seen) == 0):
                    old = Var("old", INT32)
                    made.emit(Atomic(AtomicOp.LOAD, flag, (as_expr(0),), None, old))
                    with made.branch(old != 0):
                        made.store(seen, (), old)
                made.store(out, (0,), made.load(seen))
        result = zeros(1, dtype=np.int32)
        made.simulate(result, seed=seed)
        assert 7 == result[0]


def test_waiting_for_what_nobody_writes_is_a_deadlock(threads):
    flag = threads.tensor("flag", (1,), "int32")
    with threads.kernel(1, threads=64):
        with threads.loop(threads.load(flag, 0) == 0):
            threads.bind("unused", threads.load(flag, 0))
    with pytest.raises(Deadlock, match="wait forever") as error:
        threads.simulate(zeros(1, dtype=np.int32))
    assert error.value.notes[0].text.startswith("warp 0 waits for a change of memory: none of those that run at the")


@pytest.mark.slow(every=12)
@pytest.mark.parametrize("op", [AtomicOp.LOAD, AtomicOp.ADD])
@pytest.mark.parametrize("warps", [1, 2])
def test_waiting_for_a_block_that_has_not_begun_is_a_deadlock(programs, op, warps):
    """Loops write registers, add nothing to memory, and meet there; still nothing changes."""
    told = set()
    for seed in range(4):
        made = programs[1]()
        flag = made.tensor("flag", (1,), "int32")
        with made.kernel(2, threads=warps * 32) as (bx,):
            shown = made.alloc("visible_to_async_proxy", (1,), "int32", Scope.SHARED)
            with made.branch(bx == 1):
                made.emit(Atomic(AtomicOp.ADD, flag, (as_expr(0),), as_expr(1)))
            with made.branch(bx == 0):
                seen = made.var("seen", "int32", 0)
                with made.loop(made.load(seen) == 0):
                    with made.branch(made.thread == 0):
                        old = Var("old", INT32)
                        value = None if op is AtomicOp.LOAD else as_expr(0)
                        made.emit(Atomic(op, flag, (as_expr(0),), value, old))
                        made.store(shown, (0,), old)
                    made.sync()
                    made.store(seen, (), made.load(shown, 0))
                    made.sync()
        try:
            made.simulate(zeros(1, dtype=np.int32), seed=seed)
            told.add("done")
        except Deadlock as error:
            told.add(error.notes[0].text.split(":")[0])
    assert told == {"done", "warp 0 waits for a change of memory"}


def test_both_sides_of_a_branch_and_jumps_in_them(threads):
    def body(t):
        total = threads.var("total", "int32", 0)
        with threads.serial(0, 4) as i:
            other = threads.builder.open_block()
            threads.store(total, (), threads.load(total) + 10)
            with threads.branch(t % 3 == 1):
                threads.emit(Continue())
            threads.builder.close_block()
            with threads.branch(t % 2 == 0, as_body(other)):
                with threads.branch(i == 2):
                    threads.emit(Break())
                threads.store(total, (), threads.load(total) + 1)
            threads.store(total, (), threads.load(total) + 100)
        return threads.load(total)

    def scalar(t):
        total = 0
        for i in range(4):
            if t % 2 == 0:
                if i == 2:
                    break
                total += 1
            else:
                total += 10
                if t % 3 == 1:
                    continue
            total += 100
        return total

    assert [scalar(t) for t in range(64)] == per_thread(threads, body)


def test_a_statement_without_a_place_stands_where_the_one_around_it_does(threads):
    out = threads.tensor("out", (4,))
    with threads.kernel(1, threads=32):
        with threads.serial(0, 2) as i:
            threads.builder.statements.append(Store(out, (i + 3,), as_expr(1.0)))
    with pytest.raises(OutOfBounds) as error:
        threads.simulate(zeros(4))
    assert 1 == error.value.loc.line


# -- random programs --------------------------------------------------------------------------------------------
class Random:
    """A random scalar program over two variables, written into any program in the making."""

    def __init__(self, draw, program, me):
        self.draw, self.program, self.me = draw, program, me
        self.x = program.var("x", "int32", 1)
        self.y = program.var("y", "int32", cast(me, INT32) * 3 + 1)
        self.steps = 0

    def value(self, extra):
        choices = [self.program.load(self.x), self.program.load(self.y), cast(self.me, INT32), as_expr(3), *extra]
        a, b = (choices[self.draw(st.integers(0, len(choices) - 1))] for _ in range(2))
        op = self.draw(st.sampled_from([BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.FLOORMOD, BinaryOp.MIN]))
        return cast(binary(op, a, b), INT32)

    def block(self, depth, loop, extra):
        for _ in range(self.draw(st.integers(1, 3))):
            self.statement(depth, loop, extra)

    def statement(self, depth, loop, extra):
        program = self.program
        kind = self.draw(st.integers(0, 6 if depth else 1))
        if kind <= 1:
            program.store([self.x, self.y][self.draw(st.integers(0, 1))], (), self.value(extra))
        elif kind == 2:
            with program.branch(binary(BinaryOp.LT, self.value(extra), 5)):
                self.block(depth - 1, loop, extra)
        elif kind == 3 and loop:
            with program.branch(binary(BinaryOp.LT, self.value(extra) % 4, 2)):
                program.emit(self.draw(st.sampled_from([Break, Continue]))())
        elif kind == 4:
            count = program.bind("count", self.value(extra) % 5)
            with program.serial(0, count) as i:
                self.block(depth - 1, True, [*extra, cast(i, INT32)])
        elif kind == 5:
            with program.serial(0, 3) as i:
                self.block(depth - 1, True, [*extra, cast(i, INT32)])
        else:
            left = program.var("left", "int32", 4)
            with program.loop(binary(BinaryOp.AND, program.load(left) > 0, self.value(extra) > -1000)):
                program.store(left, (), program.load(left) - 1)
                self.block(depth - 1, True, extra)


class Tape:
    """Draws once and plays back, so that two programs get the same choices."""

    def __init__(self, draw):
        self._draw, self._tape, self._at, self._recording = draw, [], 0, True

    def __call__(self, strategy):
        if self._recording:
            self._tape.append(self._draw(strategy))
            return self._tape[-1]
        self._at += 1
        return self._tape[self._at - 1]

    def rewind(self):
        self._recording = False


@given(data=st.data())
def test_threads_that_share_nothing_do_what_blocks_of_the_reference_do(programs, data):
    """The same program: once per block on the reference, once per thread on the simulator."""
    tape = Tape(data.draw)
    reference, threads = (make() for make in programs)
    out = reference.tensor("out", (40, 2), "int32")
    with reference.launch(40) as (me,):
        made = Random(tape, reference, me)
        made.block(3, False, [])
        reference.store(out, (me, 0), reference.load(made.x))
        reference.store(out, (me, 1), reference.load(made.y))
    tape.rewind()
    out = threads.tensor("out", (40, 2), "int32")
    with threads.kernel(1, threads=40):
        made = Random(tape, threads, threads.thread)
        made.block(3, False, [])
        threads.store(out, (threads.thread, 0), threads.load(made.x))
        threads.store(out, (threads.thread, 1), threads.load(made.y))
    expected, actual = zeros(40, 2, dtype=np.int32), zeros(40, 2, dtype=np.int32)
    reference.run(expected)
    threads.simulate(actual)
    np.testing.assert_array_equal(actual, expected)


def test_a_while_loop_that_does_not_end_is_reported(threads, monkeypatch):
    def body(t):
        n = threads.var("n", "int32", 1)
        with threads.loop(threads.load(n) > 0):
            threads.store(n, (), threads.load(n) % 5 + 1)
        return threads.load(n)

    monkeypatch.setattr(violations, "MAX_ITERATIONS", 20)
    with pytest.raises(SimulationError, match="while: its condition still holds after 20 iterations"):
        per_thread(threads, body)
