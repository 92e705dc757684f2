"""All iterations of loops over registers at once give what they give one by one."""

import os
from unittest import mock

import attention_programs
import numpy as np
import pytest
from gpu import lower_func, target_of
from random_kernels.checking import load
from random_kernels.outcomes import GENERATORS, draw

from tilelang.dtypes import FLOAT32
from tilelang.errors import TileLangError
from tilelang.ir.expr import binary, cast, select
from tilelang.ir.scalar import BinaryOp
from tilelang.sim.counters import Counters
from tilelang.sim.register_loops import RegisterLoops
from tilelang.sim.run import simulate

COMPILE = RegisterLoops.compile
WHOLE = os.environ.get("TILELANG_SLOW_TESTS") == "1"
THREADS = 40  # a warp and a part of one


def outcome(run, at_once):
    """What a run gives, or its error; and of each nest that is executed at once, whether that went well."""
    done = []

    def compile(self, loop):
        execute = COMPILE(self, loop) if at_once else None
        return None if execute is None else lambda warp: done.append(execute(warp)) or done[-1]

    with mock.patch.object(RegisterLoops, "compile", compile):
        try:
            return run(), done
        except TileLangError as error:
            return str(error), done


def check(threads, body, expected=None):
    """What the threads of a body that gives a value give, the same in both ways; and which nests ran at once.

    The second warp comes first.
    """
    out = threads.tensor("out", (THREADS,), "float32")
    with threads.kernel(1, threads=THREADS):
        threads.store(out, (threads.thread,), body(threads.thread))

    def run():
        result = np.zeros(THREADS, np.float32)
        threads.simulate(result, held_back=0)
        return result.tolist()

    (one_by_one, _), (at_once, done) = outcome(run, False), outcome(run, True)
    assert one_by_one == at_once
    if expected is not None:
        assert [expected(t) for t in range(THREADS)] == at_once
    return at_once, done


def ramp(threads, name, count, thread=None):
    """An array whose elements are their numbers, and more by thread."""
    array = threads.local(name, (count,))
    with threads.serial(0, count) as i:
        threads.store(array, (i,), cast(i if thread is None else i + thread, FLOAT32))
    return array


def total(threads, array, count):
    """The sum of an array's elements in order."""
    found = threads.var(f"sum_{array.name}", "float32", 0.0)
    with threads.serial(0, count) as i:
        threads.store(found, (), threads.load(found) + threads.load(array, i))
    return threads.load(found)


