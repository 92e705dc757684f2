"""Every conflict between threads is separated by a barrier, and no barrier is without one."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilelang.dtypes import BOOL, FLOAT32, INT32
from tilelang.ir.buffer import Buffer, Region, Scope
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Const, Expr, Load, Var, as_expr, const
from tilelang.ir.launch import LaunchPlan
from tilelang.ir.stmt import (
    Alloc,
    Atomic,
    AtomicOp,
    Bind,
    Break,
    CallStmt,
    For,
    ForKind,
    If,
    Launch,
    Seq,
    Stmt,
    Store,
    While,
)
from tilelang.ir.visit import expressions, walk, walk_expr
from tilelang.isa.nvidia.cp_async import CP_ASYNC_COMMIT, CP_ASYNC_WAIT, cp_async
from tilelang.isa.nvidia.sync import BAR_SYNC, SYNC_THREADS, SYNC_WARP
from tilelang.passes.thread.insert_barriers import insert_barriers

THREADS = 64
T = Var("t", INT32, index=True)
BX = Var("bx", INT32, index=True)


def c(value):
    return const(value, INT32)


def index(name):
    return Var(name, INT32, index=True)


def buffer(name, *shape, scope=Scope.SHARED):
    return Buffer(name, tuple(c(e) for e in shape), FLOAT32, scope)


S, R, V2 = buffer("S", 64), buffer("R", 64), buffer("V", 2, 64)
G = buffer("G", 4, 64, scope=Scope.GLOBAL)
ACC = buffer("acc", 8, scope=Scope.LOCAL)


def write(target, *indices):
    return Store(target, tuple(as_expr(i) for i in indices), Const(1.0, FLOAT32))


def read(source, *indices):
    return Store(ACC, (c(0),), Load(source, tuple(as_expr(i) for i in indices), FLOAT32))


def serial(var, trips, *body):
    return For(var, c(0), as_expr(trips), 1, ForKind.SERIAL, Seq(body))


def placed(*body, threads=THREADS, plan=LaunchPlan()):
    launch = Launch((BX,), (c(2),), (threads, 1, 1), Seq((Alloc(ACC), *body)), thread=T, plan=plan)
    return insert_barriers(launch)


def is_barrier(stmt):
    return isinstance(stmt, CallStmt) and stmt.routine in (SYNC_THREADS, SYNC_WARP)


def barriers(launch):
    return [s for s in walk(launch.body) if is_barrier(s)]


class Execution:
    """What every thread touches, and between which barriers: an execution of a program without data."""

    def __init__(self, threads=THREADS, skip=None):
        self.threads = np.arange(threads)
        self.skip = skip
        self.epoch = 0
        self.instance = 0
        self.touched = {}  # (buffer, element, epoch) -> [(instance, thread, write)]

    def run(self, stmt, env, active):
        self.instance += 1
        match stmt:
            case Seq():
                for child in stmt.body:
                    self.run(child, env, active)
            case For():
                for value in range(int(evaluate(stmt.start, env)), int(evaluate(stmt.stop, env)), stmt.step):
                    self.run(stmt.body, {**env, stmt.var: value}, active)
            case If():
                self.reads(stmt, env, active)
                holds = np.broadcast_to(evaluate(stmt.condition, env), active.shape).astype(bool)
                if (active & holds).any():
                    self.run(stmt.then_body, env, active & holds)
                if stmt.else_body is not None and (active & ~holds).any():
                    self.run(stmt.else_body, env, active & ~holds)
            case _ if is_barrier(stmt):
                assert active.all(), "a barrier that some threads do not reach"
                self.epoch += stmt is not self.skip
            case Store():
                self.reads(stmt, env, active)
                if stmt.buffer.scope is not Scope.LOCAL:
                    self.note(stmt.buffer, stmt.indices, env, active, write=True)
        return self

    def reads(self, stmt, env, active):
        for root in expressions(stmt):
            for node in walk_expr(root):
                if isinstance(node, Load) and node.buffer.scope is not Scope.LOCAL:
                    self.note(node.buffer, node.indices, env, active, write=False)

    def note(self, target, indices, env, active, *, write):
        places = [np.broadcast_to(evaluate(i, env), active.shape) for i in indices]
        for thread in self.threads[active]:
            where = (target, tuple(int(p[thread]) for p in places), self.epoch)
            self.touched.setdefault(where, []).append((self.instance, int(thread), write))

    @property
    def races(self):
        return [
            where
            for where, accesses in self.touched.items()
            if any(
                a[0] != b[0] and a[1] != b[1] and (a[2] or b[2]) for a, b in itertools.combinations(accesses, 2)
            )
        ]


def races(launch, skip=None, symbols=()):
    env = {T: np.arange(THREADS), BX: 1, **dict(symbols)}
    return Execution(skip=skip).run(launch.body, env, np.ones(THREADS, bool)).races


# -- random programs --------------------------------------------------------------------------------------------

OWN = [T, (T + 3) % 64, 63 - T, T ^ 5, (T * 5) % 64]
ANY = [*OWN, c(7), T // 2, T % 8 * 8]


@st.composite
def straight_lines(draw, versions=(c(0), c(1))):
    version = st.sampled_from(versions)

    def place(target, forms):
        where = [draw(st.sampled_from(forms))]
        return [draw(version), *where] if target is V2 else where

    body = []
    for kind in draw(st.lists(st.sampled_from("wwrrog"), min_size=2, max_size=7)):
        target = draw(st.sampled_from([S, R, V2]))
        match kind:
            case "w":
                body.append(write(target, *place(target, OWN)))
            case "r":
                body.append(read(target, *place(target, ANY)))
            case "o":
                body.append(If(T == draw(st.integers(0, 63)), write(target, *place(target, [c(7), c(8)]))))
            case "g":
                body.append(draw(st.sampled_from([write(G, BX, T), read(G, BX, (T + 1) % 64), write(G, BX, T ^ 1)])))
    return body


@settings(max_examples=60)
@given(straight_lines())
def test_straight_programs_get_exactly_the_barriers_they_need(body):
    launch = placed(*body)
    assert not races(launch)
    for barrier in barriers(launch):
        assert races(launch, skip=barrier), "a barrier that separates nothing"


@st.composite
def loops(draw):
    k = index("k")
    body = draw(straight_lines(versions=(k % 2, (k + 1) % 2, c(0))))
    if draw(st.booleans()):
        body = [*body[:1], If(k < draw(st.integers(0, 3)), Seq(tuple(body[1:2]))), *body[2:]]
    if draw(st.booleans()):
        j = index("j")
        inner = draw(straight_lines(versions=(j % 2, (k + j) % 2, k % 2)))
        body.append(serial(j, draw(st.integers(0, 3)), *inner))
    trips = index("n") if draw(st.booleans()) else c(draw(st.integers(0, 4)))
    before, after = draw(straight_lines()), draw(straight_lines())
    return [*before, serial(k, trips, *body), *after], trips


@settings(max_examples=60)
@given(loops(), st.integers(0, 4))
def test_programs_with_loops_have_no_race(program, count):
    body, trips = program
    launch = placed(*body)
    assert not races(launch, symbols={} if isinstance(trips, Const) else {trips: count})
