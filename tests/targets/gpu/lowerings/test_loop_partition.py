"""The partition of parallel loops over threads."""

import itertools
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from loops import buffer, store
from warps import blocked

from tilelang.dtypes import INT32
from tilelang.ir.buffer import Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Var, as_expr
from tilelang.ir.stmt import Break, For, ForKind, If
from tilelang.ir.visit import walk
from tilelang.layout.digits import Mode
from tilelang.layout.thread_values import fragment, replicated
from tilelang.targets.gpu.lowerings.loop_partition import LoopPartition, ThreadDigit, merge_digits, primes

THREAD = Var("thread", INT32, index=True)


def iterations(made, partition):
    """The coordinates that each thread reaches in the loops around a marker."""
    found = []

    def run(stmt, env):
        match stmt:
            case For(var=var, stop=stop, body=body):
                for value in range(int(stop.value)):
                    run(body, {**env, var: value})
            case If(condition=condition, then_body=body):
                if evaluate(condition, env):
                    run(body, env)
            case _:
                found.append(tuple(int(evaluate(as_expr(c), env)) for c in partition.coordinates()))

    for thread in range(partition.layout.threads):
        run(made, {THREAD: thread})
    return found


extents = st.lists(st.sampled_from([1, 2, 3, 5, 8, 12, 16, 33]), min_size=1, max_size=3)


@given(extents, st.sampled_from([1, 6, 32, 48]), st.sampled_from([1, 2, 4]), st.booleans())
def test_every_iteration_runs_once_per_replica(shape, threads, vector, copies):
    vector = math.gcd(vector, shape[-1])
    layout = blocked(shape, threads, vector, copies=copies)
    partition = LoopPartition(layout, THREAD)
    found = iterations(partition.emit_loops(Break()), partition)
    expected = sorted(list(itertools.product(*map(range, shape))) * layout.replication)
    assert expected == sorted(found)


def test_the_vector_loop_is_innermost_and_predicates_are_outside_of_it():
    partition = LoopPartition(blocked((10, 24), 32, 8, copies=False), THREAD)
    made = partition.emit_loops(Break())
    loops = [s for s in walk(made) if isinstance(s, For)]
    assert [ForKind.VECTORIZED] == [loops[-1].kind]
    assert partition.vector.var is loops[-1].var
    tests = [s for s in walk(made) if isinstance(s, If)]
    assert not any(isinstance(inner, If) for inner in walk(loops[-1].body))
    assert tests


def test_an_extent_that_cuts_a_vector_is_predicated_per_element():
    layout = fragment((30,), [Mode(4, (8,))], [Mode(8, (1,))])
    made = LoopPartition(layout, THREAD).emit_loops(Break())
    assert isinstance(made, For)
    assert isinstance(made.body, If)


def loops_of(made):
    return [(int(s.stop.value), s.unroll_factor) for s in walk(made) if isinstance(s, For)]


def test_long_loops_are_partially_unrolled():
    layout = fragment((64, 32), [Mode(32, (0, 1))], [Mode(64, (1, 0))])
    assert [(4, None), (16, None)] == loops_of(LoopPartition(layout, THREAD).emit_loops(Break()))
    layout = fragment((640, 32), [Mode(32, (0, 1))], [Mode(640, (1, 0))])
    assert [(40, 16), (16, None)] == loops_of(LoopPartition(layout, THREAD).emit_loops(Break()))


def test_lanes_with_loops_in_them_count_as_copies():
    layout = fragment((64, 32), [Mode(32, (0, 1))], [Mode(64, (1, 0))])
    inner = For(Var("k", INT32, index=True), as_expr(0), as_expr(5), 1, ForKind.SERIAL, Break())
    assert [(4, 1), (16, None)] == loops_of(LoopPartition(layout, THREAD).emit_loops(inner))[:2]


def test_loops_that_index_registers_are_fully_unrolled():
    layout = fragment((640, 32), [Mode(32, (0, 1))], [Mode(640, (1, 0))])
    partition = LoopPartition(layout, THREAD)
    inner, outer = (digit.var for digit in partition.digits)
    array = buffer("f", 40, scope=Scope.LOCAL)
    assert [(40, None), (16, None)] == loops_of(partition.emit_loops(store(array, outer, 1)))
    assert [(40, 16), (16, None)] == loops_of(partition.emit_loops(store(array, inner, 1)))
    layout = fragment((13, 8, 64), [Mode(8, (0, 1, 0))], [Mode(64, (0, 0, 1)), Mode(13, (1, 0, 0))])
    partition = LoopPartition(layout, THREAD)
    outer = partition.digits[-1].var
    assert [(13, None), (4, 1), (16, None)] == loops_of(partition.emit_loops(store(array, outer, 1)))


def test_replicas_differ_in_the_digits_of_stride_0():
    partition = LoopPartition(fragment((4,), [Mode(2, (0,)), Mode(4, (1,)), Mode(4, (0,))], []), THREAD)
    condition = partition.is_first_copy()
    first = [t for t in range(32) if evaluate(condition, {THREAD: t})]
    assert [0, 2, 4, 6] == first
    assert None is LoopPartition(blocked((32,), 32), THREAD).is_first_copy()
    only = LoopPartition(replicated((4,), 32), THREAD).is_first_copy()
    assert [0] == [t for t in range(32) if evaluate(only, {THREAD: t})]


def test_thread_digits_are_split_into_primes_and_joined():
    digits = LoopPartition(blocked((96,), 96), THREAD).thread_digits()
    assert [2, 2, 2, 2, 2, 3] == [d.size for d in digits]
    assert [(1, 96)] == [(d.thread_stride, d.size) for d in merge_digits(digits)]
    assert [2, 2, 3, 5] == primes(60)
    threads = np.arange(96)
    values = [int(evaluate(ThreadDigit(4, 3, (1,)).of(THREAD, 96), {THREAD: t})) for t in threads]
    assert list(threads // 4 % 3) == values


def test_surplus_threads_may_repeat_iterations():
    layout = fragment((24, 4), [Mode(4, (0, 1)), Mode(8, (1, 0)), Mode(4, (16, 0))], [Mode(2, (8, 0))])
    partition = LoopPartition(layout, THREAD)
    assert any(isinstance(s, If) for s in walk(partition.emit_loops(Break())))
    assert any(isinstance(s, If) for s in walk(partition.repeating().emit_loops(Break())))  # 24 of 32 rows
    layout = fragment((16, 4), [Mode(4, (0, 1)), Mode(8, (1, 0)), Mode(4, (16, 0))], [Mode(2, (8, 0))])
    partition = LoopPartition(layout, THREAD).repeating()
    assert not any(isinstance(s, If) for s in walk(partition.emit_loops(Break())))
    rows = [int(evaluate(partition.coordinates()[0], {THREAD: t, partition.digits[0].var: 1})) for t in range(128)]
    assert [t // 4 % 8 + 8 for t in range(128)] == rows