def test_elements_of_arrays(threads):
    def body(t):
        a, b = ramp(threads, "a", 12, t), threads.local("b", (12,))
        with threads.serial(0, 4) as i, threads.serial(0, 3) as j:
            threads.store(b, (i * 3 + j,), threads.load(a, i * 3 + j) * 2.0 + threads.load(a, 11 - i))
        return total(threads, b, 12)

    _, done = check(threads, body, lambda t: sum(2 * (n + t) + 11 - n // 3 + t for n in range(12)))
    assert [True] * 6 == done  # three nests of two warps


def test_sums_are_added_in_order(threads):
    def body(t):
        a, sums = threads.local("a", (24,)), threads.local("sums", (2,))
        with threads.serial(0, 24) as i:
            threads.store(a, (i,), cast(i * 7919 % 97 + t, FLOAT32) / 3.0)
        with threads.serial(0, 2) as i:
            threads.store(sums, (i,), cast(i, FLOAT32))
        with threads.serial(0, 12) as i, threads.serial(0, 2) as j:
            threads.store(sums, (j,), threads.load(sums, j) + threads.load(a, i * 2 + j))
        return threads.load(sums, 0) * 100.0 + threads.load(sums, 1)

    def expected(t):
        values = (np.array([i * 7919 % 97 + t for i in range(24)], np.float32) / np.float32(3)).reshape(12, 2)
        sums = [np.float32(0), np.float32(1)]
        for row in values:
            sums = [sums[0] + row[0], sums[1] + row[1]]
        return float(sums[0] * np.float32(100) + sums[1])

    _, done = check(threads, body, expected)
    assert [True] * 4 == done


@pytest.mark.parametrize("swapped", [False, True])
def test_any_operator_folds_with_its_operands_in_their_places(threads, swapped):
    def body(t):
        a, found = ramp(threads, "a", 6, t), threads.var("found", "float32", 1.5)
        with threads.serial(0, 6) as i:
            old, new = threads.load(found), threads.load(a, i)
            threads.store(found, (), new - old if swapped else old - new)
        return threads.load(found)

    def expected(t):
        found = 1.5
        for i in range(6):
            found = i + t - found if swapped else found - (i + t)
        return found

    assert all(check(threads, body, expected)[1])


def test_values_that_come_from_around_differ_between_lanes(threads):
    def body(t):
        a = ramp(threads, "a", 8)
        with threads.serial(0, 2) as outer:
            factor = threads.bind("factor", cast(t * 2 + outer, FLOAT32))
            with threads.serial(0, 4) as i:
                threads.store(a, (outer * 4 + i,), threads.load(a, outer * 4 + i) * factor)
        return total(threads, a, 8)

    _, done = check(threads, body, lambda t: sum(n * (t * 2 + n // 4) for n in range(8)))
    assert all(done)


def test_lanes_that_are_not_active_keep_what_they_have(threads):
    def body(t):
        a = ramp(threads, "a", 5)
        with threads.branch(t % 3 == 0), threads.serial(0, 5) as i:
            threads.store(a, (i,), 10.0)
        return total(threads, a, 5)

    check(threads, body, lambda t: 50 if t % 3 == 0 else 10)


def test_conditions_choose_points(threads):
    def body(t):
        a, b = ramp(threads, "a", 8, t), threads.local("b", (8,))
        with threads.serial(0, 8) as i:
            seen = threads.bind("seen", i + t)
            threads.store(b, (i,), select(seen % 2 == 0, threads.load(a, i), -1.0))
            with threads.branch(i < t):
                threads.store(b, (i,), threads.load(b, i) * 2.0)
        return total(threads, b, 8)

    def expected(t):
        return sum((i + t if (i + t) % 2 == 0 else -1) * (2 if i < t else 1) for i in range(8))

    assert all(check(threads, body, expected)[1])


def test_only_the_chosen_side_is_loaded(threads):
    def body(t):
        a, b = threads.local("a", (8,)), threads.local("b", (8,))
        with threads.serial(0, 4) as i:
            threads.store(a, (i,), 3.0)
        with threads.serial(0, 8) as i:
            threads.store(b, (i,), select(i < 4, threads.load(a, i) + 1.0, 0.0))
        return total(threads, b, 8)

    assert all(check(threads, body, lambda t: 16)[1])


def test_undefined_contents_may_be_moved(threads):
    def body(t):
        a, b = threads.local("a", (8,)), threads.local("b", (8,))
        with threads.serial(0, 8, 2) as i:
            threads.store(a, (i,), 3.0)
        with threads.serial(0, 8) as i:
            threads.store(b, (i,), threads.load(a, i))
        return threads.load(b, 6)

    assert all(check(threads, body, lambda t: 3)[1])


@pytest.mark.parametrize("lanes", ["all", "some"])
def test_a_read_of_what_was_not_written_has_its_line_and_index(threads, lanes):
    def body(t):
        a, b = threads.local("a", (8,)), ramp(threads, "b", 8)
        with threads.serial(0, 7) as i:
            with threads.branch((i != 5) if lanes == "all" else binary(BinaryOp.OR, i != 5, t != 33)):
                threads.store(a, (i,), 1.0)
        with threads.serial(0, 7) as i:
            threads.store(b, (i,), threads.load(a, i) + 1.0)
        return threads.load(b, 0)

    message, done = check(threads, body)
    assert f"a[5] of thread {32 if lanes == 'all' else 33} is read before anything was written there" in message
    assert done[-1] is False


def test_an_index_out_of_bounds_has_its_line_and_index(threads):
    def body(t):
        a = ramp(threads, "a", 8)
        with threads.serial(0, 2) as outer, threads.serial(0, 1), threads.serial(0, 5) as i:
            threads.store(a, (outer * 4 + i,), 1.0)
        with threads.serial(0, 2) as outer:
            twice = threads.bind("twice", outer * 2, index=True)
            with threads.serial(0, 5) as i:
                threads.store(a, (twice * 2 + i,), 1.0)
        return threads.load(a, 0)

    message, _ = check(threads, body)
    assert "a[8]: thread 32 accesses index 8 of dimension 0, which has extent 8" in message


def test_what_was_written_before_an_error_is_undone_and_done_again(threads):
    def body(t):
        a, b, c = ramp(threads, "a", 8), threads.local("b", (8,)), threads.local("c", (8,))
        with threads.serial(0, 8) as i:
            threads.store(a, (i,), threads.load(a, i) + 1.0)
            threads.store(c, (i,), threads.load(b, i) + 0.0)
        return threads.load(a, 0)

    message, done = check(threads, body)
    assert "b[0] of thread 32 is read" in message
    assert [True, False] == done


def test_a_recurrence_is_executed_one_by_one(threads):
    def body(t):
        a = ramp(threads, "a", 8)
        with threads.serial(0, 7) as i:
            threads.store(a, (i + 1,), threads.load(a, i) * 2.0 + 1.0)
        return threads.load(a, 7)

    _, done = check(threads, body, lambda t: 127)
    assert 2 == len(done)  # the ramp of two warps


def test_integers_wrap_and_large_indices_are_exact(threads):
    def body(t):
        a, size = threads.local("a", (8,), "int32"), threads.bind("size", t * 0 + (1 << 30), index=True)
        with threads.serial(0, 8) as i:
            threads.store(a, (i,), size * (i + 1) * 4 // (1 << 20) + i)
        found = threads.var("found", "int32", 0)
        with threads.serial(0, 8) as i:
            threads.store(found, (), threads.load(found) + threads.load(a, i) * 1000003)
        return cast(threads.load(found), FLOAT32)

    check(threads, body)


def test_operations_are_counted_one_by_one(threads):
    out = threads.tensor("out", (THREADS,), "float32")
    with threads.kernel(1, threads=THREADS):
        a = ramp(threads, "a", 8)
        threads.store(out, (threads.thread,), total(threads, a, 8))
    report = Counters()
    threads.simulate(np.zeros(THREADS, np.float32), report=report)
    assert 16 == report.instructions["convert"] == report.instructions["float op"]


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("generator", [name for name in GENERATORS if name != "gemm_loops"])
def test_random_programs_give_the_same(generator):
    """Of each generator one program, for Hopper if it is warp-specialized; with TILELANG_SLOW_TESTS=1 one for each GPU."""
    for seed in range(2) if WHOLE else [int(generator == "warp_specialized")]:
        program = draw(generator, seed)
        func = load(program.text)
        arch = "sm_90a" if seed else "sm_80"

        def run(func=func, arguments=program.arguments, arch=arch):
            copies = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
            simulate(lower_func(func, arch), copies, target=target_of(arch))
            return [a.tobytes() if isinstance(a, np.ndarray) else a for a in copies]

        assert outcome(run, False)[0] == outcome(run, True)[0]


@pytest.mark.parametrize("arch", ["sm_90a", "gfx942"])
def test_attention_gives_the_same_bit_for_bit(arch):
    lowered = lower_func(attention_programs.flash(1, 64, 64, 64, 64, causal=True), arch)
    q, k, v = np.random.default_rng(0).standard_normal((3, 1, 64, 64)).astype(np.float16)

    def run():
        out = np.zeros_like(q)
        simulate(lowered, [q, k, v, out], target=target_of(arch))
        return out.tobytes()

    (one_by_one, _), (at_once, done) = outcome(run, False), outcome(run, True)
    assert one_by_one == at_once
    assert 20 < len(done)
    assert all(done)
