"""Loops whose iterations may run as lanes: what is recognized, what is refused, and random loops in shuffled order."""

from __future__ import annotations

import operator
import random

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from loops import (
    TRIPS,
    A,
    M,
    Machine,
    bodies,
    buffer,
    bx,
    exprs,
    i,
    j,
    k,
    largest,
    load,
    run_in_order,
    serial,
    store,
    y,
)

from tilelang.analysis.independence import lane_legality
from tilelang.arith.domain import Domain
from tilelang.dtypes import FLOAT32, INT32
from tilelang.ir.buffer import Buffer, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Var, as_expr, binary, cast, select
from tilelang.ir.printer import to_text
from tilelang.ir.scalar import BinaryOp, convert
from tilelang.ir.stmt import (
    Alloc,
    Assert,
    Atomic,
    AtomicOp,
    Bind,
    Break,
    If,
    Print,
    Seq,
    Store,
    While,
)

AROUND = Domain().with_loop(i, 0, 128).with_loop(j, 0, 64).with_loop(bx, 0, M)
S, T = buffer("S", 128, 64), buffer("T", 128, 64)
m, s, flat = buffer("m", 128), buffer("s", 128), buffer("flat", 8192)
G, H = (buffer(name, M, scope=Scope.GLOBAL) for name in "GH")
x = buffer("x", scope=Scope.VAR)
n = buffer("n", 64, dtype=INT32)


def judge(*body, var=j, domain=AROUND):
    return lane_legality(var, Seq(body), domain)


def test_a_guarded_vector_addition_is_independent():
    legality = judge(If(bx * 64 + j < M, store(G, bx * 64 + j, load(G, bx * 64 + j) + load(H, bx * 64 + j))))
    assert (True, (), ()) == (legality.independent, legality.reductions, legality.private)


def test_an_update_followed_by_its_sum_is_one_reduction():
    legality = judge(store(S, i, j, load(S, i, j) - load(m, i)), store(s, i, load(s, i) + load(S, i, j)))
    assert legality.independent
    assert [(s, "+")] == [(r.buffer, r.op) for r in legality.reductions]


def test_every_associative_operator_is_a_reduction():
    for op, text in ((BinaryOp.ADD, "+"), (BinaryOp.MUL, "*"), (BinaryOp.MIN, "min"), (BinaryOp.MAX, "max")):
        legality = judge(store(x, binary(op, load(x), load(S, i, j))))
        assert [(x, text)] == [(r.buffer, r.op) for r in legality.reductions]
    y = buffer("y", scope=Scope.VAR, dtype=INT32)
    for op in (BinaryOp.BITAND, BinaryOp.BITOR, BinaryOp.BITXOR):
        legality = judge(store(y, binary(op, load(n, j), load(y))))
        assert [(y, op.value)] == [(r.buffer, r.op) for r in legality.reductions]


def test_two_elements_of_one_buffer_reduce_side_by_side():
    legality = judge(store(s, 0, load(s, 0) + load(S, i, j)), store(s, 1, load(s, 1) * load(S, i, j)))
    assert {"+", "*"} == {r.op for r in legality.reductions}


def test_a_reduction_inside_a_branch_is_still_one():
    assert ["max"] == [r.op for r in judge(If(load(S, i, j) > 0, store(m, i, largest(load(m, i), 1.0)))).reductions]


def test_a_temporary_written_first_is_private():
    legality = judge(store(x, load(S, i, j)), store(T, i, j, load(x) * load(x)))
    assert (True, (x,)) == (legality.independent, legality.private)


def test_what_is_allocated_in_the_body_does_not_matter():
    local = buffer("local", 4, scope=Scope.LOCAL)
    assert judge(Alloc(local), store(local, 0, load(S, i, j)), store(T, i, j, load(local, 0))).independent


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("copy", store(S, i, j, load(T, i, j))),
        ("shifted source in another buffer", store(S, i, j, load(T, i, j + 1))),
        ("distance as long as the loop", store(flat, j, load(flat, j + 64))),
        ("even and odd", store(flat, 2 * j, load(flat, 2 * j + 1))),
        ("quotient and remainder", store(S, (i * 64 + j) // 64, (i * 64 + j) % 64, load(S, i, j))),
        ("quotient and remainder of one variable", store(buffer("q", 4, 16), j // 16, j % 16, 1.0)),
        ("another row", store(S, i, j, load(S, i + 1, j))),
        ("inner loop over rows", serial(k, 128, store(S, k, j, load(S, k, j) + 1.0))),
        ("inner loop within a stride", serial(k, 4, store(flat, 4 * j + k, load(flat, 4 * j + k) + 1.0))),
        ("reversed destination", store(flat, 63 - j, load(S, i, j))),
        ("unknown but fixed offset", store(G, bx * 64 + j, load(G, bx * 64 + j))),
        ("offset read from memory", store(flat, load(n, 0) + j, load(flat, load(n, 0) + j) * 2.0)),
    ],
)
def test_is_independent(what, body):
    assert judge(body).independent, what


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("recurrence", store(S, i, j, load(S, i, j - 1))),
        ("anti-dependence", store(S, i, j, load(S, i, j + 1))),
        ("prefix sum", Seq((store(x, load(x) + load(S, i, j)), store(T, i, j, load(x))))),
        ("recurrence on a scalar", store(x, load(x) * 2.0 + load(S, i, j))),
        ("two operators", Seq((store(x, load(x) + load(S, i, j)), store(x, load(x) * 2.0)))),
        ("difference from the wrong side", store(x, load(S, i, j) - load(x))),
        ("last one wins", store(m, i, load(S, i, j))),
        ("scatter", store(flat, cast(load(n, j), INT32), 1.0)),
        ("histogram", store(m, load(n, j), load(m, load(n, j)) + 1.0)),
        ("inner loop beyond a stride", serial(k, 5, store(flat, 4 * j + k, load(flat, 4 * j + k) + 1.0))),
        ("conditional temporary", Seq((If(load(S, i, j) > 0, store(x, 1.0)), store(T, i, j, load(x))))),
        ("choice by comparison", store(x, select(load(S, i, j) > load(x), load(S, i, j), load(x)))),
        ("sum of a row for each inner iteration", serial(k, 4, store(m, k, load(m, k) + load(S, k, j)))),
        ("sum that its own summand reads", store(m, 0, load(m, 0) + load(m, j))),
        ("break", If(load(S, i, j) > 0, Break())),
        ("while", While(load(x) > 0, store(x, 0.0))),
        ("assert", Assert(load(x) > 0, "")),
        ("print", Print(load(x), "")),
        ("atomic", Atomic(AtomicOp.ADD, G, (j,), as_expr(1.0, FLOAT32))),
        ("half the elements twice", store(flat, j // 2, load(S, i, j))),
    ],
)
def test_is_refused(what, body):
    legality = judge(body)
    assert not legality.independent, what
    assert legality.reason


def test_views_of_one_buffer_are_refused_unless_they_are_only_read():
    view = Buffer("view", exprs(8192), FLOAT32, Scope.FRAGMENT, view_of=S)
    assert not judge(store(S, i, j, load(view, j))).independent
    assert judge(store(T, i, j, load(view, j) + load(S, i, j))).independent


def test_a_bound_name_is_seen_through():
    row = Var("row", INT32, index=True)
    assert judge(Bind(row, 2 * j), store(flat, row, load(flat, row + 1))).independent
    assert not judge(Bind(row, j // 2), store(flat, row, load(flat, row + 1))).independent


def test_a_step_widens_what_is_apart():
    assert lane_legality(j, store(flat, j, load(flat, j + 1)), AROUND, step=2).independent
    assert not lane_legality(j, store(flat, j, load(flat, j + 2)), AROUND, step=2).independent


# -- random loops, run in random interleavings ------------------------------------------------------------------

NEUTRAL = {"+": 0, "*": 1, "min": 2**31 - 1, "max": -(2**31), "^": 0}
COMBINE = {"+": operator.add, "*": operator.mul, "min": min, "max": max, "^": operator.xor}


def run_as_lanes(body, env, seed, legality):
    machine, lanes_own, lanes_running = Machine(seed), [], []
    for value in range(TRIPS):
        own = {}
        for reduction in legality.reductions:
            at = tuple(int(evaluate(index, env)) for index in reduction.indices)
            own[reduction.buffer, at] = {at: NEUTRAL[reduction.op]}
        for b in legality.private:
            own[b, ()] = {(): -77}
        lanes_own.append(own)
        lanes_running.append(machine.run(body, {**env, i: value}, own))
    shuffler = random.Random(seed)
    waiting = list(lanes_running)
    while waiting:
        lane = shuffler.choice(waiting)
        if next(lane, "done") == "done":
            waiting.remove(lane)
    for reduction in legality.reductions:
        at = tuple(int(evaluate(index, env)) for index in reduction.indices)
        if at in machine.memory[reduction.buffer]:
            for own in lanes_own:
                old, part = machine.memory[reduction.buffer][at], own[reduction.buffer, at][at]
                machine.memory[reduction.buffer][at] = int(convert(COMBINE[reduction.op](old, part), INT32))
    for b in legality.private:
        machine.memory[b][()] = lanes_own[-1][b, ()][()]
    return machine.memory


@settings(max_examples=4 * settings().max_examples)
@given(bodies(), st.integers(0, 10**6))
def test_independent_loops_give_the_same_result_in_any_interleaving(body, seed):
    legality = lane_legality(i, body, Domain().with_loop(i, 0, TRIPS).with_range(k, 1, 1))
    event(f"independent: {legality.independent}, reductions: {len(legality.reductions)}, private: {len(legality.private)}")
    if legality.independent:
        env = {k: 1}
        assert run_in_order(body, env, seed) == run_as_lanes(body, env, seed, legality), to_text(body)


def test_keys_of_buffers_in_the_machine_are_elements():
    """The random loops above write rank-0 and out-of-range elements; both must reach memory as the language says."""
    memory = run_in_order(Seq((Store(A, (i + 6,), cast(i, INT32)), Store(y, (), cast(i, INT32)))), {k: 1}, 0)
    assert {(6,): 0, (7,): 1} == {at: memory[A][at] for at in ((6,), (7,))}
    assert {(): TRIPS - 1} == memory[y]
